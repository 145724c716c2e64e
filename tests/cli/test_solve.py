"""`solve`, `resume` and `evaluate`: the run folder, the table, and nothing overwritten."""

from __future__ import annotations

import json
import shutil

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
    code, out, err = piop("solve", "heat", "--steps", 2, "--out", copy, "--force", *SMALL)
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
    code, out, _ = piop("evaluate", copy, "--json")
    assert code == 0
    assert json.loads(out)["relative_l2"] == written["relative_l2"]
    _, out, _ = piop("evaluate", copy, "--samples", 3, "--seed", 9, "--json")
    assert len(json.loads(out)["relative_l2"]["per_sample"]) == 3
    assert json.loads(out)["relative_l2"]["mean"] != written["relative_l2"]["mean"]


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
