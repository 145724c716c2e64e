"""Wrong usage ends with 2, says why, and begins nothing."""

from __future__ import annotations

import pytest

from piop.cli.solve import parse_settings
from piop.errors import UsageError

WRONG = {
    "no command": ([], "Usage"),
    "an unknown command": (["slove", "burgers"], "no command 'slove'. Did you mean 'solve'?"),
    "a strange command": (["xyz"], "One of new, check, solve"),
    "an unknown option": (["solve", "heat", "--step", "3"], "No such option"),
    "negative steps": (["solve", "heat", "--steps", "-3"], "-3 is not in the range 1<=x"),
    "no steps": (["solve", "heat", "--steps", "0"], "0 is not in the range"),
    "steps that are no number": (
        ["solve", "heat", "--steps", "many"],
        "'many' is not a valid integer.",
    ),
    "a time that is none": (["solve", "heat", "--time", "abc"], "'abc' is not a length of time"),
    "a negative time": (["solve", "heat", "--time", "-5m"], "'-5m' is not a length of time"),
    "two budgets": (["solve", "heat", "--steps", "1", "--time", "1m"], "not both"),
    "an unknown device": (["solve", "heat", "--device", "tpu"], "'tpu' is not one of"),
    "an unknown precision": (["solve", "heat", "--precision", "half"], "'half' is not one of"),
    "no threads": (["solve", "heat", "--threads", "0"], "0 is not in the range"),
    "endless threads": (["solve", "heat", "--threads", "9" * 30], "not in the range 1<=x<=1024"),
    "a device as a run folder": (["solve", "heat", "--steps", "1", "--out", "Con"], "COM1 … and"),
    "a device as output": (["data", "heat", "-n", "1", "--output", "nul.nc"], "'nul.nc': Windows"),
    "a device as a spec": (["new", "aux"], "'aux.yaml': Windows has no files of this name"),
    "a negative seed": (["solve", "heat", "--seed", "-1"], "-1 is not in the range"),
    "a setting without value": (["solve", "heat", "--set", "bins"], "'bins' is not KEY=VALUE"),
    "an unknown setting": (
        ["solve", "heat", "--steps", "1", "--set", "learning_rat=1"],
        "Did you mean 'learning_rate' (Peak",
    ),
    "a setting of the wrong type": (
        ["solve", "heat", "--steps", "1", "--set", "functions=two"],
        "functions: 'two' is not a whole number",
    ),
    "an unknown kernel": (
        ["solve", "heat", "--steps", "1", "--set", "kernel=cuda"],
        "kernel: 'cuda' is not one of torch, triton",
    ),
    "a kernel that this device lacks": (
        ["solve", "heat", "--steps", "1", "--device", "cpu", "--set", "kernel=triton"],
        "kernel: triton needs a CUDA device, and this run is on 'cpu'",
    ),
    "an unknown backbone": (["solve", "heat", "--steps", "1", "--backbone", "pot"], "'pot'"),
    "data alone without data": (["solve", "heat", "--steps", "1", "--no-physics"], "--data FILE"),
    "missing data": (["solve", "heat", "--steps", "1", "--data", "no.nc"], "no such file"),
    "a start that is no run": (["solve", "heat", "--steps", "1", "--from", "no"], "no such run"),
    "no run to resume": (["resume", "no"], "there is no such run folder"),
    "no run to evaluate": (["evaluate", "no"], "there is no such run folder"),
    "no run to predict with": (["predict", "no", "--output", "p.nc"], "no such run folder"),
    "no samples": (["evaluate", "no", "--samples", "0"], "0 is not in the range"),
    "data without a spec": (["data", "-n", "1", "--output", "d.nc"], "SPEC is missing"),
    "data without a number": (["data", "heat", "--output", "d.nc"], "-n is missing"),
    "data without a place": (["data", "heat", "-n", "1"], "--output is missing"),
    "data of no samples": (["data", "heat", "-n", "0", "--output", "d.nc"], "not in the range"),
    "a tolerance": (
        ["data", "heat", "-n", "1", "--output", "d.nc", "--tolerance", "-1"],
        "tolerance: -1 must be at least 1e-12",
    ),
    "nothing to inspect": (["data", "--inspect", "no.nc"], "no.nc: no such file"),
    "samples to inspect": (
        ["data", "--inspect", "no.nc", "-n", "2"],
        "-n: does nothing with --ins",
    ),
    "a usual seed": (["data", "--inspect", "no.nc", "--seed", "0"], "--seed: does nothing with --"),
    "an output": (
        ["data", "--inspect", "no.nc", "--output", "d.nc"],
        "--output: does nothing with",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_ends_with_2_and_says_why(case, piop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, message = WRONG[case]
    code, out, err = piop(*arguments)
    assert message in err
    assert (code, out) == (2, "")
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.skipif("__import__('torch').cuda.is_available()")
def test_a_device_that_is_not_there_is_refused(piop, tmp_path):
    code, _, err = piop("solve", "heat", "--steps", 1, "--device", "cuda", "--out", tmp_path / "r")
    assert code == 2
    assert "torch sees no CUDA device" in err
    assert not (tmp_path / "r").exists()


def test_settings_are_split_at_the_first_equals_sign():
    assert parse_settings(("a=1", "b = x=y")) == {"a": "1", "b": "x=y"}
    with pytest.raises(UsageError, match="'a' is given twice"):
        parse_settings(("a=1", "a=2"))
