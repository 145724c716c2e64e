"""Runs whose operator is applied window after window."""

import json

import numpy as np
import pytest
import torch

from piop.errors import TrainingError, UsageError
from piop.problem import Problem
from piop.run import Run, fit, resume
from tests.training.steps import BURGERS

SMALL = {"width": 8, "blocks": 1, "heads": 2, "functions": 4, "queries": 16, "windows": 3}


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(BURGERS)


@pytest.fixture(scope="module")
def run(problem, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "windows"
    return fit(problem, steps=6, settings=SMALL, out=folder, samples=4, compile=False, seed=1)


def at_rest(problem):
    x = np.arange(8) / 4
    return {"u0": (x, np.sin(np.pi * x)[None])}


def test_the_run_is_loaded_with_its_windows(run, problem):
    assert run.statistics.windows == 3
    loaded = Run.load(run.path)
    assert loaded.problem == problem
    inputs = at_rest(problem)
    found, same = run.predict(inputs).u, loaded.predict(inputs).u
    np.testing.assert_array_equal(found, same)
    assert found.shape == (1, 5, 16)
    np.testing.assert_allclose(found[0, 0], np.sin(np.pi * np.arange(16) / 8), atol=1e-5)


def test_points_and_grid_give_the_same(run, problem):
    grid = run.predict(at_rest(problem)).u.transpose("sample", "t", "x")
    t, x = np.meshgrid(grid.t, grid.x, indexing="ij")
    points = np.stack([t.ravel(), x.ravel()], -1)
    found = run.predict(at_rest(problem), at=points).u
    np.testing.assert_allclose(found[0], grid.values[0].ravel(), atol=1e-5)


def test_the_solution_is_continuous_from_window_to_window(run, problem):
    times = np.array([1 / 3 - 1e-6, 1 / 3 + 1e-6])
    found = run.predict(at_rest(problem), at={"t": times, "x": np.linspace(0, 1.75, 8)}).u
    np.testing.assert_allclose(found[0, 0], found[0, 1], atol=1e-3)


def test_the_evaluation_has_errors_and_a_residual_of_all_windows(run):
    found = json.loads((run.path / "evaluation.json").read_text())
    assert len(found["relative_l2"]["per_sample"]) == 4
    assert 0 < found["residual"]["equation 1"] < 100


@pytest.mark.parametrize("lbfgs", [0.0, 0.5])
def test_a_resumed_run_is_exactly_the_same(problem, run, lbfgs, tmp_path):
    # the learning rate follows the budget, so it is stopped within one
    def stop(row):
        if row["step"] >= (14 if lbfgs else 3):
            raise RuntimeError("stop")

    folder = tmp_path / "stopped"
    settings = {**SMALL, "checkpoint": 1e-9, "lbfgs": lbfgs}
    steps = 20 if lbfgs else 6
    plain = {"steps": steps, "settings": settings, "seed": 1, "samples": 0, "compile": False}
    if lbfgs:
        run = fit(problem, out=tmp_path / "whole", **plain)
    with pytest.raises(TrainingError, match="failed at step"):
        fit(problem, out=folder, progress=stop, **plain)
    resumed = resume(folder, samples=0)
    for name, value in run.model.operator.state_dict().items():
        torch.testing.assert_close(resumed.model.operator.state_dict()[name], value, rtol=0, atol=0)


def test_figures_show_the_residual_of_all_windows(run, tmp_path):
    run.plot("residual", tmp_path / "residual.png")
    assert (tmp_path / "residual.png").stat().st_size > 1000


def test_what_windows_are_not_for_is_refused(problem, tmp_path):
    for settings, message in (
        ({"windows": 4, "constraints": "soft"}, "soft constraint"),
        ({"windows": 4, "backbone": "fno"}, "windows: does nothing here"),
        ({"windows": -1}, "windows: -1"),
        ({"windows": 101}, "windows: 101"),
        ({"windows": "x"}, "windows"),
    ):
        own = dict(settings)
        backbone = own.pop("backbone", None)
        with pytest.raises(UsageError, match=message):
            fit(problem, steps=1, settings=own, backbone=backbone, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
