"""The default IPOT: places of its inducing points, what they promise, and what it can learn."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone
from piop.models.ipot.network import InducingGrid, IPOTConfig

from ..cases import SIGNATURES, queries_for, samples_for

RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)


def build(case: str, preset: str = "default", **overrides):
    torch.manual_seed(0)
    return build_backbone("ipot", SIGNATURES[case], preset, **overrides).double()


def moved(points: torch.Tensor, column: int, by: float) -> torch.Tensor:
    shift = torch.zeros(points.shape[-1], dtype=points.dtype)
    shift[column] = by
    return points + shift


@pytest.mark.parametrize(("case", "step"), [("evolution", 24), ("plane", 10), ("steady", 10)])
def test_shifting_inputs_by_whole_steps_of_the_lattice_shifts_the_answer(case, step):
    """Inducing points that differ in place alone: one function teaches its shifts."""
    signature, model = SIGNATURES[case], build(case)
    by = 3 * 2 * math.pi / step
    inputs, queries = samples_for(signature), queries_for(signature)
    shifted = {
        e.name: FunctionSamples(
            moved(inputs[e.name].points, e.of.index("x"), by), inputs[e.name].values
        )
        for e in signature.inputs
    }
    before = model(inputs, queries)
    after = model(shifted, moved(queries, signature.axis("x"), by))
    assert (after - before).abs().max() < 1e-8 * before.std()
    assert (model(shifted, queries) - before).abs().max() > 1e-2 * before.std()


def test_where_place_matters_shifts_are_told_apart():
    signature, model = SIGNATURES["not homogeneous"], build("not homogeneous")
    inputs, queries = samples_for(signature), queries_for(signature)
    by = 3 * 2 * math.pi / 24
    shifted = {"u0": FunctionSamples(moved(inputs["u0"].points, 0, by), inputs["u0"].values)}
    before, after = model(inputs, queries), model(shifted, moved(queries, 1, by))
    assert (after - before).abs().max() > 1e-2 * before.std()


def test_inducing_points_lie_over_the_space_of_the_functions():
    def lattice(case: str) -> InducingGrid:
        return InducingGrid(SIGNATURES[case], IPOTConfig(points=(6, 4, 3)))

    plane = lattice("plane")
    assert (plane.columns, plane.count) == ((1, 2), 16)
    places = plane.points(torch.zeros(()))
    assert sorted(set(places[0, :, 1].tolist())) == pytest.approx(
        [0.5 * math.pi * k for k in range(4)]
    )
    assert sorted(set(places[0, :, 2].tolist())) == pytest.approx([-1.0, -0.5, 0.0, 0.5])
    assert (places[0, :, 0] == 0).all(), "at the start of the time"
    walls = lattice("walls").points(torch.zeros(()))[0, :, 1]
    assert walls.tolist() == pytest.approx([(k + 0.5) / 3 for k in range(6)]), "cell centres"
    assert (lattice("several").columns, lattice("scalar alone").columns) == ((1,), ())


def test_a_query_costs_the_same_however_many_sensors_there_are():
    def flops(sensors: int, queries: int) -> int:
        inputs, asked = samples_for(signature, 1, sensors), queries_for(signature, 1, queries)
        with FlopCounterMode(display=False) as counter:
            model(inputs, asked)
        return counter.get_total_flops()

    signature, model = SIGNATURES["steady"], build("steady", points=(6, 4, 3))
    base = flops(10, 10)
    per_sensor, per_query = flops(20, 10) - base, flops(10, 20) - base
    assert flops(30, 30) - base == 2 * (per_sensor + per_query)
    assert min(per_sensor, per_query) > 0


def test_a_rollout_composes_steps_of_the_tied_processor():
    model, signature = build("evolution", "rollout", steps=3), SIGNATURES["evolution"]
    inputs = samples_for(signature)
    x = torch.linspace(0, 6, 5, dtype=torch.float64)
    times = torch.tensor(model.fixed_times(), dtype=torch.float64)
    grid = model.on_grid(inputs, [times, x])
    queries = torch.stack([torch.zeros_like(x), x], -1)[None]
    state = model.latents.encode(inputs)
    for n in range(4):
        assert torch.equal(grid[:, n], model.latents.decode(state, queries))
        for _ in range(model.config.depth):
            state = model.latents.processor(state)
    assert (grid[:, 3] - grid[:, 0]).abs().max() > 1e-2


def test_few_harmonics_are_refused():
    with pytest.raises(UsageError, match="harmonics = 2: give at least 3"):
        build("evolution", harmonics=2)


def heat_step(count: int, generator: torch.Generator, decay: float = 0.1):
    """Series of five harmonics at 32 even sensors, and their heat solution at random queries."""
    k = torch.arange(1, 6.0)
    a, b = torch.randn(2, count, 5, 1, generator=generator) / math.sqrt(5)

    def at(x: torch.Tensor, damping: torch.Tensor) -> torch.Tensor:
        return (x * k).cos() @ (a * damping) + (x * k).sin() @ (b * damping)

    sensors = (torch.arange(32)[:, None] * (2 * math.pi / 32)).expand(count, -1, -1)
    queries = 2 * math.pi * torch.rand(count, 48, 1, generator=generator)
    seen = FunctionSamples(sensors, at(sensors, torch.ones(5, 1)))
    return {"f": seen}, queries, at(queries, torch.exp(-decay * k**2)[:, None])


def test_it_learns_one_step_of_the_heat_equation_to_a_percent():
    """u_k → exp(-k² νt) u_k is linear; judged on functions it never saw."""
    signature = Signature((RING,), (InputSignature("f", ("x",), waves=5),), 1, None, ("x",))
    torch.manual_seed(0)
    model = build_backbone("ipot", signature, width=32, depth=1, blocks=1)
    generator = torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, STEPS, pct_start=0.1)

    def errors(count: int) -> torch.Tensor:
        inputs, queries, truth = heat_step(count, generator)
        square = (model(inputs, queries) - truth).square().sum((1, 2))
        return square / truth.square().sum((1, 2))

    for _ in range(STEPS):
        optimiser.zero_grad()
        errors(16).mean().backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        assert errors(64).sqrt().mean() < 0.01


STEPS = 300
