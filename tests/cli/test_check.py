"""`new` and `check`: quick, without torch, every issue with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "calls"),
    [(["--help"], 0.2), (["check", "burgers"], 2.5), (["solve", "--help"], 0.2)],
)
def test_help_and_check_answer_quickly_and_without_torch(arguments, calls):
    # Calls are counted in place of seconds, which depend on the machine and on what else it does.
    # On slow cores, a million of them took a second.
    code = (
        "import cProfile, sys; sys.argv = ['piop', *sys.argv[1:]]\n"
        "profile = cProfile.Profile(); profile.enable()\n"
        "import piop.cli\n"
        "try: piop.cli.main()\n"
        "except SystemExit as e: assert e.code == 0, e.code\n"
        "profile.disable()\n"
        "heavy = {'torch', 'xarray', 'h5py', 'matplotlib', 'scipy.sparse'} & set(sys.modules)\n"
        "print(heavy, sum(entry.callcount for entry in profile.getstats()), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    heavy, counted = run.stderr.strip().splitlines()[-1].rsplit(" ", 1)
    assert heavy == "set()"
    assert int(counted) < calls * 1e6


def test_public_names_are_there_and_cost_nothing_before_they_are_used():
    code = (
        "import sys, piop; print('torch' in sys.modules, 'sympy' in sys.modules)\n"
        "piop.Problem, piop.SpecError; print('torch' in sys.modules)\n"
        "[getattr(piop, name) for name in piop.__all__]; print('torch' in sys.modules)\n"
        "print(set(dir(piop)) >= set(piop.__all__))\n"
        "piop.nonsense"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.split() == ["False", "False", "False", "True", "True"]
    assert "module 'piop' has no attribute 'nonsense'" in run.stderr


def test_a_new_spec_passes_the_check_as_it_is(piop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = piop("new", "mine")
    assert code == 0
    assert all(f"piop {command} mine.yaml" in out for command in ("check", "explore", "solve"))
    code, out, err = piop("check", "mine.yaml")
    assert (code, err) == (0, "")
    assert "mine" in out
    code, out, _ = piop("check", "mine.yaml", "--json")
    assert code == 0
    assert json.loads(out)["name"] == "mine"


def test_a_new_spec_never_replaces_one(piop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("precious")
    code, _, err = piop("new", "mine")
    assert code == 2
    assert "exists already and is not overwritten" in err
    assert (tmp_path / "mine.yaml").read_text() == "precious"


@pytest.mark.parametrize("name", ["1st", "a b", "../..", "a-b", ""])
def test_a_new_spec_needs_a_name(name, piop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = piop("new", name)
    assert code == 2
    assert "cannot name a problem. A name is a letter, then letters" in err
    assert list(tmp_path.iterdir()) == []


def test_a_new_spec_needs_a_folder_that_can_be_written(piop, tmp_path, monkeypatch):
    code, _, err = piop("new", tmp_path / "none" / "mine")
    assert code == 2
    assert "there is no folder" in err

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    code, _, err = piop("new", tmp_path / "mine")
    assert code == 1
    assert "cannot be written: No space left on device" in err


def test_every_issue_of_a_bad_spec_is_told_with_its_place(piop, tmp_path):
    text = Path("pdes/burgers.yaml").read_text()
    bad = text.replace("x: periodic", "x: perodic").replace("unknowns:", "unknown:")
    (tmp_path / "bad.yaml").write_text(bad)
    code, out, err = piop("check", tmp_path / "bad.yaml")
    assert (code, out) == (2, "")
    lines = err.strip().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith(f"{tmp_path / 'bad.yaml'}:") for line in lines)
    assert "Did you mean 'periodic'?" in err
    code, out, _ = piop("check", tmp_path / "bad.yaml", "--json")
    assert code == 2
    issues = json.loads(out)["error"]["issues"]
    assert {"file", "line", "column", "message", "hint"} == set(issues[0])
    assert len(issues) == len(lines)


@pytest.mark.parametrize(
    ("solve", "messages"),
    [
        ("{widht: 8}", ["19:9: solve: 'widht' is not a setting. Did you mean 'width'?"]),
        (
            "{width: a, learning_rate: -1}",
            ["19:9: solve: width: 'a' is not a whole", "19:19: solve: learning_rate: -1.0 must be"],
        ),
        ("{width: 8, backbone: pitt}", ["19:19: solve: 'pitt' is not a backbone"]),
        ("{preset: papr, modes: 3}", ["19:9: solve: 'papr' is not a preset of backbone 'pit'"]),
        ("{width: 0}", ["19:1: solve: width = 0: give a whole number of at least 1"]),
        ("{backbone: pit, preset: paper}", []),
        ("{backbone: fno, modes: 3}", []),
    ],
)
def test_what_solve_would_refuse_of_a_recipe_is_told_by_check(solve, messages, piop, tmp_path):
    text = Path("pdes/heat.yaml").read_text()
    lines = [f"solve: {solve}" if line.startswith("solve:") else line for line in text.splitlines()]
    (tmp_path / "h.yaml").write_text("\n" + "\n".join(lines))
    code, out, err = piop("check", tmp_path / "h.yaml")
    assert code == (2 if messages else 0)
    assert bool(out) == (not messages)
    assert len(err.splitlines()) == len(messages)
    for line, message in zip(err.splitlines(), messages, strict=True):
        assert f"h.yaml:{message}" in line


@pytest.mark.parametrize("command", ["check", "solve", "data"])
def test_a_missing_spec_is_told_with_the_nearest_name(command, piop, tmp_path):
    more = ["-n", "1", "--output", tmp_path / "d.nc"] if command == "data" else []
    code, _, err = piop(command, "burgrs", *more)
    assert code == 2
    assert "burgrs" in err
    assert "Did you mean 'burgers'?" in err
