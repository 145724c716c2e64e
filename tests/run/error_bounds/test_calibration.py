"""Error bounds of single answers, learned from inputs that were never trained on."""

import json
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from piop.datasets import Queries, read_dataset
from piop.errors import DamagedFileError, NotSupportedError, UsageError
from piop.generation import generate
from piop.json_values import json_value
from piop.metrics import relative_l2
from piop.problem import Problem
from piop.run import Run, fit
from piop.run.error_bounds import calibration
from piop.run.error_bounds.calibration import (
    Calibration,
    calibrate_model,
    errors_and_estimates,
)
from piop.run.error_bounds.residual_size import ResidualSize
from piop.run.evaluation import OperatorJudge
from piop.run.held_out import HeldOut
from piop.sampling import Draws
from piop.sampling.random import CALIBRATION, HELD_OUT
from tests.small_heat import HEAT


@pytest.fixture(scope="module")
def calibrated(trained, tmp_path_factory):
    """150 inputs, of which 50 choose the indicator."""
    run = Run.load(copytree(trained.path, tmp_path_factory.mktemp("runs") / "calibrated"))
    run.calibrate(150)
    return run


def inputs_and_errors(run, count, seed):
    held_out = run.held_out(count, seed=seed)
    values = {
        n: (s.points[..., 0].numpy(), s.values[..., 0].numpy()) for n, s in held_out.inputs.items()
    }
    found = run.predict(values, {n: a.numpy() for n, a in held_out.queries.axes.items()})
    return found, relative_l2(torch.from_numpy(found["u"].values), held_out.truth["u"])


def test_bounds_hold_as_often_as_stated(calibrated):
    found, errors = inputs_and_errors(calibrated, 300, seed=123)
    bounds = found["error_bound"].values
    covered = np.isfinite(bounds)
    assert covered.mean() > 0.95  # the others are called unusual, at 1 %
    held = errors.numpy()[covered] <= bounds[covered]
    # 0.9 ± 3 deviations, of 100 scores (0.03) and of 300 inputs (0.017)
    assert 0.8 < held.mean() < 1
    assert found["error_bound"].attrs["confidence"] == "0.9"
    assert found["error_bound"].attrs["calibration_inputs"] == "100"
    half = errors.numpy()[covered] <= found["error_estimate"].values[covered]
    assert 0.35 < half.mean() < 0.65


def test_bounds_hold_at_each_time(calibrated):
    held_out = calibrated.held_out(300, seed=123)
    found, _ = inputs_and_errors(calibrated, 300, seed=123)
    bounds = found["error_bound_over_time"]
    assert bounds.dims == ("sample", "t")
    truth = held_out.truth["u"].numpy()
    size = np.sqrt((truth**2).mean((1, 2)))[:, None]
    errors = np.sqrt(((found["u"].values - truth) ** 2).mean(2)) / size
    covered = np.isfinite(found["error_bound"].values)
    assert np.isnan(bounds.values[~covered]).all()
    held = (errors <= bounds.values)[covered][:, 1:].mean(0)  # the initial data are met exactly
    assert (held > 0.8).all()
    assert held.mean() < 0.98
    later = calibrated.predict(
        {"u0": np.cos(np.pi * np.arange(8) / 4 + 0.3)}, {"t": [1.0, 1.001, 1.05], "x": [0.0]}
    )["error_bound_over_time"].values[0]
    assert later[0] < later[1]  # between two times the larger of their bounds
    points = calibrated.predict({"u0": np.cos(np.pi * np.arange(8) / 4)}, np.array([[1.2, 0.3]]))
    assert "error_bound_over_time" not in points


def test_a_higher_confidence_bounds_more(calibrated):
    inputs = {"u0": np.cos(np.pi * np.arange(8) / 4 + 0.3)}
    bounds = [
        float(calibrated.predict(inputs, confidence=c)["error_bound"].item())
        for c in (0.5, 0.9, 0.99)
    ]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[2]


def test_other_inputs_are_not_covered(calibrated):
    x = np.arange(8) / 4
    usual = np.cos(np.pi * x + 0.3)
    found = calibrated.predict({"u0": np.stack([usual, 30 * usual])})
    assert np.isfinite(found["error_bound"].values).tolist() == [True, False]
    assert np.isfinite(found["error_estimate"].values).tolist() == [True, False]
    fewer = calibrated.predict({"u0": (x[::2], usual[::2])})
    assert np.isnan(fewer["error_bound"].values).all()


def test_the_same_input_has_the_same_bound_whatever_is_asked_of_it(calibrated):
    x = np.arange(8) / 4
    several = np.stack([np.cos(np.pi * x + phase) for phase in (0.1, 0.5, 0.9, 1.3, 1.7)])
    whole = calibrated.predict({"u0": several})["error_bound"].values
    alone = calibrated.predict({"u0": several[3]}, {"t": [1.5], "x": [0.3]})["error_bound"].values
    assert alone == pytest.approx(whole[3:4], rel=1e-9)


def test_too_few_inputs_for_the_confidence_are_refused(calibrated):
    inputs = {"u0": np.cos(np.pi * np.arange(8) / 4 + 0.3)}
    with pytest.raises(UsageError, match="at least 199 inputs; there are 100"):
        calibrated.predict(inputs, confidence=0.995)


@pytest.mark.parametrize("count", [1, 19, -5, 2.5, "many"])
def test_too_few_inputs_are_refused_before_anything_is_done(calibrated, heat, tmp_path, count):
    before = (calibrated.path / "calibration.json").read_text()
    with pytest.raises(UsageError, match="calibrate: "):
        calibrated.calibrate(count)
    assert (calibrated.path / "calibration.json").read_text() == before
    with pytest.raises(UsageError, match="calibrate: "):
        fit(heat, steps=1, calibrate=count, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_inputs_are_apart_from_those_of_the_evaluation():
    numbers = [Draws.of(p, 3, range(4)).uniform("u", 5) for p in (CALIBRATION, HELD_OUT)]
    assert not (numbers[0] == numbers[1]).any()
    first = [Draws.of(p, 3, range(4), scheme=1).uniform("u", 5) for p in (CALIBRATION, HELD_OUT)]
    assert not (first[0] == first[1]).any()


def test_inputs_without_time_for_their_residuals_are_left_out(trained, monkeypatch):
    now, size = [0.0], ResidualSize.__call__

    def slow(self, observed, first_order=None):
        now[0] += len(observed["u0"].values)
        return size(self, observed, first_order)

    monkeypatch.setattr(ResidualSize, "__call__", slow)
    monkeypatch.setattr(calibration, "time", SimpleNamespace(monotonic=lambda: now[0]))
    problem, model = trained.problem, trained.model
    judged = trained.sources.for_calibration(problem, 90, 0, 64).judging(
        OperatorJudge(problem, model), None, None
    )
    counts = {}
    for seconds in (10.0, 100.0, 1e6):
        found = calibrate_model(problem, model, trained.config, judged, {}, seconds)
        counts[seconds] = found.count + found.selection
    assert counts == {10.0: 20, 100.0: 50, 1e6: 90}


def test_solutions_of_which_an_unknown_is_zero_give_no_bound(tmp_path, caplog):
    """They have no relative error, so that no input is left."""
    text = HEAT.replace("unknowns: [u]", "unknowns: [u, v]").replace("{u: u0}", "{u: u0, v: 0}")
    problem = Problem.from_yaml(text.replace("0.05*dxx(u)]", "0.05*dxx(u), dt(v) = dxx(v) - u*v]"))
    with caplog.at_level("INFO"):
        run = fit(problem, steps=1, out=tmp_path / "run", samples=2, calibrate=20, device="cpu")
    assert "0 of the 20 inputs that are needed have a reference solution whose" in caplog.text
    assert run.calibration is None


def test_systems_without_space_are_calibrated(tmp_path):
    problem = Problem.from_file("lotka_volterra")
    run = fit(problem, steps=2, out=tmp_path / "run", samples=2, calibrate=20, device="cpu")
    assert run.calibration.over_time.shape == (13, len(run.calibration.times))
    found = run.predict({"u0": [1.0], "v0": [1.5], "a": [1.2]})
    assert found["error_bound_over_time"].dims == ("sample", "t")


@pytest.fixture
def own(heat, tmp_path):
    return fit(heat, steps=2, out=tmp_path / "own", samples=2, calibrate=30, device="cpu")


def test_training_calibrates_where_asked(own):
    found = json.loads((own.path / "calibration.json").read_text())
    assert found["hash"] == own.problem.hash
    assert found["steps"] == 2
    assert len(found["scores"]["u"]) == 20
    assert found["selection"] == 10
    again = Run.load(own.path).calibration
    assert again.joint.tolist() == own.calibration.joint.tolist()
    assert again.indicator == own.calibration.indicator


def test_a_calibration_of_other_weights_counts_no_more(own):
    from piop.run import resume

    resumed = resume(own.path, steps=4, samples=0)
    assert resumed.calibration is None
    inputs = {"u0": np.cos(np.pi * np.arange(8) / 4 + 0.3)}
    assert "error_bound" not in resumed.predict(inputs)
    with pytest.raises(UsageError, match=r"is of step \d, the weights are of step 4, so no error"):
        resumed.predict(inputs, tolerance=0.1)


@pytest.mark.parametrize(
    "damage", [lambda t: t[:20], lambda t: t.replace("factor", "fac")], ids=["cut", "renamed"]
)
def test_a_damaged_calibration_is_named(own, damage):
    path = own.path / "calibration.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(DamagedFileError, match=r"calibration\.json: is damaged"):
        _ = own.calibration


def test_a_short_training_leaves_no_time_for_a_calibration(heat, tmp_path, caplog):
    with caplog.at_level("INFO"):
        run = fit(heat, steps=1, out=tmp_path / "r", samples=1, device="cpu")
    assert run.calibration is None
    assert f"Calibrate it with: piop evaluate {run.path} --calibrate 150" in caplog.text


def test_networks_of_data_alone_are_calibrated_on_data_they_were_not_evaluated_on(
    heat, tmp_path, caplog
):
    """Of 900 samples 90 are held out; 64 are for the evaluation, 26 are left."""
    generate(heat, 900, tmp_path / "d.nc", tolerance=1e-3)
    options = {"physics": False, "device": "cpu", "steps": 3}
    run = fit(heat, data=tmp_path / "d.nc", out=tmp_path / "r", calibrate=30, **options)
    found = run.calibration
    assert found.selection == 9
    assert found.count == 17
    few = read_dataset(tmp_path / "d.nc", heat).subset(torch.arange(300))
    with caplog.at_level("INFO"):
        run = fit(heat, data=few, out=tmp_path / "few", calibrate=30, **options)
    assert run.calibration is None
    assert "answers have no error bound: the data hold out 30 samples" in caplog.text
    assert "--calibrate" not in caplog.text
    with pytest.raises(NotSupportedError, match="30 samples, and 84 are needed, 64 of them for"):
        run.calibrate(30)


TWO = """
piop: 1
name: two
time: {t: [0, 1]}
space: {x: [0, 1]}
unknowns: [u, v]
inputs:
  a: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 2]}
equations:
  - dt(u) = dxx(u)
  - dt(v) = dxx(v)
initial: {u: a, v: a}
boundary: {x: periodic}
"""


def test_each_unknown_has_a_bound_and_all_have_one_together():
    """Errors 0.1, 0.2, …, of one unknown, and 2.0, 1.9, … of the other; a reference off by 1."""
    count = 30
    sizes = torch.arange(1, count + 1, dtype=torch.float64)[:, None, None] / 10
    ones = torch.ones(count, 2, 3, dtype=torch.float64)
    prediction = {"u": ones + sizes, "v": ones + sizes.flip(0)}
    off = torch.ones(count, dtype=torch.float64)
    held_out = HeldOut({}, {}, Queries(), {"u": ones, "v": ones}, off, off.bool())
    errors = errors_and_estimates(Problem.from_yaml(TWO), held_out, prediction)
    found = Calibration.learn(errors, [], {}, {})
    assert found.selection == 10
    assert found.count == 20
    factor = found.indicator.factor
    kept = [i for i in range(count) if i % 3]
    errors = {"u": [i / 10 + 1.1 for i in kept], "v": [(29 - i) / 10 + 1.1 for i in kept]}
    for name, own in errors.items():
        assert (factor * found.scores[name]).tolist() == pytest.approx(own)
    one = torch.full((1,), factor, dtype=torch.float64)
    bounds = {name: bound.item() for name, bound in found.bounds(one, 0.9).items()}
    largest = [max(pair) for pair in zip(errors["u"], errors["v"], strict=True)]
    expected = {"": largest, **errors}
    assert bounds == {n: pytest.approx(sorted(e)[18]) for n, e in expected.items()}  # ⌈21 · 0.9⌉
    assert found.summary()["bound_over_error"] >= 1


def test_a_prediction_that_is_no_number_counts_as_infinitely_wrong():
    ones = torch.ones(30, 2, 3, dtype=torch.float64)
    prediction = {"u": 1.1 * ones, "v": 1.1 * ones}
    prediction["v"][:15] = torch.nan
    off = torch.zeros(30, dtype=torch.float64)
    held_out = HeldOut({}, {}, Queries(), {"u": ones, "v": ones}, off, off == 0)
    errors = errors_and_estimates(Problem.from_yaml(TWO), held_out, prediction)
    found = Calibration.learn(errors, [], {}, {})
    assert int(found.scores["v"].isinf().sum()) == 10
    assert found.bounds(torch.ones(1), 0.9)[""].isinf().all()
    again = Calibration.from_json(
        json.loads(json.dumps(json_value({**found.to_json(), **IDENTITY})))
    )
    assert torch.equal(again.joint, found.joint)


IDENTITY = {"seed": 0, "steps": 1, "hash": "h"}
