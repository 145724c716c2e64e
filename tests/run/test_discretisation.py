"""Errors over sensors and grids, of runs judged by the law and of runs judged by data."""

import json
from dataclasses import replace

import pytest
import torch

from piop.datasets import Dataset
from piop.errors import NotSupportedError, UsageError
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.run import Run, fit
from piop.run import resolution_study as module
from piop.run.drawn_inputs import DrawnInputs
from piop.run.folder import RunFolder
from piop.run.held_out import HeldOutData, grids_within
from piop.sampling import Draws
from piop.sampling.random import HELD_OUT


def draw(samples):
    return Draws.of(HELD_OUT, 0, range(samples))


def errors(found):
    return {(c["sensors"], c["grid"]): c["mean"] for c in found["relative_l2"]}


@pytest.fixture(scope="module")
def data(heat):
    """Exact solutions of the heat equation, a sine of one size each, on 16 points."""
    x, t = torch.arange(16).double() / 8, torch.linspace(1, 2, 5).double()
    size = torch.linspace(0.5, 1.5, 12).double()[:, None, None]
    wave = torch.pi  # one period over [0, 2]
    u = size * torch.exp(-0.05 * wave**2 * (t - 1))[:, None] * torch.sin(wave * x)
    points = x[None, :, None].expand(12, -1, -1)
    return Dataset({"u0": FunctionSamples(points, u[:, 0, :, None])}, {"t": t, "x": x}, {"u": u})


@pytest.fixture(scope="module")
def by_data(heat, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "data"
    return fit(heat, steps=60, data=data, physics=False, out=path, samples=0, device="cpu")


def test_all_sensors_on_the_usual_grid_are_the_evaluation(trained):
    found = trained.discretisation(samples=6, write=False)
    assert errors(found) == {
        ("100%", "16"): trained.evaluate(6, write=False)["relative_l2"]["mean"]
    }
    assert found["judged_by"] == "law"
    assert found["seed"] == 0


def test_too_few_sensors_cost_what_they_hide_and_enough_cost_nothing(trained):
    found = trained.discretisation("25%,50%,100%", "8,32", samples=16, write=False)
    error = errors(found)
    assert found["sensors"] == {"25%": {"u0": 2}, "50%": {"u0": 4}, "100%": {"u0": 8}}
    assert found["grids"] == ["8", "32"]
    # the law has one harmonic: three sensors fix it, two do not
    assert error["25%", "32"] > 10 * error["100%", "32"]
    assert error["50%", "32"] == pytest.approx(error["100%", "32"], rel=0.01)


def test_each_grid_has_the_same_inputs_and_a_reference_of_its_own(trained):
    small, large = (held for held in DrawnInputs(trained.problem, 3, 0).on_grids([(8,), (32,)]))
    assert large.truth["u"].shape == (3, 5, 32)
    assert torch.allclose(small.truth["u"], large.truth["u"][..., ::4], atol=1e-10)
    assert torch.equal(small.inputs["u0"].values, large.inputs["u0"].values)


def test_more_sensors_than_the_specs_are_placed_as_the_spec_says(trained):
    found = trained.discretisation([32], samples=4, write=False)
    asked = trained.evaluate(4, sensors={"u0": (32, "grid")}, write=False)
    assert errors(found)["32", "16"] == asked["relative_l2"]["mean"]


def test_the_file_holds_what_is_returned(trained, tmp_path):
    found = replace(trained, folder=RunFolder(tmp_path)).discretisation("50%", samples=2)
    assert json.loads((tmp_path / "discretisation.json").read_text()) == found
    assert len(found["relative_l2"][0]["per_sample"]) == found["samples"] == 2
    assert found["reference_error_estimate"]["16"] < 1e-6


def test_data_are_judged_at_part_of_their_sensors_and_grid(by_data):
    held = by_data.held_out(64)
    found = by_data.discretisation("50%,100%", "4,16", write=False)
    assert found["judged_by"] == "data"
    assert found["samples"] == 1  # a tenth of twelve
    assert found["sensors"] == {"50%": {"u0": 8}, "100%": {"u0": 16}}
    at = {"t": held.queries.axes["t"], "x": held.queries.axes["x"][::4]}
    guess = by_data.predict({"u0": held.inputs["u0"]}, at)["u"].values
    truth = held.truth["u"][..., ::4].numpy()
    expected = ((guess - truth) ** 2).sum() ** 0.5 / (truth**2).sum() ** 0.5
    assert errors(found)["100%", "4"] == pytest.approx(expected, rel=1e-6)


def test_grids_that_the_data_do_not_have_are_refused_with_what_there_is(by_data):
    with pytest.raises(
        UsageError, match=r"16 points along x, from which 32 cannot .*; there are 16"
    ):
        by_data.discretisation(grids="16,32")
    with pytest.raises(UsageError, match=r"there are 16, 8, 4, 2$"):
        by_data.discretisation(grids=[5])
    with pytest.raises(UsageError, match="there are 16 of 'u0', which is fewer than 17"):
        by_data.discretisation(["17"])


def test_even_grids_within_a_grid_keep_their_ends_where_nothing_repeats():
    assert grids_within(12, periodic=True) == {12: 1, 6: 2, 4: 3, 3: 4, 2: 6}
    assert grids_within(13, periodic=False) == {13: 1, 7: 2, 5: 3, 4: 4, 3: 6, 2: 12}
    for count, stride in grids_within(13, periodic=False).items():
        assert list(range(0, 13, stride))[-1] == 12
        assert len(range(0, 13, stride)) == count


def test_scattered_data_have_no_grid(trained, data):
    u = data.values["u"].flatten(1)
    points = torch.rand(12, u.shape[1], 2) + 1.0
    source = HeldOutData(trained.problem, Dataset(data.inputs, {}, {"u": u}, points))
    found = module.study_discretisation(trained.problem, trained.model, source, draw)
    assert found["grids"] == ["80 points"]
    with pytest.raises(UsageError, match="scattered points; leave --grid out"):
        module.study_discretisation(trained.problem, trained.model, source, draw, grids="4")


def test_sensors_on_a_grid_of_several_axes_must_fill_it():
    text = """
piop: 1
name: plane
time: {t: [0, 1]}
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  u0: {of: [x, y], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) = 0.05*lap(u)]
initial: {u: u0}
boundary: {x: periodic, y: periodic}
sensors: {u0: {count: [4, 4], place: grid}}
"""
    (item,) = Problem.from_yaml(text).visible_inputs
    assert module._shape(item, 64) == (8, 8)
    with pytest.raises(UsageError, match="60 sensors do not fill evenly; give such as 49, 64, 81"):
        module._shape(item, 60)


def test_a_problem_without_input_functions_has_no_sensors(trained):
    still = Problem.from_yaml(
        "piop: 1\nname: alone\ntime: {t: [0, 1]}\nspace: {x: [0, 1]}\nunknowns: [u]\n"
        "equations: [dt(u) = 0.01*dxx(u)]\ninitial: {u: sin(2*pi*x)}\nboundary: {x: periodic}\n"
    )
    with pytest.raises(UsageError, match="alone has no input function"):
        module.study_discretisation(
            still, trained.model, DrawnInputs(still, 2, 0), draw, sensors="50%"
        )


def test_a_problem_without_reference_says_so(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # earlier tests left references

    def refuse(*args, **kwargs):
        raise NotSupportedError("no solver covers it")

    monkeypatch.setattr("piop.run.references.solve_reference", refuse)
    with pytest.raises(NotSupportedError, match="no solver covers it"):
        trained.discretisation(samples=2)


def test_no_samples_is_refused(trained):
    with pytest.raises(UsageError, match="samples: 0 is not above zero"):
        trained.discretisation(samples=0)


def test_a_loaded_run_gives_the_same_numbers(trained):
    one = trained.discretisation("50%", "8", samples=3, write=False)
    assert Run.load(trained.path).discretisation("50%", "8", samples=3, write=False) == one


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sensors": 3}, "sensors: 3 is not a list"),
        ({"sensors": b"25"}, "sensors: b'25' is not a list"),
        ({"sensors": {}}, "sensors: {} is not a list"),
        ({"sensors": "99999999"}, r"sensors: 99999999 is not in \[1, 1000000\]"),
        ({"sensors": "9" * 5000}, "sensors: '999.* is neither a percentage"),
        ({"grids": 16}, "grid: 16 is not a list"),
        ({"grids": "99999999"}, r"grid: 99999999 is not in \[1, 1000000\]"),
        ({"grids": "9" * 5000}, "grid: '999.* is not a grid"),
    ],
)
def test_sensors_and_grids_that_cannot_be_read_are_refused(trained, arguments, message):
    with pytest.raises(UsageError, match=message):
        trained.discretisation(samples=1, write=False, **arguments)
