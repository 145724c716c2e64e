"""Coordinates as features, even grids, and distances across periodic boundaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from piop.fields import squared_periodic_distances, tensor_grid
from piop.models.core.base import AxisSignature, Signature


def take_columns(points: Any, columns: Sequence[int]) -> Any:
    """Select columns of points ``[B, N, D]`` in the order given: ``[B, N, len(columns)]``."""
    first = columns[0] if columns else 0
    if list(columns) == list(range(first, first + len(columns))):
        return points[..., first : first + len(columns)]
    return torch.cat([points[..., i : i + 1] for i in columns], -1)


def scaled_to_unit(points: Any, axes: Sequence[AxisSignature]) -> Any:
    """Scale coordinates so that every axis runs from zero to one.

    Args:
        points: ``[B, N, d]``, units of the axes.
        axes: The d axes.
    """
    return _scaled(points, axes, [1.0] * len(axes))


def angles(points: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Scale coordinates to angles: 2π over a periodic axis, π over any other.

    With π the two ends of an axis that is not periodic stay distinct. The factors are Python
    numbers, so that the period is exact in every precision.

    Args:
        points: ``[B, N, d]``, units of the axes.
        axes: The d axes.

    Returns:
        ``[B, N, d]`` in radians.
    """
    return _scaled(points, axes, [2 * math.pi if axis.periodic else math.pi for axis in axes])


def _scaled(points: Any, axes: Sequence[AxisSignature], lengths: Sequence[float]) -> Any:
    """Scale coordinates so that every axis runs from zero to its length."""
    lows = [axis.low for axis in axes]
    rates = [length / (axis.high - axis.low) for axis, length in zip(axes, lengths, strict=True)]
    if len({*zip(lows, rates, strict=True)}) == 1:
        return (points - lows[0]) * rates[0]
    columns = [
        (points[..., i : i + 1] - low) * rate
        for i, (low, rate) in enumerate(zip(lows, rates, strict=True))
    ]
    return torch.cat(columns, -1)


def wave_vectors(dimension: int, radius: int) -> Tensor:
    """Integer wave vectors with 0 < |k| ≤ radius, one of each ±k, shortest first: ``[K, d]``.

    Example:
        >>> wave_vectors(2, 1)
        tensor([[0., 1.],
                [1., 0.]])
    """
    axis = torch.arange(-radius, radius + 1)
    grid = torch.cartesian_prod(*[axis] * dimension).reshape(-1, dimension)
    half = grid[len(grid) // 2 + 1 :]  # in ascending order, with zero in the middle
    squares = half.square().sum(-1)
    order = squares.argsort(stable=True)[: int((squares <= radius**2).sum())]
    return half[order].to(torch.get_default_dtype())


def shortest_waves(dimension: int, count: int) -> Tensor:
    """Return the ``count`` shortest wave vectors ``[count, d]``.

    Example:
        >>> shortest_waves(1, 3)
        tensor([[1.],
                [2.],
                [3.]])
    """
    radius = 1
    while len(found := wave_vectors(dimension, radius)) < count:
        radius *= 2
    return found[:count].clone()


def harmonics(angle: Tensor, waves: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of k·θ.

    The phase is summed term by term and not as a matrix product, which lower precisions round: the
    phase of a high wave number would be lost.

    Args:
        angle: ``[B, N, d]``, radians.
        waves: ``[K, d]``.

    Returns:
        Two tensors ``[B, N, K]``.
    """
    factors = waves.to(angle.dtype).unbind(-1)
    phase = angle[..., 0:1] * factors[0]
    for axis, factor in enumerate(factors[1:], start=1):
        phase = phase + angle[..., axis : axis + 1] * factor
    return torch.cos(phase), torch.sin(phase)


def absolute_axes(signature: Signature) -> tuple[int, ...]:
    """Columns of the queries that enter as such; of all others differences to sensors suffice."""
    shifted = {name for entry in signature.functions for name in entry.of}
    free = shifted & set(signature.homogeneous)
    return tuple(i for i, axis in enumerate(signature.coordinates) if axis.name not in free)


@dataclass(frozen=True)
class CoordinateEncoding:
    """Sines and cosines of chosen coordinates, and what grows along each that is not periodic.

    Attributes:
        axes: All coordinates of the points.
        columns: Indices of the coordinates that are encoded.
        frequencies: Sines, and cosines, of each.
    """

    axes: Sequence[AxisSignature]
    columns: Sequence[int]
    frequencies: int

    @property
    def features(self) -> int:
        """Features per point."""
        return len(self.columns) * (1 + 2 * self.frequencies)

    def linear(self, width: int) -> nn.Linear | None:
        """Make a linear map of the features; None where no coordinate is encoded."""
        return nn.Linear(self.features, width) if self.columns else None

    def __call__(self, points: Tensor) -> Tensor:
        """Encode ``points [B, N, D]``, units of the axes: ``[B, N, features]``."""
        chosen = [self.axes[i] for i in self.columns]
        angle = angles(take_columns(points, self.columns), chosen)
        rates = torch.arange(1, self.frequencies + 1, dtype=points.dtype, device=points.device)
        phase = angle[..., None] * rates
        columns = [
            torch.sin(angle[..., i : i + 1])
            if axis.periodic
            else angle[..., i : i + 1] * (2 / math.pi) - 1
            for i, axis in enumerate(chosen)
        ]
        first = torch.cat(columns, -1)[..., None]
        return torch.cat([first, torch.sin(phase), torch.cos(phase)], -1).flatten(-2)


def coordinate_features(
    points: Tensor, axes: Sequence[AxisSignature], frequencies: int, walled: bool = True
) -> Tensor:
    """Coordinates as features.

    Args:
        points: ``[B, N, D]``, units of the axes.
        axes: The D axes.
        frequencies: Harmonics of each coordinate; along axes with walls, cosines and sines of half
            periods beside the coordinate itself, from −1 to 1. With 0 all coordinates run from 0 to
            1 and there are no harmonics.
        walled: Whether axes with walls have harmonics too, or the coordinate alone.

    Returns:
        ``[B, N, p]``.
    """
    columns = [points[..., :0]]
    rates = torch.arange(1, frequencies + 1, dtype=points.dtype, device=points.device)
    for i, axis in enumerate(axes):
        column = points[..., i : i + 1]
        scaled = (column - axis.low) / (axis.high - axis.low)
        if not frequencies:
            columns.append(scaled)
            continue
        if not axis.periodic:
            columns.append(2 * scaled - 1)
        if axis.periodic or walled:
            phase = angles(column, [axis]) * rates
            columns += [phase.cos(), phase.sin()]
    return torch.cat(columns, -1)


def cell_grid(
    axes: Sequence[AxisSignature], counts: Sequence[int], like: Tensor, centred: bool = True
) -> Tensor:
    """One point of each cell of an even grid: ``[1, ∏ counts, d]``.

    Args:
        axes: The d axes.
        counts: Cells along each.
        like: A tensor of the dtype and device wanted.
        centred: Whether points are cell centres along periodic axes too, or lower ends there.
    """
    ticks = []
    for axis, count in zip(axes, counts, strict=True):
        steps = torch.arange(count, dtype=like.dtype, device=like.device)
        first = 0.5 if centred or not axis.periodic else 0.0
        ticks.append(axis.low + (steps + first) * ((axis.high - axis.low) / count))
    return tensor_grid(ticks)[None] if ticks else like.new_zeros(1, 1, 0)


CIRCUMFERENCE_SQUARED = 4 * math.pi**2
"""Squared circumference of the unit circle: chords per radian to chords per length of the axis."""


def squared_distances(to: Tensor, of: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Square the distance to the nearest periodic image, each axis 1 long: ``[B or 1, N, M]``.

    Not smooth half a period away: for a mesh, not for physics. See
    :func:`piop.fields.squared_periodic_distances`.
    """
    lengths = [axis.high - axis.low for axis in axes]
    return squared_periodic_distances(to, of, lengths, [axis.periodic for axis in axes])


def squared_chords(to: Tensor, of: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Square the distance with the chord in place of the arc along periodic axes.

    An axis of length 1 is a circle of radius 1/2π, whose chord over Δ is sin(πΔ)/π: infinitely
    smooth across the boundary, and Δ to first order. Along other axes it is the distance itself.

    Args:
        to: ``[B or 1, N, d]``, units of the axes.
        of: ``[B or 1, M, d]``.
        axes: The d axes; each counts as 1 long.

    Returns:
        ``[B or 1, N, M]``, dimensionless.
    """
    total = to.new_zeros(()).expand(max(len(to), len(of)), to.shape[1], of.shape[1])
    for i, axis in enumerate(axes):
        there, here = to[..., i : i + 1], of[..., i : i + 1]
        if axis.periodic:
            angle = angles(there, [axis]) - angles(here, [axis]).mT
            total = total + (2 - 2 * angle.cos()) / CIRCUMFERENCE_SQUARED
        else:
            total = total + ((there - here.mT) / (axis.high - axis.low)) ** 2
    return total


def largest_squared_distance(axes: Sequence[AxisSignature]) -> float:
    """Largest squared distance in the box: 1/4 from each periodic axis, 1 from any other."""
    return sum(0.25 if axis.periodic else 1.0 for axis in axes) or 1.0
