"""Random inputs, and points to evaluate at, for the shapes of any problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import final

import torch
from torch import Tensor

from piop.fields import FunctionSamples, grid_axis, tensor_grid
from piop.models.core.base import AxisSignature, Backbone, Signature


def samples_for(
    signature: Signature, batch: int = 2, sensors: int = 40, seed: int = 0
) -> dict[str, FunctionSamples]:
    """Draw normal values at random sensors, on an even grid where an input is gridded; float64.

    Args:
        signature: The shapes.
        batch: B.
        sensors: M of each function; on a grid the power nearest to it.
        seed: Of sensors and values.
    """
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for entry in signature.inputs:
        axes = signature.axes_of(entry)
        if entry.gridded and axes:
            side = max(2, round(sensors ** (1 / len(axes))))
            ticks = [grid_axis(a.low, a.high, side, a.periodic) for a in axes]
            points = tensor_grid(ticks).expand(batch, -1, -1)
        else:
            points = _inside(axes, batch, sensors if axes else 1, generator)
        shape = (*points.shape[:2], entry.channels)
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        found[entry.name] = FunctionSamples(points, values)
    return found


def _inside(
    axes: Sequence[AxisSignature], batch: int, count: int, generator: torch.Generator
) -> Tensor:
    unit = torch.rand(batch, count, len(axes), generator=generator, dtype=torch.float64)
    low = torch.tensor([a.low for a in axes], dtype=torch.float64)
    return low + unit * (torch.tensor([a.high for a in axes], dtype=torch.float64) - low)


def queries_for(signature: Signature, batch: int = 2, count: int = 7, seed: int = 1) -> Tensor:
    """Draw queries ``[B, N, D]`` at random, float64."""
    generator = torch.Generator().manual_seed(seed)
    return _inside(signature.coordinates, batch, count, generator)


@final
@dataclass(frozen=True)
class QueryPoints:
    """Scattered queries ``[B or 1, N, D]``."""

    queries: Tensor

    @property
    def count(self) -> int:
        """N, points of a sample."""
        return self.queries.shape[1]

    def evaluate(self, model: Backbone, inputs: Mapping[str, FunctionSamples]) -> Tensor:
        """Evaluate a network: ``[B, N, C]``."""
        return model(inputs, self.queries)

    def of_sample(self, i: int) -> QueryPoints:
        """Points of one sample of the batch."""
        return QueryPoints(self.queries[[i]])

    def in_single_precision(self) -> QueryPoints:
        """Return the same points in float32."""
        return QueryPoints(self.queries.float())

    def with_extra_coordinate(self) -> QueryPoints:
        """Repeat the first coordinate beside the others, which no network takes."""
        return QueryPoints(torch.cat([self.queries, self.queries[..., :1]], -1))


@final
@dataclass(frozen=True)
class GridPoints:
    """The tensor grid of axes ``[n_1], …, [n_D]``, the same for all samples."""

    axes: Sequence[Tensor]

    @property
    def count(self) -> int:
        """N, points of a sample."""
        return prod(len(axis) for axis in self.axes)

    def evaluate(self, model: Backbone, inputs: Mapping[str, FunctionSamples]) -> Tensor:
        """Evaluate a network: ``[B, N, C]``, the points of the grid in one row."""
        return model.on_grid(inputs, self.axes).flatten(1, -2)

    def of_sample(self, i: int) -> GridPoints:
        """Points of one sample of the batch."""
        return self

    def in_single_precision(self) -> GridPoints:
        """Return the same points in float32."""
        return GridPoints([axis.float() for axis in self.axes])

    def with_extra_coordinate(self) -> GridPoints:
        """Repeat the first coordinate beside the others, which no network takes."""
        return GridPoints([*self.axes, self.axes[0]])


EvaluationPoints = QueryPoints | GridPoints
"""Points of the kind that a network is evaluated at."""


def axes_for(model: Backbone, count: int = 6) -> list[Tensor]:
    """Lay the axes of a grid on which a network can be evaluated, at its fixed times if it has any.

    Args:
        model: The network.
        count: Points along each axis.
    """
    signature, times = model.signature, model.fixed_times()
    axes = [grid_axis(a.low, a.high, count, a.periodic) for a in signature.coordinates]
    if signature.time is not None and times is not None:
        axes[signature.time] = torch.tensor(times, dtype=torch.float64)
    return axes


def pointwise_queries(model: Backbone, batch: int = 2, count: int = 7, seed: int = 1) -> Tensor:
    """Draw queries ``[B, N, D]`` at random, at the end of the time where a network has no other."""
    queries = queries_for(model.signature, batch, count, seed)
    if model.end_only and model.signature.time is not None:
        queries[..., model.signature.time] = model.signature.coordinates[model.signature.time].high
    return queries


def points_for(model: Backbone, batch: int = 2, count: int = 7, seed: int = 1) -> EvaluationPoints:
    """Choose queries for a pointwise network, and a grid for any other.

    Args:
        model: The network.
        batch: B.
        count: N queries, or points along each axis.
        seed: Of the queries.
    """
    if model.field.pointwise:
        return QueryPoints(pointwise_queries(model, batch, count, seed))
    return GridPoints(axes_for(model, count))


def max_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference of two outputs."""
    return float((a - b).detach().abs().max())
