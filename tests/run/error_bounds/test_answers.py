"""Answers to a tolerance: the operator's where its bound allows, else those of the solver."""

from dataclasses import replace
from shutil import copytree

import numpy as np
import pytest
import torch
import xarray as xr

from piop.errors import NotSupportedError, UsageError
from piop.metrics import relative_l2
from piop.run import Run
from piop.run.error_bounds import fallback
from piop.run.error_bounds.fallback import AnswerSource
from piop.run.prediction import put_solutions

X = np.arange(8) / 4
U0 = np.cos(np.pi * X + 0.3)
BOTH = {"u0": np.stack([U0, 30 * U0])}
"""One input of the distribution, and one far outside."""


@pytest.fixture(scope="module")
def calibrated(trained, tmp_path_factory):
    run = Run.load(copytree(trained.path, tmp_path_factory.mktemp("runs") / "calibrated"))
    run.calibrate(150)
    return run


def exact(t, x, size=1.0):
    return size * np.exp(-0.05 * np.pi**2 * (t - 1)) * np.cos(np.pi * x + 0.3)


def test_inputs_outside_the_distribution_are_solved(calibrated):
    found = calibrated.predict(BOTH, tolerance=0.9)
    plain = calibrated.predict(BOTH)
    assert found["source"].values.tolist() == [AnswerSource.OPERATOR, AnswerSource.SOLVER]
    assert found["source"].attrs["flag_meanings"] == "operator solver operator_beyond_tolerance"
    assert np.array_equal(found["u"].values[0], plain["u"].values[0])
    t, x = found["t"].values[:, None], found["x"].values
    assert found["u"].values[1] == pytest.approx(exact(t, x, 30), abs=1e-3)
    assert found["error_bound"].values[1] < 0.9
    assert np.isnan(plain["error_bound"].values[1])
    over_time = found["error_bound_over_time"].values
    assert np.array_equal(over_time[0], plain["error_bound_over_time"].values[0])
    assert np.isnan(over_time[1]).all()
    counts = [found.attrs[f"{n}_answers"] for n in ("operator", "solver", "unsolved")]
    assert counts == [1, 1, 0]
    assert found.attrs["solver_seconds"] > 0


AT = {"t": [1.9, 1.2], "x": [0.1, 1.7, 0.33]}
POINTS = np.array([[1.9, 0.1], [1.234, 1.7], [1.5, 0.33]])


def test_the_solver_answers_at_any_grid(calibrated):
    found = calibrated.predict(BOTH, AT, tolerance=1e-5)
    assert found["source"].values.tolist() == [1, 1]
    for row, size in enumerate((1, 30)):
        expected = exact(np.array(AT["t"])[:, None], np.array(AT["x"]), size)
        assert found["u"].values[row] == pytest.approx(expected, rel=1e-4)


def test_the_solver_answers_at_any_points(calibrated):
    found = calibrated.predict(BOTH, POINTS, tolerance=1e-5)
    assert found["source"].values.tolist() == [1, 1]
    assert found["u"].values[1] == pytest.approx(exact(*POINTS.T, 30), rel=1e-4)


def test_each_sample_may_have_points_of_its_own(calibrated):
    points = np.stack([POINTS, POINTS[::-1]])
    found = calibrated.predict(BOTH, points, tolerance=0.9)
    assert found["source"].values.tolist() == [AnswerSource.OPERATOR, AnswerSource.SOLVER]
    assert found["u"].values[1] == pytest.approx(exact(*points[1].T, 30), rel=1e-2)


def test_answers_keep_to_the_tolerance(calibrated):
    """At most 10 % of answers are beyond it, give or take three deviations of 200."""
    held_out = calibrated.held_out(200, seed=77)
    inputs = {
        n: (s.points[..., 0].numpy(), s.values[..., 0].numpy()) for n, s in held_out.inputs.items()
    }
    at = {name: axis.numpy() for name, axis in held_out.queries.axes.items()}
    bounds = calibrated.predict(inputs, at)["error_bound"].values
    tolerance = float(np.nanmedian(bounds))
    found = calibrated.predict(inputs, at, tolerance=tolerance)
    source = found["source"].values
    assert 0.3 < (source == AnswerSource.OPERATOR).mean() < 0.7
    assert (source != AnswerSource.UNSOLVED).all()
    errors = relative_l2(torch.from_numpy(found["u"].values), held_out.truth["u"]).numpy()
    assert (errors > tolerance).mean() <= 0.1 + 3 * np.sqrt(0.09 / 200)
    assert errors[source == AnswerSource.SOLVER].max() < tolerance


def test_what_the_solver_cannot_answer_is_marked(calibrated, monkeypatch):
    def refuse(*_, **__):
        raise NotSupportedError("no solver for this")

    monkeypatch.setattr(fallback, "solve_reference", refuse)
    found = calibrated.predict(BOTH, tolerance=0.9)
    plain = calibrated.predict(BOTH)
    assert found["source"].values.tolist() == [AnswerSource.OPERATOR, AnswerSource.UNSOLVED]
    assert np.array_equal(found["u"].values, plain["u"].values)
    assert np.isnan(found["error_bound"].values[1])
    assert found.attrs["unsolved_because"] == "no solver for this"
    assert found.attrs["unsolved_answers"] == 1


def test_a_solution_beyond_the_tolerance_is_no_answer(calibrated, monkeypatch):
    """Of two samples that are solved, one misses the tolerance by its own estimate."""
    solve = fallback.solve_reference

    def miss(*given, **settings):
        found = solve(*given, **settings)
        return replace(
            found, error_estimate=torch.tensor([1e-9, 0.3]).double(), notes=("too rough",)
        )

    monkeypatch.setattr(fallback, "solve_reference", miss)
    found = calibrated.predict({"u0": np.stack([20 * U0, 30 * U0])}, tolerance=0.2)
    assert found["source"].values.tolist() == [AnswerSource.SOLVER, AnswerSource.UNSOLVED]
    assert found["error_bound"].values[0] == pytest.approx(1e-9)
    assert np.isnan(found["error_bound"].values[1])
    assert found.attrs["unsolved_because"] == "too rough"


def test_unknowns_may_be_called_as_what_a_prediction_says_of_each_sample():
    """Error estimates are not written into a solution of the same name."""
    own = np.zeros((2, 3))
    found = xr.Dataset(
        {"error_bound": (("sample", "x"), own), "error_estimate": ("sample", [1, 2.0])}
    )
    values = torch.full((1, 3, 1), 7.0).double()
    solved = fallback.Fallback(values, torch.tensor([0.25]).double(), 1.0)
    put_solutions(found, ("error_bound",), torch.tensor([1]), solved)
    assert found["error_bound"].values.tolist() == [[0, 0, 0], [7, 7, 7]]
    assert found["error_estimate"].values.tolist() == [1, 0.25]
    assert found["source"].values.tolist() == [0, 1]


def test_inputs_that_are_no_functions_leave_the_others_solved(calibrated):
    """Noise between sensors that are close cannot be interpolated under the distribution."""
    x = np.array([0.1, 0.1001, 0.7, 1.3, 1.31, 1.6, 1.8, 1.9])
    good = 30 * np.cos(np.pi * x + 0.3)
    bad = good + np.array([30, -30, 0, 0, 0, 0, 0, 0])
    found = calibrated.predict({"u0": (x, np.stack([bad, good]))}, tolerance=0.1)
    assert found["source"].values.tolist() == [AnswerSource.UNSOLVED, AnswerSource.SOLVER]
    assert "do not follow its distribution" in found.attrs["unsolved_because"]


def test_a_tolerance_needs_a_calibration(trained):
    with pytest.raises(UsageError, match="tolerance: the run is not calibrated"):
        trained.predict(BOTH, tolerance=0.1)


@pytest.mark.parametrize("wrong", [0, -1, 1, 2.5, "much"])
def test_a_tolerance_is_a_relative_error(calibrated, wrong):
    with pytest.raises(UsageError, match="tolerance"):
        calibrated.predict(BOTH, tolerance=wrong)
