"""Points as tokens: their coordinates as features, and their shares of the domain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from piop.models.core.base import AxisSignature
from piop.models.core.coordinates import angles
from piop.models.core.spectral import Ticks


def shares(ticks: Sequence[Tensor], axes: Sequence[AxisSignature], alike: bool) -> Tensor:
    """Share of the domain that each point of a grid stands for: the weights of a quadrature.

    Args:
        ticks: Positions along each axis.
        axes: The D axes.
        alike: Give all points 1/n; else those of the trapezium rule along axes with walls, which
            are of second order where 1/n is of first.

    Returns:
        ``[n_1 ⋯ n_D]``, one in total.
    """
    share = ticks[0].new_ones(1)
    for axis, tick in zip(axes, ticks, strict=True):
        if axis.periodic or alike:
            part = torch.full_like(tick, 1 / len(tick))
        else:
            part = Ticks.padded(tick, axis.low, axis.high, 0.0).weight.to(tick)
        share = (share[:, None] * part).flatten()
    return share


def mesh(ticks: Sequence[Tensor]) -> Tensor:
    """Points of a tensor grid, the last axis fastest: ``[1, n_1 ⋯ n_D, D]``."""
    return torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).flatten(0, -2)[None]


def marks(points: Tensor, axes: Sequence[AxisSignature], frequencies: int) -> Tensor:
    """Coordinates as features.

    Args:
        points: ``[B, N, D]``, units of the axes.
        axes: The D axes.
        frequencies: Harmonics of each coordinate; along axes with walls, cosines and sines of half
            periods beside the coordinate itself, from −1 to 1. With 0 all coordinates run from 0 to
            1 and there are no harmonics.

    Returns:
        ``[B, N, p]``.
    """
    columns = []
    rates = torch.arange(1, frequencies + 1, dtype=points.dtype, device=points.device)
    for i, axis in enumerate(axes):
        column = points[..., i : i + 1]
        share = (column - axis.low) / (axis.high - axis.low)
        if not frequencies:
            columns.append(share)
            continue
        if not axis.periodic:
            columns.append(2 * share - 1)
        phase = angles(column, [axis]) * rates
        columns += [phase.cos(), phase.sin()]
    return torch.cat(columns, -1)


def mark_count(axes: Sequence[AxisSignature], frequencies: int) -> int:
    """Features that :func:`marks` gives: p."""
    if not frequencies:
        return len(axes)
    return sum(2 * frequencies + (not axis.periodic) for axis in axes)
