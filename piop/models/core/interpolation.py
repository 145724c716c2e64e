"""Values between grid points: harmonics round a period, cubics elsewhere; the nearest sensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from piop.fields import FunctionSamples, nearest_sensor_values
from piop.models.core.base import AxisSignature, InputSignature, standardised

LINE_TOLERANCE = 1e-4
"""Sensors that are closer than this fraction of an axis lie on one line of their grid."""


def even_ticks(axis: AxisSignature, count: int, like: Tensor) -> Tensor:
    """Lay ``count`` even points along an axis, its end left out where it is periodic."""
    steps = torch.arange(count, dtype=like.dtype, device=like.device)
    cells = count if axis.periodic else count - 1
    return axis.low + steps * ((axis.high - axis.low) / cells)


def interpolate_grid(
    values: Tensor, ticks: Sequence[Tensor], axes: Sequence[AxisSignature], points: Tensor
) -> Tensor:
    """Interpolate from a tensor grid.

    Args:
        values: ``[B, n_1, …, n_D, C]``.
        ticks: Positions along each axis, ``[n_1], …, [n_D]``.
        axes: The D axes.
        points: Points to interpolate to ``[B or 1, N, D]``.

    Returns:
        ``[B, N, C]``.
    """
    state = values[:, None]
    for i, (tick, axis) in enumerate(zip(ticks, axes, strict=True)):
        weights = interpolation_weights(tick, points[..., i], axis).to(values)[..., None, :]
        state = torch.matmul(weights, state.flatten(3)).squeeze(2)
        state = state.unflatten(-1, values.shape[2 + i :])
    return state


def interpolation_weights(ticks: Tensor, at: Tensor, axis: AxisSignature) -> Tensor:
    """Compute the weights of the values at ticks that interpolate to other positions.

    Args:
        ticks: ``[n]`` float64, increasing; even where the axis is periodic.
        at: Positions ``[…]``, units of the axis.
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
    angle = (at - axis.low) * (2 * torch.pi / (axis.high - axis.low))
    waves = torch.arange(1, (count + 1) // 2, dtype=torch.float64, device=at.device)
    steps = torch.arange(count, dtype=torch.float64, device=at.device)
    here, there = angle[..., None] * waves, steps[:, None] * (waves * (2 * torch.pi / count))
    total = 1 + 2 * (here.cos() @ there.cos().mT + here.sin() @ there.sin().mT)
    if count % 2 == 0:
        total = total + torch.cos(angle * (count / 2))[..., None] * (1 - 2 * (steps % 2))
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
        factors = [(at - nodes[..., j]) / (nodes[..., i] - nodes[..., j]) for j in others]
        weights.append(torch.stack(factors).prod(0) if factors else torch.ones_like(at))
    blank = torch.zeros(*at.shape, len(ticks), dtype=torch.float64, device=at.device)
    return blank.scatter(-1, index, torch.stack(weights, -1))


def nearest_values(
    entry: InputSignature, samples: FunctionSamples, at: Tensor, axes: Sequence[AxisSignature]
) -> Tensor:
    """Take the value of the nearest real sensor, distances in lengths of the axes.

    Args:
        entry: The input.
        samples: Its sensors.
        at: ``[1 or B, L, d]``.
        axes: The d axes; distances across periodic boundaries count.

    Returns:
        ``[B, L, c]``, standardised.
    """
    lengths = [axis.high - axis.low for axis in axes]
    sensors = FunctionSamples(samples.points, standardised(entry, samples), samples.mask)
    return nearest_sensor_values(sensors, at, lengths, [axis.periodic for axis in axes])


def nearest_on_grid(
    points: Tensor, ticks: Sequence[Tensor], axes: Sequence[AxisSignature]
) -> Tensor:
    """Find the nearest sensor of each point of a grid, for sensors on an even grid as well.

    Computed, not searched: along each axis sensors lie on m even lines, so the line and with it the
    sensor follow by division, whatever the order in which sensors are listed.

    Args:
        points: Sensors ``[M, d]`` on a full even grid.
        ticks: Positions along each of the d axes.
        axes: Those axes; beyond the last line of a periodic one comes the first.

    Returns:
        Indices into the sensors ``[n_1 ⋯ n_d]``.
    """
    count = len(points)
    number = torch.zeros(count, dtype=torch.long, device=points.device)
    wanted = number.new_zeros(())
    for i, (tick, axis) in enumerate(zip(ticks, axes, strict=True)):
        column = points[:, i]
        low, high = column.min(), column.max()
        lines = count // (column < low + LINE_TOLERANCE * (axis.high - axis.low)).sum()
        step = ((high - low) / (lines - 1).clamp(min=1)).clamp(min=1e-30)
        number = number * lines + ((column - low) / step).round().long()
        line = ((tick - low) / step).clamp(-2e9, 2e9).round().long()
        line = line.remainder(lines) if axis.periodic else line.clamp(min=0).minimum(lines - 1)
        wanted = wanted[..., None] * lines + line
    order = torch.zeros_like(number).scatter(0, number, torch.arange(count, device=points.device))
    return order[wanted.flatten()]
