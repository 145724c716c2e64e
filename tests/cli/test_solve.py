"""`solve`, `resume` and `evaluate`: the run folder, the table, and nothing overwritten."""

from __future__ import annotations

import json
import shutil

import pytest

SMALL = ["--set", "functions=2", "--set", "queries=16", "--no-compile", "--device", "cpu"]


def test_a_run_folder_holds_what_the_design_says(finished):
    names = {p.name for p in finished.iterdir()}
    assert names >= {"spec.yaml", "config.json", "metrics.jsonl", "model.safetensors", "state"}
    assert names >= {"evaluation.json", "figures"}
    figures = {p.name for p in (finished / "figures").iterdir()}
    assert figures == {"losses.png", "predictions.png", "residual.png", "error_over_time.png"}
    assert all(p.read_bytes()[:4] == b"\x89PNG" for p in (finished / "figures").iterdir())


def test_an_error_is_json_too_where_json_is_asked_for(piop):
    code, out, err = piop("evaluate", "nowhere", "--json")
    error = json.loads(out)["error"]
    assert (code, error["exit_code"], error["type"]) == (2, 2, "UsageError")
    assert error["message"] in err


def test_a_run_folder_is_never_overwritten_unless_forced(piop, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "r")
    before = (copy / "model.safetensors").read_bytes()
    code, _, err = piop("solve", "heat", "--steps", 1, "--out", copy, *SMALL)
    assert code == 2
    assert "exists already" in err
    assert (copy / "model.safetensors").read_bytes() == before
    few = ("--steps", 2, "--samples", 64)
    code, out, err = piop("solve", "heat", *few, "--out", copy, "--force", *SMALL)
    assert code == 0
    assert (copy / "model.safetensors").read_bytes() != before
    for words in ("Relative L2 error on 64 held-out", "operator", "±", "stays at u0", "reference"):
        assert words in out
    assert "Trained 2 steps" in out
    assert f"Run folder: {copy}" in out
    assert "step 2 (100 %)" in err


def test_evaluating_again_gives_the_same_numbers(piop, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "r")
    written = json.loads((finished / "evaluation.json").read_text())
    code, out, _ = piop("evaluate", copy, "--samples", 64, "--json")
    assert code == 0
    again = json.loads(out)["relative_l2"]
    assert again.keys() == written["relative_l2"].keys()
    for name, value in again.items():  # up to rounding: time decides how many are predicted at once
        assert value == pytest.approx(written["relative_l2"][name], rel=1e-6)
    _, out, _ = piop("evaluate", copy, "--samples", 3, "--seed", 9, "--json")
    assert len(json.loads(out)["relative_l2"]["per_sample"]) == 3
    assert json.loads(out)["relative_l2"]["mean"] != written["relative_l2"]["mean"]


def test_errors_over_sensors_and_grids_are_told_written_and_drawn(piop, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "r")
    asked = ["--sensors", "25%,100%", "--grid", "8,16", "--samples", 3]
    code, out, err = piop("evaluate", copy, *asked)
    assert code == 0
    first, header, *rows = out.splitlines()
    assert first == "Relative L2 error on 3 held-out inputs"
    assert header.split() == ["sensors", "grid", "8", "grid", "16"]
    assert [row.split()[0] for row in rows[:2]] == ["25%", "100%"]
    assert (copy / "figures" / "discretisation.png").stat().st_size > 0
    assert "discretisation.png" in err
    written = json.loads((copy / "discretisation.json").read_text())
    code, out, _ = piop("evaluate", copy, *asked, "--json")
    assert json.loads(out) == {"run": str(copy), **written}
    before = (finished / "evaluation.json").read_bytes()
    assert (copy / "evaluation.json").read_bytes() == before  # judging so changes no evaluation


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--sensors", "none"], "'none' is neither a percentage"),
        (["--sensors", "0%,50%"], "'0%' is neither a percentage"),
        (["--grid", "64x64"], "the axes of space are x"),
        (["--grid", "many"], "'many' is not a grid"),
        (["--grid", ""], "'' is not a grid"),
    ],
)
def test_bad_sensors_and_grids_are_wrong_usage(piop, finished, tmp_path, asked, message):
    copy = shutil.copytree(finished, tmp_path / "r")
    code, out, err = piop("evaluate", copy, *asked)
    assert (code, out) == (2, "")
    assert message in err
    assert not (copy / "discretisation.json").exists()


def test_resuming_a_finished_run_changes_nothing(piop, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "r")
    assert piop("resume", copy, "--json")[0] == 0
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (copy / name).read_bytes() == (finished / name).read_bytes()
    assert piop("resume", copy, "--steps", 2, "--time", "1m")[0] == 2


def test_a_changed_spec_is_refused_on_resume(piop, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "r")
    text = (copy / "spec.yaml").read_text()
    (copy / "spec.yaml").write_text(text.replace("nu: 0.01", "nu: 0.02"))
    for command in ("resume", "evaluate"):
        code, _, err = piop(command, copy)
        assert code == 2
        assert "was changed since the run began" in err
