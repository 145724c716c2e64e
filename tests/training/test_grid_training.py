"""Objective and batches of networks that answer on grids."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from piop.datasets import Dataset
from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.registry import BACKBONES
from piop.problem import Problem
from piop.residual import GridResidual, compile_residual
from piop.training.batches.batch import flatten
from piop.training.batches.input_grid import gridded_inputs
from piop.training.batches.training_grid import data_at_end, data_counts, data_indices
from piop.training.build import build_model, build_objective, build_source
from piop.training.choices import constraints_of
from piop.training.config import (
    BudgetConfig,
    LossConfig,
    MachineConfig,
    PointsConfig,
    SamplingConfig,
    TrainingConfig,
)
from piop.training.loss.statistics import data_statistics, distribution_statistics
from tests.small_heat import HEAT

from .grids import NETWORKS

POINTS = PointsConfig(functions=3, grid=8, times=9, data_functions=2)


@pytest.fixture(autouse=True)
def networks(monkeypatch):
    for name, presets in NETWORKS.items():
        monkeypatch.setitem(BACKBONES, name, presets)


def build(
    problem, backbone="some_grid", data=None, physics=True, points=POINTS, sampling=None, **loss
):
    config = TrainingConfig(
        BudgetConfig(steps=4),
        points,
        machine=MachineConfig(precision="float64"),
        loss=LossConfig(**{"linear_part": "learned", **loss}),  # as Exact below
        sampling=sampling or SamplingConfig(),
        backbone=backbone,
        physics=physics,
    )
    statistics = distribution_statistics(problem, compile_residual(problem), 0)
    if data is not None:
        statistics = data_statistics(problem, data, statistics)
        if data.points is None:
            statistics = replace(statistics, grid=data_counts(problem, data, points))
    model = build_model(problem, statistics, config)
    objective = build_objective(model, statistics, config, data=data is not None)
    draw = build_source(model, objective, statistics, config, data)
    return SimpleNamespace(
        problem=problem,
        config=config,
        statistics=statistics,
        model=model,
        loss=objective,
        draw=draw,
    )


def decay(k, time):
    return torch.exp(-0.05 * (torch.pi * k) ** 2 * (time - 1))


class Exact(torch.nn.Module):
    """Stands for a backbone: the exact solution of ``HEAT`` on grids, as the operator needs it."""

    def __init__(self, model, hard):
        super().__init__()
        backbone, self.hard = model.operator.backbone, hard
        self.scale, self.mean = model.operator.scale, model.operator.mean
        self.field, self.signature, self.times = backbone.field, backbone.signature, "any"

    def on_grid(self, inputs, axes):
        x, values = inputs["u0"].points[..., 0], inputs["u0"].values[..., 0]
        a = (values * torch.cos(torch.pi * x)).mean(1) * 2
        b = (values * torch.sin(torch.pi * x)).mean(1) * 2
        place, time = torch.pi * axes[1], axes[0][:, None]
        start = a[:, None, None] * torch.cos(place) + b[:, None, None] * torch.sin(place)
        u = start * decay(1, time)
        if self.hard:
            u = (u - start) / (time - 1).clamp(min=1e-9)
        return (u[..., None] - (0.0 if self.hard else self.mean)) / self.scale


@pytest.mark.parametrize("constraints", ["hard", "soft"])
@pytest.mark.parametrize("backbone", ["some_grid", "some_march"])
def test_the_loss_of_the_solution_falls_with_the_order_of_the_scheme(heat, backbone, constraints):
    sizes = []
    for times in (9, 17):
        points = replace(POINTS, times=times)
        built = build(heat, backbone, points=points, constraints=constraints)
        if backbone == "some_march":
            built = march_of(heat, times - 1, points, constraints)
        built.loss.operator.backbone = Exact(built.model, constraints == "hard")
        parts = built.loss(built.draw(0, 0.0))[0]
        assert ("initial" in parts) == (constraints == "soft")
        assert parts.get("initial", torch.zeros(())) < 1e-20
        sizes.append(parts["residual"].sqrt().item())
    order = {"some_grid": 4, "some_march": 2}[backbone]
    assert order - 0.3 < torch.tensor(sizes[0] / sizes[1]).log2() < order + 0.8
    wrong = built.loss.operator.backbone
    wrong.scale = wrong.scale * 2
    assert built.loss(built.draw(0, 0.0))[0]["loss"].sqrt() > 100 * sizes[1]


def march_of(problem, steps, points, constraints):
    table = {"default": replace(NETWORKS["some_march"]["default"])}
    config = replace(table["default"].config, steps=steps)
    BACKBONES["some_march"]["default"] = replace(table["default"], config=config)  # type: ignore[index]
    try:
        return build(problem, "some_march", points=points, constraints=constraints)
    finally:
        BACKBONES["some_march"]["default"] = table["default"]  # type: ignore[index]


def test_the_grid_stays_and_the_functions_change(heat):
    built = build(heat)
    first, second = built.draw(0, 0.0), built.draw(1, 0.0)
    assert first.equations.queries.shape == (1, 9 * 8, 2)
    assert torch.equal(first.equations.queries, second.equations.queries)
    assert torch.equal(first.equations.queries, built.loss.residual.points)
    assert not torch.equal(first.inputs["u0"].values, second.inputs["u0"].values)
    assert first.equations.lift.shape == (1, 3, 1, 8, 1), "initial data do not depend on the time"
    assert torch.equal(built.draw(0, 0.0).equations.lift, first.equations.lift)


def test_steps_of_a_march_are_seen_from_both_ends(heat):
    built = build(heat, "some_march")
    batch = built.draw(0, 0.0)
    times = batch.equations.queries[0, ::8, 0]
    assert times.tolist() == [1 + n / 8 for n in (*range(8), *range(1, 9))]


@pytest.mark.parametrize(("share", "steps"), [(0.0, 4), (0.25, 6), (0.26, 7), (0.5, 8), (0.9, 8)])
def test_a_horizon_cuts_a_march_to_its_first_steps(heat, share, steps):
    """The loss is the mean over the steps within it, whose number grows with the share spent."""
    built = build(heat, "some_march", sampling=SamplingConfig(horizon=0.5, horizon_until=0.5))
    batch, whole = built.draw(0, share), build(heat, "some_march").draw(0, share)
    assert torch.equal(batch.equations.queries, whole.equations.queries), "the grid stays"
    squares = built.loss.misfits(whole, whole.equations).squares.unflatten(1, (2, 8, 8))
    expected = squares[:, :, :steps].mean()
    found = built.loss(batch)[0]["residual"]
    assert (found - expected).abs() < 1e-12 * expected
    assert (squares.mean() - expected).abs() > 1e-6 * expected or steps == 8


@pytest.mark.parametrize("backbone", ["some_grid", "some_march"])
@pytest.mark.parametrize("weighting", ["causal", "ntk_local", "gradient_norm"])
def test_weights_that_learn_go_by_the_places_of_the_grid(heat, backbone, weighting):
    from piop.training.config import AdaptiveConfig
    from piop.training.loop.compilation import StepGradients

    built = build(heat, backbone, constraints="soft")
    config = replace(built.config, adaptive=AdaptiveConfig(weighting=weighting, bins=4))
    loss = build_objective(built.model, built.statistics, config)
    trained = [p for p in loss.parameters() if p.requires_grad]
    batch = loss.weightings.prepare(built.draw(0, 0.0), 0, StepGradients(loss, False), trained)
    _, statistics = loss(batch)
    loss.weightings.update(statistics)
    if weighting == "causal":
        assert statistics["causal/points"].sum() == 3 * batch.equations.queries.shape[1]


WAVE = """
piop: 1
name: wave
time: {t: [0, 1]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
  v0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: ["d(u, t, 2) = dxx(u)"]
initial: {u: u0, "dt(u)": v0}
boundary: {x: periodic}
"""


def test_a_slope_at_the_start_is_a_soft_constraint_since_differences_do_not_feel_it():
    problem = Problem.from_yaml(WAVE)
    built = build(problem, points=replace(POINTS, times=17))
    assert built.model.constraints.lift_orders == (1,)
    assert [(c.unknown, c.order) for c in built.model.constraints.soft_initial] == [("u", 1)]
    told = {d.what: d.hard for d in built.model.constraints}
    slope = "dt(u) at t = 0 is v0(x)"
    assert told == {"u at t = 0 is u0(x)": True, slope: False, "periodic in x": True}
    batch = built.draw(0, 0.0)

    class Wrong(Exact):
        """u = u0 cos πt + s·v0 sin(πt)/π, a solution for every s; the slope is v0 for s = 1."""

        def on_grid(self, inputs, axes):
            time = axes[0][:, None]
            u0, v0 = (inputs[n].values[:, None, :, 0] for n in ("u0", "v0"))
            rise = torch.sin(torch.pi * time) / torch.pi
            u = u0 * (torch.cos(torch.pi * time) - 1) + self.share * v0 * rise
            return (u / time.clamp(min=1e-9))[..., None] / self.scale

    parts = {}
    for share in (1.0, 0.0):
        built.loss.operator.backbone = wrong = Wrong(built.model, True)
        wrong.share = share
        seen = {
            name: FunctionSamples(s.points[:, ::2], s.values[:, ::2])
            for name, s in batch.inputs.items()
        }
        parts[share] = built.loss(replace(batch, inputs=seen))[0]
    assert parts[0.0]["residual"] < 1e-3, "as small for any slope"
    assert parts[1.0]["initial"] < 1e-4
    assert parts[0.0]["initial"] > 0.1


def test_a_slope_cannot_be_hard(heat):
    config = TrainingConfig(
        BudgetConfig(steps=1), loss=LossConfig(constraints="hard"), backbone="some_grid"
    )
    with pytest.raises(UsageError, match="slope of u at the start"):
        constraints_of(Problem.from_yaml(WAVE), config)


def test_periods_are_hard_constraints_of_the_grid_however_they_are_asked_for(heat):
    built = build(heat, constraints="soft")
    assert built.model.constraints.hard_periodic == ("x",)
    assert set(built.loss.conditions) == {"initial"}


def test_means_are_soft_constraints_slice_by_slice():
    problem = Problem.from_file("navier_stokes")
    built = build(problem, points=replace(POINTS, functions=1))
    gauge = built.loss.conditions["gauge"]
    times = torch.arange(9.0, dtype=torch.float64)
    values = (times[:, None] + torch.tensor([-1.0, 1.0]).repeat(32)).reshape(1, -1, 1)
    assert torch.allclose(gauge.misfits(values)[0, :, 0] * gauge.units[0], times)
    parts = built.loss(built.draw(0, 0.0))[0]
    assert {"residual", "boundary"} <= set(parts)


def data_of(problem, times, places, count=5, hidden=()):
    """Exact trajectories of ``HEAT`` on a grid."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, count, 1, 1, generator=generator, dtype=torch.float64)
    x = torch.arange(8, dtype=torch.float64) / 4
    u0 = a[:, :, 0] * torch.cos(torch.pi * x) + b[:, :, 0] * torch.sin(torch.pi * x)
    inputs = {"u0": FunctionSamples(x[None, :, None].expand(count, -1, -1), u0[..., None])}
    start = a * torch.cos(torch.pi * places) + b * torch.sin(torch.pi * places)
    values = start * decay(1, times[:, None])
    return Dataset(inputs, {"t": times, "x": places}, {"u": values})


def ring(count):
    return torch.arange(count, dtype=torch.float64) * (2 / count)


@pytest.mark.parametrize("backbone", ["some_grid", "some_march"])
@pytest.mark.parametrize(
    ("times", "places"),
    [
        (torch.linspace(1, 2, 9).double(), ring(8)),
        (torch.linspace(1, 2, 17).double(), ring(32)),
        (torch.tensor([1.0, 1.3, 1.4, 2.0]).double(), ring(12)),
        (torch.tensor([1.5, 1.9]).double(), torch.tensor([0.1, 0.7, 1.3]).double()),
    ],
    ids=["its own", "finer", "uneven times", "few places"],
)
@pytest.mark.parametrize("physics", [False, True])
def test_the_solution_fits_data_on_any_grid(heat, backbone, times, places, physics):
    """Up to the cubics in time, which the march of eight steps takes everywhere."""
    data = data_of(heat, times, places)
    points = replace(POINTS, times=0, grid=16 if len(places) < 8 else 0)
    built = build(heat, backbone, data=data, physics=physics, points=points)
    built.loss.operator.backbone = Exact(built.model, True)
    batch = built.draw(0, 0.0)
    seen = batch.observations
    assert seen.targets.shape == (2, len(times) * len(places), 1)
    assert seen.queries.shape == (1, len(times) * len(places), 2)
    error = built.loss(batch)[0]["data"]
    assert error < 1e-7
    shifted = replace(batch, observations=replace(seen, targets=seen.targets + 0.1))
    assert built.loss(shifted)[0]["data"] > 1e-3


def test_trajectories_are_chosen_as_points_of_them_are(heat):
    data = data_of(heat, torch.linspace(1, 2, 9).double(), ring(8))
    built = build(heat, data=data, physics=False)
    batch = built.draw(3, 0.0).observations
    values = data.values["u"].flatten(1)
    for target, seen in zip(batch.targets[..., 0], batch.inputs["u0"].values, strict=True):
        row = (values - target).abs().sum(1).argmin()
        assert torch.equal(values[row], target)
        assert torch.equal(data.inputs["u0"].values[row], seen)
    again = build(heat, data=data, physics=False).draw(3, 0.0).observations
    assert torch.equal(again.targets, batch.targets)


@pytest.mark.parametrize(
    ("share", "last"), [(0.0, 1.5), (0.25, 1.75), (0.26, 1.875), (0.5, 2.0), (0.9, 2.0)]
)
def test_a_horizon_cuts_the_data_of_a_march_to_its_first_steps(heat, share, last):
    """Errors count at the times that the steps in use reach, all alike."""
    data = data_of(heat, torch.linspace(1, 2, 17).double(), ring(8))
    curriculum = SamplingConfig(horizon=0.5, horizon_until=0.5)
    built = build(heat, "some_march", data=data, physics=False, sampling=curriculum)
    cut = built.draw(0, share)
    whole = build(heat, "some_march", data=data, physics=False).draw(0, share)
    seen = cut.observations
    kept = seen.targets.isfinite()[..., 0]
    assert torch.equal(kept, (seen.queries[..., 0] <= last + 1e-9).expand(2, -1))
    assert torch.equal(seen.targets[kept], whole.observations.targets[kept])
    assert seen.known == kept.sum()
    errors, _ = built.loss._data(whole.observations)
    found = built.loss(cut)[0]["data"]
    assert (found - errors[kept].square().mean()).abs() < 1e-12 * found
    late = data_of(heat, torch.linspace(1.8, 2, 3).double(), ring(8))
    built = build(heat, "some_march", data=late, physics=False, sampling=curriculum)
    assert built.draw(0, 0.0).observations.known == 2 * 8, "the first time there is"


@pytest.mark.parametrize("backbone", ["some_end", "points_end"])
def test_the_end_alone_learns_from_the_last_time(heat, backbone):
    data = data_at_end(heat, data_of(heat, torch.linspace(1, 2, 9).double(), ring(8)))
    built = build(heat, backbone, data=data, physics=False)
    seen = built.draw(0, 0.0).observations
    assert seen.queries[..., 0].unique().tolist() == [2.0]
    assert seen.targets.abs().max() < decay(1, torch.tensor(1.9)) * 4
    if backbone == "some_end":
        assert seen.targets.shape == (2, 8, 1)
        assert seen.layout.matrices == (None, None)
    assert data_statistics(heat, data, built.statistics).channel_scale == (
        float(data.values["u"].square().mean().sqrt()),
    )


def test_data_that_stop_before_the_end_are_refused_by_what_knows_the_end_alone(heat):
    data = data_of(heat, torch.linspace(1, 1.9, 9).double(), ring(8))
    with pytest.raises(UsageError, match=r"data end at t = 1.9, .* t = 2, alone"):
        data_at_end(heat, data)
    points = torch.tensor([[[2.0, 0.1], [1.3, 0.2]]], dtype=torch.float64)
    scattered = Dataset(data.inputs, {}, {"u": torch.zeros(1, 2)}, points)
    with pytest.raises(UsageError, match=r"scattered over other times, such as t = 1.3"):
        data_at_end(heat, scattered)
    kept = replace(scattered, points=points[:, :1])
    assert data_at_end(heat, kept) is kept


def test_many_times_are_thinned_to_those_nearest_to_even_ones(heat):
    data = data_of(heat, torch.linspace(1, 2, 101).double(), ring(24))
    rows = data_indices(heat, data, PointsConfig(times=5, grid=7))
    assert rows[0].tolist() == [0, 25, 50, 75, 100]
    assert rows[1].tolist() == list(range(0, 24, 3)), "eight, the fewest even ones that are enough"
    assert len(data_indices(heat, data, PointsConfig())[0]) == 33
    assert len(data_indices(heat, data, PointsConfig())[1]) == 24


def test_inputs_are_gridded_where_lattices_or_sensors_are(heat):
    scattered = Problem.from_yaml(HEAT.replace("place: grid", "place: uniform"))
    data = data_of(heat, torch.linspace(1, 2, 3).double(), ring(8))
    moved = replace(
        data,
        inputs={"u0": FunctionSamples(data.inputs["u0"].points ** 2, data.inputs["u0"].values)},
    )
    assert gridded_inputs(heat) == gridded_inputs(scattered) == ("u0",)  # by its lattice
    assert gridded_inputs(scattered, physics=False, data=data) == ("u0",)
    assert gridded_inputs(heat, physics=False, data=moved) == ()
    assert gridded_inputs(heat, physics=True, data=moved) == ("u0",)


def test_a_batch_with_a_layout_is_taken_apart_and_put_together(heat):
    data = data_of(heat, torch.tensor([1.0, 1.3, 2.0]).double(), ring(8))
    built = build(heat, data=data)
    batch = built.draw(0, 0.0)
    tensors, rebuild = flatten(batch)
    again = rebuild([t.clone() for t in tensors])
    assert torch.equal(built.loss(batch)[0]["loss"], built.loss(again)[0]["loss"])


def test_the_residual_of_a_model_is_that_of_its_field(heat):
    assert isinstance(build(heat).loss.residual, GridResidual)
    assert build(heat, "some_march").loss.residual.grid.steps
