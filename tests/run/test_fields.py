"""Runs of networks that answer on grids, march, or know the end alone: from fit to evaluation."""

import json

import numpy as np
import pytest
import torch
import xarray as xr

from piop import generate
from piop.cli import cli
from piop.cli.failures import run_command
from piop.datasets import Queries, read_dataset
from piop.errors import UsageError
from piop.models.registry import BACKBONES
from piop.problem import Problem
from piop.run import Run, fit, resume
from piop.run.prediction import predict_values
from tests.small_heat import HEAT

from ..training.grids import NETWORKS

SETTINGS = {"functions": 4, "grid": 8, "times": 9}
FIELDS = ["some_grid", "some_march"]


@pytest.fixture(autouse=True, scope="module")
def networks():
    with pytest.MonkeyPatch.context() as patch:
        for name, presets in NETWORKS.items():
            patch.setitem(BACKBONES, name, presets)
        yield


def settings_of(backbone):
    return {k: v for k, v in SETTINGS.items() if backbone == "some_grid" or k != "times"}


@pytest.fixture(scope="module", params=FIELDS)
def physics(request, heat, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / request.param
    return fit(
        heat,
        steps=150,
        backbone=request.param,
        out=path,
        samples=6,
        settings=settings_of(request.param),
        precision="float64",
    )


@pytest.fixture(scope="module")
def data(heat, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "heat.nc"
    generate(heat, 12, path, seed=5)
    return path


def strip(run):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in run.metrics]


def test_physics_alone_is_learnt(physics):
    assert physics.metrics[-1]["loss"] < 0.05 * physics.metrics[0]["loss"]
    record = json.loads((physics.path / "evaluation.json").read_text())
    assert record["relative_l2"]["mean"] < 0.1
    assert record["baselines"]["stays at u0"] > record["relative_l2"]["mean"]
    assert 0 < record["residual"]["equation 1"] < 0.2


def test_a_loaded_run_answers_the_same_on_grids_and_at_points(physics):
    x = torch.arange(8, dtype=torch.float64) / 4
    given = {"u0": (x, torch.sin(torch.pi * x))}
    loaded = Run.load(physics.path)
    for at in ({"t": [1.0, 1.37, 2.0], "x": x}, torch.tensor([[1.0, 0.3], [1.9, 1.71]])):
        first = physics.predict(given, at).u
        assert loaded.predict(given, at).u.equals(first)


def test_initial_data_hold_exactly_wherever_they_are_asked_for(physics):
    x = torch.arange(8, dtype=torch.float64) / 4
    at = torch.linspace(0, 2, 7, dtype=torch.float64)
    given, truth = {"u0": (x, torch.sin(torch.pi * x))}, torch.sin(torch.pi * at).numpy()
    on_grid = physics.predict(given, {"t": [1.0], "x": at}).u.values[0, 0]
    points = torch.stack([torch.ones(7, dtype=torch.float64), at], -1)
    assert abs(on_grid - truth).max() < 1e-6
    assert abs(physics.predict(given, points).u.values[0] - truth).max() < 1e-6


def test_a_grid_and_its_points_agree(physics):
    """An uneven grid is read off that of training, and so are points."""
    x, t = torch.tensor([0.11, 0.6, 1.73]).double(), torch.tensor([1.03, 1.5, 1.99]).double()
    seen = physics.held_out(3).inputs
    queries = Queries(axes={"t": t, "x": x})
    values = predict_values(physics.problem, physics.model, seen, queries)
    points = predict_values(physics.problem, physics.model, seen, Queries(points=queries.tensor()))
    assert values.shape == (3, 9, 1)
    assert (values - points).abs().max() < 1e-12


def test_functions_are_answered_a_few_at_a_time(physics, monkeypatch):
    seen, queries = physics.held_out(5).inputs, Queries(points=torch.rand(5, 4, 2) * 0.9 + 1)
    before = predict_values(physics.problem, physics.model, seen, queries)
    monkeypatch.setattr("piop.run.prediction.POINTS_AT_ONCE", 2)
    monkeypatch.setattr("piop.run.prediction.VALUES_AT_ONCE", 1)
    after = predict_values(physics.problem, physics.model, seen, queries)
    assert (before - after).abs().max() < 1e-12


@pytest.mark.parametrize("backbone", FIELDS)
@pytest.mark.parametrize("physics", [False, True], ids=["data", "both"])
def test_data_are_learnt_alone_and_with_physics(heat, data, tmp_path, backbone, physics):
    settings = {"data_functions": 4, "grid": 8}
    run = fit(
        heat,
        steps=150,
        backbone=backbone,
        data=data,
        physics=physics,
        out=tmp_path / "r",
        samples=4,
        settings=settings,
    )
    assert run.metrics[-1]["data"] < 0.1 * run.metrics[0]["data"]
    record = json.loads((run.path / "evaluation.json").read_text())
    assert record["relative_l2"]["mean"] < 0.2
    again = Run.load(run.path)
    x = torch.arange(8, dtype=torch.float64) / 4
    given = {"u0": (x, torch.sin(torch.pi * x))}
    assert again.predict(given).u.equals(run.predict(given).u)
    assert len(again.model.training_grid[0]) == (
        9 if backbone == "some_march" else 33 if physics else 5
    )


@pytest.mark.parametrize("backbone", FIELDS)
@pytest.mark.parametrize("given", ["physics", "data", "both"])
def test_a_resumed_run_gives_the_same_bits(heat, data, tmp_path, backbone, given):
    options = {
        "backbone": backbone,
        "data": None if given == "physics" else data,
        "physics": given != "data",
        "samples": 0,
    }
    whole = fit(heat, steps=6, out=tmp_path / "whole", **options)

    def stop(row):
        if row["step"] == 3:
            raise KeyboardInterrupt

    half = fit(heat, steps=6, out=tmp_path / "half", progress=stop, **options)
    assert half.interrupted
    resumed = resume(half.path, samples=0)
    assert strip(resumed) == strip(whole)
    mine, other = whole.model.operator.state_dict(), resumed.model.operator.state_dict()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


@pytest.mark.parametrize("backbone", ["some_end", "points_end"])
def test_an_operator_of_the_end_learns_from_data_and_says_so(heat, data, tmp_path, backbone):
    run = fit(
        heat,
        steps=200,
        backbone=backbone,
        data=data,
        physics=False,
        out=tmp_path / "r",
        samples=3,
    )
    record = json.loads((run.path / "evaluation.json").read_text())
    assert record["relative_l2"]["mean"] < 0.2
    assert record["per_time"]["t"] == [2.0]
    assert "stays at u0" not in record["baselines"]
    assert record["residual"] == {}
    x = torch.arange(8, dtype=torch.float64) / 4
    given = {"u0": (x, torch.sin(torch.pi * x))}
    assert run.predict(given).t.values.tolist() == [2.0]
    with pytest.raises(UsageError, match=r"t = 1.5: .* request t = 2"):
        run.predict(given, {"t": [1.5, 2.0], "x": x})
    with pytest.raises(UsageError, match=r"t = 1: .* request t = 2"):
        run.predict(given, torch.tensor([[1.0, 0.3]]))
    np.savez(tmp_path / "s.npz", x=x, u0=given["u0"][1])
    files = ["--input", str(tmp_path / "s.npz"), "--output", str(tmp_path / "p.nc")]
    assert run_command(cli, ["predict", str(run.path), *files]) == 0
    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as found:
        assert found["t"].values.tolist() == [2.0]  # the end of the save grid
        assert found["x"].size == 16
    assert strip(resume(run.path, samples=0)) == strip(run)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:the training step stays eager")
@pytest.mark.parametrize("backbone", FIELDS)
def test_a_compiled_step_takes_the_path_of_an_eager_one(heat, data, tmp_path, backbone):
    runs = [
        fit(
            heat,
            steps=5,
            backbone=backbone,
            data=data,
            out=tmp_path / str(compiled),
            samples=0,
            compile=compiled,
            precision="float64",
            settings=settings_of(backbone),
        )
        for compiled in (False, True)
    ]
    for one, other in zip(*map(strip, runs), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"method": "sobol"}}, "method: does nothing here; .* answers on a grid"),
        ({"settings": {"shared": True}}, "shared: does nothing here"),
        ({"settings": {"horizon": 0.5}}, "horizon: does nothing here"),
        ({"settings": {"queries": 9}}, "queries: does nothing here"),
        ({"settings": {"times": 4}}, "times: 4 are too few for differences of order 4; give 5"),
        ({"backbone": "some_march", "settings": {"times": 9}}, "times: does nothing here"),
        ({"backbone": "pit", "settings": {"grid": 9}}, "grid: .* backbones that answer on a grid"),
        (
            {"backbone": "some_end"},
            r"'some_end' cannot be trained on small_heat: it answers at the end .*; these can: pit",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    heat, tmp_path, options, message
):
    options = {"backbone": "some_grid", **options}
    with pytest.raises(UsageError, match=message):
        fit(heat, steps=1, out=tmp_path / "r", **options)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lotka_volterra", {"front": 0.3}, "front: does nothing here; it belongs to .*axes of sp"),
        ("poisson", {"backbone": "fno", "times": 9}, "times: does nothing here; it .* evolutions"),
        ("poisson", {"backbone": "fno", "time_order": 2}, "time_order: does nothing here"),
    ],
)
def test_settings_of_axes_that_a_problem_lacks_are_refused(tmp_path, name, options, message):
    with pytest.raises(UsageError, match=message):
        fit(Problem.from_file(name), steps=1, out=tmp_path / "r", **options)
    assert not (tmp_path / "r").exists()


def test_times_are_refused_by_a_network_of_the_end_alone(heat, data, tmp_path):
    with pytest.raises(UsageError, match=r"times: does nothing here; .* more than their end"):
        fit(heat, steps=1, out=tmp_path / "r", backbone="some_end", data=data, times=9)


def test_scattered_data_are_refused_by_what_answers_on_grids_alone(heat, data, tmp_path):
    whole = read_dataset(data, heat)
    points = torch.rand(12, 20, 2, dtype=torch.float64) + torch.tensor([1.0, 0.0])
    scattered = type(whole)(
        whole.inputs, {}, {"u": torch.randn(12, 20, dtype=torch.float64)}, points
    )
    with pytest.raises(UsageError, match=r"the data are scattered; these can: pit"):
        fit(heat, steps=1, backbone="some_grid", data=scattered, physics=False, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_points_of_a_spec_are_for_its_own_network(tmp_path):
    """``solve: {method: …}`` was chosen for points; a grid has none, and is not held up by it."""
    problem = Problem.from_yaml(HEAT + "solve: {method: sobol}\n")
    run = fit(problem, steps=1, backbone="some_grid", out=tmp_path / "r", samples=0)
    assert run.config.points.method == "uniform"
