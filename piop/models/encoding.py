"""Coordinates as features: angles, harmonics, and the sines of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from piop.models.base import AxisSignature


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
        (points[..., i : i + 1] - axis.low) * (turn(axis) / (axis.high - axis.low))
        for i, axis in enumerate(axes)
    ]
    return torch.cat(columns, -1) if len(columns) > 1 else columns[0]


def turn(axis: AxisSignature) -> float:
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
