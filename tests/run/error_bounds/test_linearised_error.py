"""Predictions less their linearised error: more accurate where a lattice resolves solutions."""

import math
from shutil import copytree

import numpy as np
import pytest
import torch

from piop.errors import UsageError
from piop.metrics import relative_l2
from piop.problem import Problem
from piop.run import Run, fit
from piop.run.error_bounds.calibration import mean_of_selection
from piop.run.error_bounds.linearised_error import LinearisedError, concatenate

SIZES = {"amplitude": [0.3, 0.8], "wavenumber": [1, 2]}


@pytest.fixture(scope="module")
def calibrated(trained, tmp_path_factory):
    run = Run.load(copytree(trained.path, tmp_path_factory.mktemp("runs") / "calibrated"))
    run.calibrate(60)
    return run


@pytest.fixture(scope="module")
def walls(tmp_path_factory):
    """A nonlinear problem with slopes on its walls, hardly trained."""
    problem = Problem(
        name="growth",
        time={"t": [0, 2]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"u0": {"of": ["x"], "law": "fourier_series", "terms": 2, **SIZES}},
        equations=["dt(u) = 0.02*dxx(u) + u*(1 - u)"],
        initial={"u": "0.4 + 2*u0*x**2*(1 - x)**2"},
        boundary={"x": {"neumann": {"u": 0}}},
        save={"t": 21, "x": 33},
    )
    out = tmp_path_factory.mktemp("runs") / "walls"
    run = fit(problem, steps=80, out=out, samples=0, calibrate=0)
    run.calibrate(30)
    return run


@pytest.fixture(scope="module")
def flow(creeping_flow, tmp_path_factory):
    """Its operator, hardly trained."""
    out = tmp_path_factory.mktemp("runs") / "flow"
    plain = {"settings": {"form": "strong"}, "samples": 0, "calibrate": 0}
    run = fit(creeping_flow, steps=20, out=out, **plain)
    run.calibrate(30)
    return run


def test_several_batches_have_the_errors_of_all_at_once(calibrated):
    inputs = calibrated.held_out(10, seed=5).inputs
    linearised = LinearisedError(
        calibrated.solved, calibrated.model, calibrated.calibration.correction
    )
    whole = linearised(inputs)
    parts = [
        linearised({n: s.take(part) for n, s in inputs.items()})
        for part in (slice(4), slice(4, 10))
    ]
    together = concatenate(parts)
    torch.testing.assert_close(together.relative(), whole.relative(), rtol=1e-5, atol=0)
    torch.testing.assert_close(together.corrected, whole.corrected, rtol=1e-5, atol=1e-6)


def errors_of(run, refine, at=None, count=40):
    held_out = run.held_out(count, seed=77)
    values = {
        n: (s.points[..., 0].numpy(), s.values[..., 0].numpy()) for n, s in held_out.inputs.items()
    }
    axes = {n: a.numpy() for n, a in held_out.queries.axes.items()}
    found = run.predict(values, axes if at is None else at, refine=refine)
    return found, held_out, values


@pytest.mark.parametrize("name", ["calibrated", "walls"])
def test_corrected_predictions_are_more_accurate_and_their_bounds_hold(name, request):
    run = request.getfixturevalue(name)
    mean, bounds = [], []
    for refine in (False, True):
        found, held_out, _ = errors_of(run, refine)
        errors = relative_l2(torch.from_numpy(found["u"].values), held_out.truth["u"])
        mean.append(float(errors.mean()))
        bound = found["error_bound"].values
        covered = np.isfinite(bound)
        assert (errors.numpy() <= bound)[covered].mean() > 0.7
        bounds.append(float(np.median(bound[covered])))
        assert ("refined" in found.attrs) == refine
    assert mean[1] < mean[0] / 5
    assert bounds[1] < bounds[0] / 2  # the reference's own error is in them


def test_steady_systems_are_corrected_in_all_unknowns(flow):
    before, held_out, values = errors_of(flow, refine=False)
    after, _, _ = errors_of(flow, refine=True)
    for name in flow.problem.channels:
        truth = held_out.truth[name]
        mean = [
            float(relative_l2(torch.from_numpy(found[name].values), truth).mean())
            for found in (before, after)
        ]
        assert mean[1] < mean[0] / 20
        bound = after[f"error_bound_{name}"].values
        covered = np.isfinite(bound)  # one input in a hundred counts as outside the distribution
        assert covered.mean() > 0.9
        errors = relative_l2(torch.from_numpy(after[name].values), truth).numpy()
        assert (errors <= bound)[covered].mean() > 0.7
    assert flow.calibration.correlation > 0.9
    assert len(flow.calibration.correction) == 3
    x, y = after["x"].values, after["y"].values
    rows, columns = np.array([20, 3, 11, 0]), np.array([5, 0, 20, 7])
    points = np.stack([x[rows], y[columns]], -1)
    at_points = flow.predict(values, points, refine=True)["v"].values
    assert at_points == pytest.approx(after["v"].values[:, rows, columns], abs=2e-6)


@pytest.mark.parametrize("name", ["calibrated", "walls"])
def test_points_are_corrected_as_grids_are(name, request):
    run = request.getfixturevalue(name)
    found, _, values = errors_of(run, refine=True)
    t, x = found["t"].values, found["x"].values
    rows, columns = np.array([20, 3, 11, 0]), np.array([5, 0, 30, 7]) % len(x)
    rows %= len(t)
    points = np.stack([t[rows], x[columns]], -1)
    expected = found["u"].values[:, rows, columns]
    at_points = run.predict(values, points, refine=True)["u"].values
    assert at_points == pytest.approx(expected, abs=2e-6)
    own = np.stack([np.roll(points, k, 0) for k in range(len(expected))])
    each = run.predict(values, own, refine=True)["u"].values
    rolled = np.stack([np.roll(row, k) for k, row in enumerate(expected)])
    assert each == pytest.approx(rolled, abs=2e-6)
    one = {name: (at[:1], array[:1]) for name, (at, array) in values.items()}
    of_one = run.predict(one, own, refine=True)["u"].values
    rolled = np.stack([np.roll(expected[0], k) for k in range(len(own))])
    assert of_one == pytest.approx(rolled, abs=2e-6)


def test_what_cannot_be_corrected_is_refused(trained, tmp_path):
    inputs = {"u0": np.cos(np.pi * np.arange(8) / 4)}
    with pytest.raises(UsageError, match=r"refine: the run is not calibrated.*--calibrate"):
        trained.predict(inputs, refine=True)
    with pytest.raises(UsageError, match="refine"):
        trained.predict(inputs, refine="yes")
    plane = Problem(
        name="plane",
        time={"t": [0, 1]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        inputs={"u0": {"of": ["x", "y"], "law": "fourier_series", "terms": 1, **SIZES}},
        equations=["dt(u) = 0.01*lap(u)"],
        initial={"u": "u0"},
        boundary={"x": "periodic", "y": "periodic"},
        sensors={"u0": {"count": [8, 8], "place": "grid"}},
        save={"t": 3, "x": 8, "y": 8},
    )
    run = fit(plane, steps=2, out=tmp_path / "run", samples=0, calibrate=0)
    run.calibrate(20)
    with pytest.raises(UsageError, match="no correction of this operator"):
        run.predict({"u0": np.ones((8, 8))}, refine=True)


def test_a_correction_that_is_no_better_is_not_kept(trained, tmp_path, monkeypatch):
    run = Run.load(copytree(trained.path, tmp_path / "run"))

    def far_off(self, errors, queries):
        return torch.ones(len(errors), math.prod(queries.shape), 1)

    monkeypatch.setattr(LinearisedError, "interpolate", far_off)
    found = run.calibrate(20)
    assert found.corrected is None
    assert found.correction == ()


def test_choices_do_not_look_at_the_inputs_that_scores_come_from():
    errors = {"u": torch.arange(9.0), "v": torch.zeros(9)}
    assert mean_of_selection(errors) == 3.0  # inputs 0, 3, 6
    others = {"u": errors["u"] + 100 * (torch.arange(9) % 3 > 0), "v": errors["v"]}
    assert mean_of_selection(others) == 3.0


def test_a_corrected_prediction_finds_its_error_once(walls, monkeypatch):
    calls, find = [], LinearisedError.__call__

    def counted(self, observed):
        calls.append(self.lattice)
        return find(self, observed)

    monkeypatch.setattr(LinearisedError, "__call__", counted)
    found, _, _ = errors_of(walls, refine=True, count=3)
    assert np.isfinite(found["residual"].values).all()
    assert len(calls) == 1
