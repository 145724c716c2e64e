"""Phases of a job end with it, however it ends."""

import time

import pytest

from piop.errors import SolverError, TrainingError, UsageError
from piop.job_phases import JobPhases
from piop.problem import Problem
from piop.run import fit, resume
from piop.training.loop.trainer import Trainer
from tests.small_heat import HEAT


def no_longer_counts(phases):
    """Whether a job counts no more seconds."""
    before = dict(phases.seconds)
    time.sleep(0.02)
    phases.finish()
    return phases.current is None and phases.seconds == before


def test_phases_end_with_a_run_that_is_trained_resumed_and_finished(heat, tmp_path):
    phases = JobPhases()
    run = fit(heat, steps=2, out=tmp_path / "run", samples=1, phases=phases)
    assert list(phases.seconds) == ["preparing", "training", "evaluating"]
    assert all(seconds > 0 for seconds in phases.seconds.values())
    assert no_longer_counts(phases)
    asked = JobPhases()
    fit(heat, steps=2, out=tmp_path / "asked", samples=1, calibrate=20, phases=asked)
    assert list(asked.seconds) == ["preparing", "training", "evaluating", "calibrating"]
    again = JobPhases()
    assert resume(run.path, samples=0, phases=again).unchanged
    assert list(again.seconds) == ["preparing"]
    assert no_longer_counts(again)


def test_phases_end_with_an_error_in_training(heat, tmp_path, monkeypatch):
    def fail(_own):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(Trainer, "run", fail)
    phases = JobPhases()
    with pytest.raises(TrainingError):
        fit(heat, steps=2, out=tmp_path / "run", samples=0, phases=phases)
    assert list(phases.seconds) == ["preparing", "training"]
    assert no_longer_counts(phases)


def test_phases_end_with_a_refusal(heat, tmp_path):
    for job in (
        lambda phases: fit(heat, steps=1, device="tpu", phases=phases),
        lambda phases: resume(tmp_path / "none", phases=phases),
    ):
        phases = JobPhases()
        with pytest.raises(UsageError):
            job(phases)
        assert list(phases.seconds) == ["preparing"]
        assert no_longer_counts(phases)


def test_a_calibration_that_is_asked_for_needs_no_evaluation(heat, tmp_path):
    phases = JobPhases()
    run = fit(heat, steps=2, out=tmp_path / "r", samples=0, calibrate=20, phases=phases)
    assert "evaluating" not in phases.seconds
    assert phases.seconds["calibrating"] > 0
    assert run.calibration is not None
    assert fit(heat, steps=2, out=tmp_path / "none", samples=0).calibration is None


def test_no_one_is_told_to_calibrate_where_the_solver_fails(heat, tmp_path, caplog, monkeypatch):
    def fail(*_, **__):
        raise SolverError("it blows up")

    run = fit(heat, steps=1, out=tmp_path / "r", samples=0)
    monkeypatch.setattr(type(run), "calibrate", fail)
    with caplog.at_level("INFO"):
        run.calibrate_after_training(20, lambda *_: None, 0.0)
    assert "answers have no error bound: it blows up" in caplog.text
    assert "--calibrate" not in caplog.text


def test_one_solution_is_not_calibrated_and_no_one_is_told_to(tmp_path, caplog):
    lines = HEAT.replace("{u: u0}", "{u: sin(pi*x)}").splitlines()
    text = "\n".join(line for line in lines if "u0:" not in line and line != "inputs:")
    phases = JobPhases()
    with caplog.at_level("INFO"):
        run = fit(Problem.from_yaml(text), time="1s", out=tmp_path / "r", samples=0, phases=phases)
        run.calibrate_after_training(None, lambda *_: None, 60.0)
        assert "bound" not in caplog.text
        run.calibrate_after_training(20, lambda *_: None, 0.0)
    assert "calibrating" not in phases.seconds
    assert "has no inputs, so there is one solution" in caplog.text
    for asked in ({"tolerance": 0.1}, {"refine": True}):
        with pytest.raises(UsageError, match=r"has none.*measured by: piop evaluate \S+$"):
            run.predict(**asked)
    assert "--calibrate" not in caplog.text
