"""Values between the points of a grid: by harmonics round a period, by cubics along other axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from piop.models.core.base import AxisSignature


def even_ticks(axis: AxisSignature, count: int, like: Tensor) -> Tensor:
    """Lay ``count`` even points along an axis, its end left out where it is periodic."""
    steps = torch.arange(count, dtype=like.dtype, device=like.device)
    cells = count if axis.periodic else count - 1
    return axis.low + steps * ((axis.high - axis.low) / cells)


def values_between(
    values: Tensor, ticks: Sequence[Tensor], axes: Sequence[AxisSignature], points: Tensor
) -> Tensor:
    """Interpolate from a tensor grid.

    Args:
        values: ``[B, n_1, …, n_D, C]``.
        ticks: Positions along each axis, ``[n_1], …, [n_D]``.
        axes: The D axes.
        points: Where values are wanted ``[B or 1, N, D]``.

    Returns:
        ``[B, N, C]``.
    """
    state = values[:, None]
    for i, (tick, axis) in enumerate(zip(ticks, axes, strict=True)):
        weights = weights_between(tick, points[..., i], axis).to(values)[..., None, :]
        state = torch.matmul(weights, state.flatten(3)).squeeze(2)
        state = state.unflatten(-1, values.shape[2 + i :])
    return state


def weights_between(ticks: Tensor, at: Tensor, axis: AxisSignature) -> Tensor:
    """Weigh the values at ticks for those at other places.

    Args:
        ticks: ``[n]`` float64, increasing; even where the axis is periodic.
        at: Places ``[…]``, units of the axis.
        axis: The axis.

    Returns:
        ``[…, n]`` float64.
    """
    at = at.double()
    if axis.periodic:
        return _harmonic(at, len(ticks), axis)
    return _cubic(ticks.double().to(at.device), at)


def _harmonic(at: Tensor, count: int, axis: AxisSignature) -> Tensor:
    """Trigonometric interpolation: (1 + 2 Σ cos k(x - x_j))/n, half the wave n/2 of an even n."""
    turns = (at - axis.low) * (2 * torch.pi / (axis.high - axis.low))
    waves = torch.arange(1, (count + 1) // 2, dtype=torch.float64, device=at.device)
    steps = torch.arange(count, dtype=torch.float64, device=at.device)
    here, there = turns[..., None] * waves, steps[:, None] * (waves * (2 * torch.pi / count))
    total = 1 + 2 * (here.cos() @ there.cos().mT + here.sin() @ there.sin().mT)
    if count % 2 == 0:
        total = total + torch.cos(turns * (count / 2))[..., None] * (1 - 2 * (steps % 2))
    return total / count


def _cubic(ticks: Tensor, at: Tensor) -> Tensor:
    """Lagrange's cubic through the four nearest ticks, or through all where they are fewer."""
    size = min(4, len(ticks))
    below = torch.searchsorted(ticks, at.contiguous(), right=True) - 1
    first = (below - (size // 2 - 1)).clamp(0, len(ticks) - size)
    index = first[..., None] + torch.arange(size, device=at.device)
    nodes = ticks[index]
    weights = []
    for i in range(size):
        others = [j for j in range(size) if j != i]
        shares = [(at - nodes[..., j]) / (nodes[..., i] - nodes[..., j]) for j in others]
        weights.append(torch.stack(shares).prod(0) if shares else torch.ones_like(at))
    blank = torch.zeros(*at.shape, len(ticks), dtype=torch.float64, device=at.device)
    return blank.scatter(-1, index, torch.stack(weights, -1))
