"""Means over windows around the points of the output: what a solution with jumps is saved as.

A point value beside a shock says nothing that refinement would improve; a mean over a fixed
window converges, at first order, because the scheme is conservative.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from piop.fields import grid_axis
from piop.problem import Problem
from piop.reference.finite_volume.flux import limited_slopes
from piop.reference.finite_volume.mesh import CellMesh


@dataclass(frozen=True)
class Window:
    """Where means are taken along an axis.

    Attributes:
        points: Points of the output ``[m]``: both ends, or without the right one where periodic.
        low: Left ends of the windows; beyond the axis where it is periodic, cut there otherwise.
        high: Right ends.
        periodic: Whether the axis is.
    """

    points: Tensor
    low: Tensor
    high: Tensor
    periodic: bool


def output_windows(
    problem: Problem, shape: tuple[int, ...], device: torch.device
) -> tuple[Window, ...]:
    """Windows as wide as the spacing of the spec's ``save`` grid, or of a finer output's."""
    saved = problem.save[len(problem.save) - len(problem.space) :]
    windows = []
    for axis, n, kept in zip(problem.space, shape, saved, strict=True):
        intervals = n if axis.periodic else max(n - 1, 1)
        width = axis.length / max(intervals, kept if axis.periodic else kept - 1)
        points = grid_axis(axis.low, axis.high, n, axis.periodic).to(device)
        low, high = points - width / 2, points + width / 2
        if not axis.periodic:
            low, high = low.clamp(min=axis.low), high.clamp(max=axis.high)
        windows.append(Window(points, low, high, axis.periodic))
    return tuple(windows)


def means(u: Tensor, mesh: CellMesh, windows: tuple[Window, ...], linear: bool = True) -> Tensor:
    """Means over windows of cell means, ``[B, n, *shape]``.

    Args:
        u: Cell means ``[B, n, *sizes]``.
        mesh: Their cells.
        windows: Along each axis.
        linear: Whether the function is taken as limited-linear in a cell, or constant.
    """
    for axis, window in enumerate(windows):
        total = _integral(u, mesh, axis, window, window.high, linear)
        total = total - _integral(u, mesh, axis, window, window.low, linear)
        width = (window.high - window.low).reshape([-1] + [1] * (u.ndim - 3 - axis))
        u = total / width
    return u


def _integral(
    u: Tensor, mesh: CellMesh, axis: int, window: Window, ends: Tensor, linear: bool
) -> Tensor:
    """∫ from the low end of the axis to ``ends``."""
    dim, n, h = 2 + axis, mesh.sizes[axis], mesh.widths[axis]
    place = (ends - mesh.lows[axis]) / h
    cell = place.floor()
    if not window.periodic:
        cell = cell.clamp(0, n - 1)
    shape = [-1] + [1] * (u.ndim - 1 - dim)
    within = (place - cell).reshape(shape)
    laps, index = (cell / n).floor().reshape(shape), (cell % n).long()
    sums = u.cumsum(dim)
    whole = sums.narrow(dim, n - 1, 1)
    before = (sums - u).index_select(dim, index) + laps * whole
    part = u.index_select(dim, index) * within
    if linear:
        slope = _slopes(u, dim, window.periodic).index_select(dim, index)
        part = part + 0.5 * slope * (within**2 - within)
    return h * (before + part)


def _slopes(u: Tensor, dim: int, periodic: bool) -> Tensor:
    """Limited slopes of all cells; beside a boundary those of its last cell continued."""
    n = u.shape[dim]
    first, last = (n - 1, 0) if periodic else (0, n - 1)
    padded = torch.cat([u.narrow(dim, first, 1), u, u.narrow(dim, last, 1)], dim)
    return limited_slopes(padded, dim)
