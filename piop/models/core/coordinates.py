"""Coordinates as features: angles, harmonics, sinusoids, and distances across periodic seams."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from piop.models.core.base import AxisSignature, Signature


def angles(points: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Turn coordinates into angles: once round a periodic axis, half round any other.

    Half a turn keeps the two ends of an axis with walls apart. The factors are Python numbers, so
    that the period is exact in every precision.

    Args:
        points: ``[B, N, d]``, units of the axes.
        axes: The d axes.

    Returns:
        ``[B, N, d]`` in radians.
    """
    columns = [
        (points[..., i : i + 1] - axis.low) * (angular_span(axis) / (axis.high - axis.low))
        for i, axis in enumerate(axes)
    ]
    return torch.cat(columns, -1) if len(columns) > 1 else columns[0]


def angular_span(axis: AxisSignature) -> float:
    """Angle that an axis spans, radians."""
    return 2 * math.pi if axis.periodic else math.pi


def wave_vectors(dimension: int, radius: int) -> list[tuple[int, ...]]:
    """Integer wave vectors with 0 < |k| ≤ radius, one of each ±k, shortest first.

    Example:
        >>> wave_vectors(2, 1)
        [(0, 1), (1, 0)]
    """
    axis = torch.arange(-radius, radius + 1)
    grid = torch.cartesian_prod(*[axis] * dimension).reshape(-1, dimension).tolist()
    zero = (0,) * dimension
    half = [tuple(k) for k in grid if tuple(k) > zero and sum(i * i for i in k) <= radius**2]
    return sorted(half, key=lambda k: (sum(i * i for i in k), k))


def shortest_waves(dimension: int, count: int) -> list[tuple[int, ...]]:
    """Return the ``count`` shortest wave vectors.

    Example:
        >>> shortest_waves(1, 3)
        [(1,), (2,), (3,)]
    """
    radius = 1
    while len(found := wave_vectors(dimension, radius)) < count:
        radius += 1
    return found[:count]


def harmonics(angle: Tensor, waves: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of k·θ.

    The phase is summed term by term and not as a matrix product, which lower precisions round: the
    phase of a high wave would be lost.

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


def sinusoids(points: Tensor, width: int) -> Tensor:
    """Encode raw coordinates as the paper does.

    Dos Santos et al. 2023, eq. 5: α_j = 10000^(−2⌊j/2⌋/width), sine for even j and cosine for odd.

    Args:
        points: ``[B, N, D]``, units of the coordinates.
        width: Features per coordinate, even.

    Returns:
        ``[B, N, D · width]``: all sines of a coordinate, then all its cosines (the order within the
        encoding is immaterial to the layer that follows).
    """
    rates = [10000.0 ** (-2 * j / width) for j in range(width // 2)]
    columns = []
    for i in range(points.shape[-1]):
        phase = points[..., i : i + 1] * torch.tensor(
            rates, dtype=points.dtype, device=points.device
        )
        columns += [torch.sin(phase), torch.cos(phase)]
    return torch.cat(columns, -1)


CIRCUMFERENCE_SQUARED = 4 * math.pi**2
"""Square of the angle round an axis: chords per radian to chords per length of the axis."""


def squared_distances(to: Tensor, of: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Square the Euclidean distance to the nearest image.

    On a torus the nearest image is nearest along each axis by itself, so the minimum is taken axis
    by axis; images along the axes alone, as in the authors' TensorFlow code for two dimensions,
    would miss the diagonal ones. Not smooth half a period away: for a mesh, not for physics.

    Args:
        to: ``[B or 1, N, d]``, units of the axes.
        of: ``[B or 1, M, d]``.
        axes: The d axes; each counts as 1 long.

    Returns:
        ``[B or 1, N, M]``, dimensionless; zeros where d = 0.
    """
    total = to.new_zeros(()).expand(max(len(to), len(of)), to.shape[1], of.shape[1])
    for i, axis in enumerate(axes):
        step = (to[:, :, None, i] - of[:, None, :, i]) / (axis.high - axis.low)
        total = total + (step - step.round() if axis.periodic else step) ** 2
    return total


def squared_chords(to: Tensor, of: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Square the distance with the chord in place of the arc along periodic axes.

    An axis of length 1 is a circle of radius 1/2π, whose chord over Δ is sin(πΔ)/π: infinitely
    smooth across the seam, and Δ to first order. Along other axes it is the distance itself.

    Args:
        to: ``[B or 1, N, d]``, units of the axes.
        of: ``[B or 1, M, d]``.
        axes: The d axes; each counts as 1 long.

    Returns:
        ``[B or 1, N, M]``, dimensionless.
    """
    total = to.new_zeros(()).expand(max(len(to), len(of)), to.shape[1], of.shape[1])
    for i, axis in enumerate(axes):
        if axis.periodic:
            there, here = (angles(p[..., i : i + 1], [axis]) for p in (to, of))
            total = total + (2 - 2 * (there - here.mT).cos()) / CIRCUMFERENCE_SQUARED
        else:
            step = (to[:, :, None, i] - of[:, None, :, i]) / (axis.high - axis.low)
            total = total + step**2
    return total


def largest_squared_distance(axes: Sequence[AxisSignature]) -> float:
    """Largest squared distance in the box: 1/4 from each periodic axis, 1 from any other."""
    return sum(0.25 if axis.periodic else 1.0 for axis in axes) or 1.0


def absolute_axes(signature: Signature) -> tuple[int, ...]:
    """Columns of the queries that must be known as such; of all others differences suffice."""
    shifted = {name for entry in signature.functions for name in entry.of}
    free = shifted & set(signature.homogeneous)
    return tuple(i for i, axis in enumerate(signature.coordinates) if axis.name not in free)


def coordinate_features(points: Tensor, axes: list[AxisSignature], frequencies: int) -> Tensor:
    """Sines and cosines of each coordinate, and what grows along it (nothing does round a period).

    Args:
        points: ``[B, N, d]``, units of the axes.
        axes: The d axes.
        frequencies: How many sines, and cosines, of each.

    Returns:
        ``[B, N, d (1 + 2 frequencies)]``.
    """
    angle = angles(points, axes)
    columns = []
    for i, axis in enumerate(axes):
        one = angle[..., i : i + 1]
        columns.append(torch.sin(one) if axis.periodic else one * (2 / math.pi) - 1)
        rates = torch.arange(1, frequencies + 1, dtype=points.dtype, device=points.device)
        columns += [torch.sin(one * rates), torch.cos(one * rates)]
    return torch.cat(columns, -1)
