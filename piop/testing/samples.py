"""Random inputs, and places to answer at, for the shapes of any problem."""

from __future__ import annotations

import torch
from torch import Tensor

from piop.fields import FunctionSamples, grid_axis
from piop.models.core.base import AxisSignature, Backbone, InputSignature, Signature

Places = Tensor | list[Tensor]
"""Queries ``[B or 1, N, D]``, or the axes of a grid."""


def samples_for(
    signature: Signature, batch: int = 2, sensors: int = 40, seed: int = 0
) -> dict[str, FunctionSamples]:
    """Draw normal values at random sensors, on an even grid where an input is gridded; float64.

    Args:
        signature: The shapes.
        batch: B.
        sensors: M of each function; on a grid the power nearest to it.
        seed: Of places and values.
    """
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for entry in signature.inputs:
        axes = [signature.coordinates[signature.axis(name)] for name in entry.of]
        points = _sensors(entry, axes, batch, sensors, generator)
        shape = (*points.shape[:2], entry.channels)
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        found[entry.name] = FunctionSamples(points, values)
    return found


def _sensors(
    entry: InputSignature,
    axes: list[AxisSignature],
    batch: int,
    sensors: int,
    generator: torch.Generator,
) -> Tensor:
    """Lay sensors ``[B, M, d]``."""
    if entry.gridded and axes:
        side = max(2, round(sensors ** (1 / len(axes))))
        ticks = [grid_axis(a.low, a.high, side, a.periodic) for a in axes]
        mesh = torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).flatten(0, -2)
        return mesh.expand(batch, -1, -1)
    return _inside(axes, batch, sensors if axes else 1, generator)


def _inside(
    axes: list[AxisSignature], batch: int, count: int, generator: torch.Generator
) -> Tensor:
    unit = torch.rand(batch, count, len(axes), generator=generator, dtype=torch.float64)
    low = torch.tensor([a.low for a in axes], dtype=torch.float64)
    return low + unit * (torch.tensor([a.high for a in axes], dtype=torch.float64) - low)


def queries_for(signature: Signature, batch: int = 2, count: int = 7, seed: int = 1) -> Tensor:
    """Draw queries ``[B, N, D]`` at random, float64."""
    generator = torch.Generator().manual_seed(seed)
    return _inside(list(signature.coordinates), batch, count, generator)


def axes_for(model: Backbone, count: int = 6) -> list[Tensor]:
    """Lay the axes of a grid that a network answers on: its own steps in time where it has them.

    Args:
        model: The network.
        count: Points along each axis.
    """
    axes = []
    for i, axis in enumerate(model.signature.coordinates):
        fixed = model.fixed_times() if i == model.signature.time else None
        if fixed is None:
            axes.append(grid_axis(axis.low, axis.high, count, axis.periodic))
        else:
            axes.append(torch.tensor(fixed, dtype=torch.float64))
    return axes


def places_for(model: Backbone, batch: int = 2, count: int = 7, seed: int = 1) -> Places:
    """Choose places of the kind that a network answers at: queries for points, else a grid.

    Args:
        model: The network.
        batch: B.
        count: N queries, or points along each axis.
        seed: Of the queries.
    """
    if not model.field.pointwise:
        return axes_for(model, count)
    queries = queries_for(model.signature, batch, count, seed)
    if model.end_only and model.signature.time is not None:
        queries[..., model.signature.time] = model.signature.coordinates[model.signature.time].high
    return queries


def answer(model: Backbone, inputs: dict[str, FunctionSamples], places: Places) -> Tensor:
    """Answer at any places: ``[B, N, C]``, the points of a grid in one row."""
    if isinstance(places, Tensor):
        return model(inputs, places)
    return model.on_grid(inputs, places).flatten(1, -2)


def distance(a: Tensor, b: Tensor) -> float:
    """Find the largest difference of two answers."""
    return float((a - b).detach().abs().max())
