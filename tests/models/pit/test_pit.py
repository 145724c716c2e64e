from __future__ import annotations

import math

import pytest
import torch
from torch.func import jvp

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone

from ..cases import SIGNATURES, queries_for, samples_for


def build(case: str, preset: str = "default"):
    torch.manual_seed(0)
    return build_backbone("pit", SIGNATURES[case], preset).double()


def moved(signature: Signature, points: torch.Tensor, names, by: dict[str, float]) -> torch.Tensor:
    """Shift columns of points along periodic axes, staying in the box."""
    columns = []
    for i, name in enumerate(names):
        axis = signature.coordinates[signature.axis(name)]
        shifted = points[..., i] + by.get(name, 0.0)
        if name in by:
            shifted = axis.low + torch.remainder(shifted - axis.low, axis.high - axis.low)
        columns.append(shifted)
    return torch.stack(columns, -1)


def shifted_by(signature, inputs, by):
    return {
        e.name: FunctionSamples(
            moved(signature, inputs[e.name].points, e.of, by) if e.of else inputs[e.name].points,
            inputs[e.name].values,
        )
        for e in signature.inputs
    }


@pytest.mark.parametrize(
    "case", ["evolution", "plane", "steady and homogeneous", "several", "steady"]
)
def test_shifting_inputs_shifts_the_answer_along_homogeneous_axes(case):
    signature, model = SIGNATURES[case], build(case)
    # Whole steps of the lattices on which smooth inputs are laid out: 24, or 10 by 10 points,
    # and in "several" both 24 and 10.
    step = {"plane": 2 * math.pi / 10, "several": 2 * math.pi / 2}.get(case, 2 * math.pi / 24)
    by = {"x": 5 * step, "y": -0.6}
    by = {name: by[name] for name in signature.homogeneous}
    inputs, queries = samples_for(signature), queries_for(signature)
    shifted = shifted_by(signature, inputs, by)
    names = [axis.name for axis in signature.coordinates]
    before, after = model(inputs, queries), model(shifted, moved(signature, queries, names, by))
    assert (after - before).abs().max() < 1e-8 * before.std()
    assert (model(shifted, queries) - before).abs().max() > 1e-2 * before.std()


def test_shifting_by_less_than_a_lattice_step_does_so_for_smooth_inputs():
    signature, model = SIGNATURES["evolution"], build("evolution")
    points = 2 * math.pi * torch.arange(64, dtype=torch.float64)[None, :, None] / 64
    inputs = {"u0": FunctionSamples(points, torch.sin(points) - 0.7 * torch.cos(3 * points + 1))}
    queries = queries_for(signature)[:1]
    before = model(inputs, queries)
    after = model(
        shifted_by(signature, inputs, {"x": 0.1}),
        moved(signature, queries, ("t", "x"), {"x": 0.1}),
    )
    # Left is the error of summing over the lattice; the sharpest kernels see its steps.
    assert (after - before).abs().max() < 3e-2 * before.std()


def test_without_homogeneity_place_matters():
    signature, model = SIGNATURES["not homogeneous"], build("not homogeneous")
    inputs, queries = samples_for(signature), queries_for(signature)
    shifted = FunctionSamples((inputs["u0"].points + 1.0) % (2 * math.pi), inputs["u0"].values)
    there = torch.stack([queries[..., 0], (queries[..., 1] + 1.0) % (2 * math.pi)], -1)
    assert (model({"u0": shifted}, there) - model(inputs, queries)).abs().max() > 1e-3


@pytest.mark.parametrize("case", ["evolution", "plane", "not homogeneous", "several", "none"])
def test_periodic_axes_are_periodic_to_all_orders(case):
    signature, model = SIGNATURES[case], build(case)
    inputs, queries = samples_for(signature), queries_for(signature)
    for i, axis in enumerate(signature.coordinates):
        if not axis.periodic:
            continue
        ends = []
        for end in (axis.low, axis.high):
            at = queries.clone()
            at[..., i] = end
            along = torch.zeros_like(at)
            along[..., i] = 1.0

            def field(q):
                return model(inputs, q)

            def slope(q, f=field, v=along):
                return jvp(f, (q,), (v,))[1]

            def curvature(q, f=slope, v=along):
                return jvp(f, (q,), (v,))[1]

            ends.append((field(at), slope(at), curvature(at)))
        for low, high in zip(*ends, strict=True):
            assert (low - high).abs().max() < 1e-10 * (1 + low.abs().max())


@pytest.mark.parametrize("sensors", [40, 64])
def test_scattered_sensors_of_a_smooth_input_tell_as_much_as_a_grid(sensors):
    model = build("evolution")
    queries = queries_for(SIGNATURES["evolution"])
    generator = torch.Generator().manual_seed(4)
    grid = (torch.arange(64, dtype=torch.float64) / 64).expand(2, 64)
    scattered = torch.rand(2, sensors, dtype=torch.float64, generator=generator)

    def wave(x):
        return torch.sin(x) - 0.7 * torch.cos(3 * x + 1)

    def see(unit):
        points = 2 * math.pi * unit[..., None]
        return {"u0": FunctionSamples(points, wave(points))}

    on_grid, off_grid = model(see(grid), queries), model(see(scattered), queries)
    assert (on_grid - off_grid).abs().max() < 1e-2 * on_grid.std()


def test_parameter_counts_of_the_paper():
    time = AxisSignature("t", 0.0, 2.475)
    x, y = AxisSignature("x", 0.0, 2 * math.pi, True), AxisSignature("y", 0.0, 1.0, True)
    burgers = Signature((time, x), (InputSignature("u0", ("x",)),), 1, 0, ("x",))
    heat = Signature((time, x, y), (InputSignature("u0", ("x", "y")),), 1, 0, ("x", "y"))

    def count(signature):
        return sum(p.numel() for p in build_backbone("pit", signature, "paper").parameters())

    # The authors' code, counted (Burgers 25 features per sensor, heat 37, value included).
    assert count(burgers) == 1_014_801
    assert count(heat) == 1_017_201


def test_the_paper_encodes_raw_coordinates_at_one_radian_per_unit_or_slower():
    model = build("evolution", "paper")
    inputs, queries = samples_for(SIGNATURES["evolution"]), queries_for(SIGNATURES["evolution"])
    once_round = queries + torch.tensor([0.0, 2 * math.pi], dtype=torch.float64)
    assert (model(inputs, once_round) - model(inputs, queries)).abs().max() > 1e-4
