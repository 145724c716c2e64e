"""Names are names: none is a path, and no text is lost on its way through a file."""

from contextlib import suppress

import pytest
import xarray as xr

from piop.errors import SpecError
from piop.generation import generate
from piop.problem import Problem
from piop.run.folder import new_folder
from piop.spec.load import builtin_names
from piop.spec.tree import ScalarNode

HEAT = Problem.from_file("heat").to_yaml()


def named(name, **words):
    """A spec that differs from the heat equation in its name and labels."""
    return Problem(
        name=name, time={"t": [0, 1]}, space={"x": [0, 1]}, unknowns=["u"],
        equations=["dt(u) = dxx(u)"], initial={"u": "sin(2*pi*x)"}, boundary={"x": "periodic"},
        **words,
    )  # fmt: skip


PATHS = [
    "../../../escaped", "a/b", "/etc/passwd", "..", ".", ".hidden", "-rf", "a\\b", "C:\\x", "~/x",
    "a\u2215b", "a\uff0fb", "\u202efdp", "con/nul", "a:b", "a*", "a|b", "a ", "a.", " ", "x" * 101,
    "a\nb", "a\tb",
]  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_the_name_of_a_problem_is_no_path(name):
    with pytest.raises(SpecError, match=r"(?s)name: .*(is not a name|a value is missing)"):
        named(name)


@pytest.mark.parametrize("name", ["con", "NUL", "aux.yaml", "com1", "Lpt9.tar.gz"])
def test_the_name_of_a_problem_is_no_device(name):
    with pytest.raises(SpecError, match=f"name: '{name}': Windows has no files of this name"):
        named(name)


@pytest.mark.parametrize(
    "name",
    [
        "u",
        "console",
        "com10",
        "heat.nul",
        "heat-1d",
        "1e-3",
        "Heat in a rod (long)",
        "équation",
        "拡散",
        "x" * 100,
    ],
)
def test_a_name_that_is_a_name_calls_its_run_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = new_folder(None, named(name).name, False).path
    assert folder.parent.name == "runs"
    assert folder.name.startswith(f"{name}-2")
    folder.mkdir(parents=True)


def test_the_names_of_the_problems_that_come_with_piop_are_names():
    assert {Problem.from_file(name).name for name in builtin_names()} == {*builtin_names()}


@pytest.mark.parametrize("section", ["unknowns", "inputs", "parameters", "space", "definitions"])
@pytest.mark.parametrize("name", ["../u", "u" * 65, "\u0441"])  # the last is Cyrillic
def test_a_declared_name_is_a_word_of_ascii(section, name):
    text = {
        "unknowns": HEAT.replace("[u]", f'[u, "{name}"]'),
        "inputs": HEAT.replace("inputs:", f'inputs:\n  "{name}": {{law: normal, mean: 0, std: 1}}'),
        "parameters": HEAT.replace("parameters:", f'parameters:\n  "{name}": 1'),
        "space": HEAT.replace("space:", f'space:\n  "{name}": [0, 1]'),
        "definitions": HEAT + f'definitions:\n  "{name}": 2\n',
    }[section]
    assert text != HEAT
    with pytest.raises(SpecError, match="is not a name"):
        Problem.from_yaml(text)


@pytest.mark.parametrize("code", [0x00, 0x07, 0x0B, 0x1B, 0x7F, 0x85, 0x9F, 0x2028, 0xD800, 0xFEFF])
def test_characters_that_a_file_loses_are_refused_with_their_place(code):
    text = HEAT.replace("title: ", f'title: "ab\\U{code:08X}" # ')
    with pytest.raises(SpecError, match=r"the character .* is not allowed") as caught:
        Problem.from_yaml(text, "f.yaml")
    assert caught.value.issues[0].line == 3
    with pytest.raises(SpecError, match=r"the character .* is not allowed"):
        named("heat", title=f"a{chr(code)}")


def test_every_character_that_is_taken_is_given_back(tmp_path):
    taken = []
    for character in map(chr, [*range(0x3000), *range(0xD700, 0x10000, 7), 0x1F600, 0x10FFFF]):
        with suppress(SpecError):
            taken.append(ScalarNode(f"a{character}b").text)
    assert len(taken) > 12_000
    problem = named("heat", title="".join(taken))
    assert Problem.from_yaml(problem.to_yaml()).spec.title == problem.spec.title
    generate(problem, 1, tmp_path / "d.nc", tolerance=0.1)
    with xr.open_dataset(tmp_path / "d.nc", engine="h5netcdf") as data:
        assert data.attrs["title"] == problem.spec.title
