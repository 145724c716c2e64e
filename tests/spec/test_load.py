"""Files: what cannot be read, and paths that must stay inside."""

import os
from pathlib import Path

import pytest
import yaml

from piop.errors import Issue, Place, SpecError, UsageError
from piop.problem import Problem
from piop.spec.load import draft_file
from piop.spec.reader import refuse
from piop.spec.tree import read_objects

WITH_FILE = """
name: a
time: {t: [0, 1]}
space: {x: [0, 1]}
unknowns: [u]
inputs: {u0: {of: [x], law: from_file, path: PATH}}
equations: [dt(u) = dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
"""


@pytest.mark.parametrize("path", ["../up.nc", "/etc/passwd", "a/../../b.nc", "link/x.nc"])
def test_paths_of_a_spec_stay_inside_its_folder(path, tmp_path):
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    file = folder / "a.yaml"
    file.write_text(WITH_FILE.replace("PATH", path))
    with pytest.raises(SpecError, match=r"6:46: inputs.u0.path: .* leads out of the folder"):
        Problem.from_file(file)


def test_a_path_inside_is_resolved_and_python_may_pass_any(tmp_path):
    (tmp_path / "a.yaml").write_text(WITH_FILE.replace("PATH", "data/u0.nc"))
    law = Problem.from_file(tmp_path / "a.yaml").inputs[0].distribution
    assert law.file == tmp_path.resolve() / "data/u0.nc"
    assert law.path == "data/u0.nc"
    problem = Problem(
        name="a", time={"t": [0, 1]}, space={"x": [0, 1]}, unknowns=["u"],
        inputs={"u0": {"of": ["x"], "law": "from_file", "path": Path("/data/u0.nc")}},
        equations=["dt(u) = dxx(u)"], initial={"u": "u0"}, boundary={"x": "periodic"},
    )  # fmt: skip
    assert problem.inputs[0].distribution.file == Path("/data/u0.nc")


def test_files_that_cannot_be_read_say_why(tmp_path):
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        draft_file(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"piop: 1\nname: \xff\n")
    with pytest.raises(SpecError, match=r"b.yaml:2:7: this is not UTF-8"):
        draft_file(tmp_path / "b.yaml")
    with pytest.raises(SpecError, match=r"no built-in problem. Did you mean 'burgers'"):
        Problem.from_file("burger")
    with pytest.raises(SpecError, match=r"pdes/burgrs.yaml: no such file. Did you mean 'burgers'"):
        Problem.from_file("pdes/burgrs.yaml")
    for name in ("pdes/mine.yaml", "mine.yaml"):
        with pytest.raises(SpecError) as raised:
            Problem.from_file(name)
        assert "no such file" in str(raised.value)
        assert "wave" not in str(raised.value)  # a list of all names would hide it
    for name in ("a\0b", "a\ud800b", "x" * 5000):
        with pytest.raises(UsageError, match=r"path: '.*': cannot be used as a path \("):
            Problem.from_file(name)
    with pytest.raises(SpecError, match=r"no built-in problem. Those are .* wave"):
        Problem.from_file("")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("time: {t: [0, 1]}", "time: {t: [1, 0]}"),
        ("time: {t: [0, 1]}", "time: {t: [0, T]}"),
        ("time: {t: [0, 1]}", "time: [0, 1]"),
        ("time: {t: [0, 1]}", "tme: {t: [0, 1]}"),
        ("space: {x: [0, 1]}", "space: {x: [0, L]}"),
        ("space: {x: [0, 1]}", "space: {x: 1}"),
    ],
)
def test_axes_that_cannot_be_read_are_told_alone(right, wrong):
    text = WITH_FILE.replace("[x], law: from_file, path: PATH", "[], law: constant, value: 1")
    text = text.replace("dxx(u)", "1*dxx(u)") + "save: {t: 10, x: 32}\nunits: {t: s, x: m}\n"
    Problem.from_yaml(text)
    with pytest.raises(SpecError) as raised:
        Problem.from_yaml(text.replace(right, wrong))
    assert len(raised.value.issues) == 1
    assert raised.value.issues[0].line == 1 + text[: text.index(right)].count("\n")


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(SpecError, match="is not a regular file"):
            Problem.from_file(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'name: "\x00"', r":1:7: the character '\\x00' is not allowed"),
        (r'title: "a\uD800"', r":1:8: the character '\\ud800' is not allowed"),
        (r'name: "\UFFFFFFFF"', "this is not YAML that can be read"),
    ],
)
def test_characters_that_no_spec_can_be_written_with_are_refused(text, message):
    with pytest.raises(SpecError, match=message):
        Problem.from_yaml(text)


def test_sections_have_a_limit_that_is_named():
    many = {"unknowns": [f"u{i}" for i in range(33)]}
    with pytest.raises(SpecError, match="unknowns: 33 of them; at most 32 are possible"):
        Problem(**yaml.safe_load(WITH_FILE) | many)
    with pytest.raises(SpecError, match=r"space.x: 1e\+60 is too far from zero; at most 1e\+50"):
        Problem(**yaml.safe_load(WITH_FILE) | {"space": {"x": [0, 1e60]}})


def test_objects_that_no_spec_can_hold_are_refused():
    with pytest.raises(SpecError, match=r"Problem.name: object cannot be part of a spec"):
        Problem(name=object())
    with pytest.raises(SpecError, match="not part of the spec language"):
        import sympy

        read_objects(sympy.besselj(0, sympy.Symbol("x")))


def test_numbers_and_nests_without_end_are_refused():
    nest: list = []
    nest.append(nest)
    keys = {None: 1}
    for value, message in (
        (nest, r"Problem.inputs\[0\].* nested deeper than 12 levels"),
        (10**5000, "Problem.inputs: a number too large to be finite"),
        (keys, "Problem.inputs: NoneType cannot be part of a spec"),
    ):
        with pytest.raises(SpecError, match=message):
            Problem(name="a", inputs=value)


def test_issues_without_a_text_have_no_line():
    with pytest.raises(SpecError) as caught:
        Problem(name="a", space={"x": [0, 1]}, unknowns=["u"], equations=["lap(u) = w"])
    assert str(caught.value) == "<python>: equations: 'w' is not declared"


def test_a_hint_follows_a_full_stop():
    issues: list[Issue] = []
    refuse(issues, Place("f", 1, 2), "wrong", "Try this.")
    assert str(issues[0]) == "f:1:2: wrong. Try this."
