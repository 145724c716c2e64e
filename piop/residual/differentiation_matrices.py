"""Matrices that differentiate, and that interpolate, the values along one axis of a grid.

A matrix acts by one product on all functions, channels and other axes at once, knows no complex
number, and is the same whatever compiles it.

Sources: L. N. Trefethen, Spectral Methods in MATLAB (2000), chapters 1 and 3,
https://doi.org/10.1137/1.9780898719598; B. Fornberg, Generation of finite difference formulas on
arbitrarily spaced grids, Math. Comp. 51 (1988) 699-706,
https://doi.org/10.1090/S0025-5718-1988-0935077-0, whose weights are the solution of the moment
equations below.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def fourier_differences(count: int, length: float, order: int) -> Tensor:
    """Differentiate values at n even points of a period: exact for every wave below n/2.

    Args:
        count: n, points on the period, its right end left out.
        length: The period, units of the coordinate.
        order: How often to differentiate.

    Returns:
        ``[n, n]`` float64, in inverse units to the power of ``order``. The wave n/2 of an even n
        has no odd derivative that the points could tell from zero, so odd orders drop it (Trefethen
        2000, p. 20).

    Example:
        >>> x = torch.arange(8).double() * (2 * math.pi / 8)
        >>> slope = fourier_differences(8, 2 * math.pi, 1) @ torch.sin(3 * x)
        >>> torch.allclose(slope, 3 * torch.cos(3 * x))
        True
    """
    steps = torch.arange(count)
    waves = torch.arange(1, (count + 1) // 2)
    angles = (2 * math.pi / count) * (steps[:, None] * waves).remainder(count).double()
    # Re((ik)^m e^{ikx}) is k^m times the m-th of cos, -sin, -cos, sin
    shifted = torch.cos(angles + (order % 4) * (math.pi / 2))
    total = 2 * (shifted * waves.double() ** order).sum(-1) + float(order == 0)
    if count % 2 == 0 and order % 2 == 0:
        nyquist = (count / 2) ** order * (-1) ** (order // 2)
        total = total + nyquist * torch.where(steps % 2 == 0, 1.0, -1.0)
    # The weight of one point for another depends on their distance alone.
    total = total[(steps[:, None] - steps).remainder(count)]
    return total / count * (2 * math.pi / length) ** order


def point_weights(nodes: Tensor, at: float, order: int) -> Tensor:
    """Weigh the values at nodes for a derivative at a point: exact for degrees below their number.

    Args:
        nodes: ``[s]`` float64, all different.
        at: The point, among them or not.
        order: How often to differentiate, below s; 0 interpolates.

    Returns:
        ``[s]`` float64.
    """
    scale = (nodes - at).abs().max()
    powers = torch.arange(len(nodes), dtype=torch.float64)
    moments = ((nodes - at) / scale) ** powers[:, None]
    wanted = torch.zeros(len(nodes), dtype=torch.float64)
    wanted[order] = math.factorial(order)
    return torch.linalg.solve(moments, wanted) / scale**order


def finite_differences(
    ticks: Tensor, order: int, accuracy: int, at: Tensor | None = None
) -> Tensor:
    """Differentiate by the nearest values along an axis that ends.

    Args:
        ticks: Positions of the values ``[n]``, increasing.
        order: How often to differentiate.
        accuracy: Order of the error in the step: p for an error of hᵖ.
        at: Points of the derivatives ``[m]``; by default the ticks.

    Returns:
        ``[m, n]`` float64. In the middle as many values on both sides are taken; at the ends, where
        there are none on one side, as many as give the same order.

    Raises:
        ValueError: If there are fewer ticks than such a formula takes.
    """
    ticks = ticks.double()
    points = ticks if at is None else at.double()
    out = torch.zeros(len(points), len(ticks), dtype=torch.float64)
    for row, point in enumerate(points.tolist()):
        first, size = _window(ticks, point, order + accuracy)
        if first < 0:
            raise ValueError(
                f"{len(ticks)} values for a derivative of order {order} with error order "
                f"{accuracy}: give at least {order + accuracy}"
            )
        out[row, first : first + size] = point_weights(ticks[first : first + size], point, order)
    return out


def _window(ticks: Tensor, point: float, ends: int) -> tuple[int, int]:
    """Choose the ticks around a point: symmetrical ones, which gain an order, where there are."""
    below = int((ticks < point - 1e-9 * float(ticks[-1] - ticks[0])).sum())
    on_tick = below < len(ticks) and abs(float(ticks[below]) - point) <= 1e-9 * float(
        ticks[-1] - ticks[0]
    )
    half = (ends - 1) // 2 if on_tick else ends // 2
    size = 2 * half + 1 if on_tick else 2 * half
    first = below - half
    if first >= 0 and first + size <= len(ticks):
        return first, size
    return min(max(below - ends // 2, 0), len(ticks) - ends), ends  # negative where too few
