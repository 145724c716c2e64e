"""Points in the domain, at its start and on its faces, where conditions are imposed.

Those in a shape are the points of the box around it that lie inside.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.fields import grid_axis
from piop.sampling.designs import scale_to_box, unit_points
from piop.sampling.random import Draws
from piop.sampling.shapes import Region

if TYPE_CHECKING:
    from piop.problem import Coordinate, Problem


def collocation(
    problem: Problem,
    draws: Draws,
    count: int,
    method: str = "uniform",
    t_range: tuple[float, float] | None = None,
) -> Tensor:
    """Place points in the domain, in time and space.

    Args:
        problem: Its coordinates give the box, and its shape what of it to fill.
        draws: A different point set for each sample, except on a grid.
        count: N, points per sample; on a grid at most that many, equally many along every axis.
        method: ``uniform``, ``latin_hypercube`` (in boxes alone), ``sobol`` or ``grid``.
        t_range: Part of the time axis to use; by default all of it.

    Returns:
        ``[B, N, D]`` float64, coordinates in the order of the problem.

    Raises:
        ValueError: If the method is unknown, the count not positive, or ``t_range`` not inside the
            time axis; of a shape also if the method is for boxes, or no point of the grid inside.
    """
    fixed = {}
    if t_range is not None:
        _check_range(problem, t_range)
        fixed = {problem.coordinates[0].name: t_range}
    return _place(problem, draws, "collocation", count, method, fixed)


def initial_points(problem: Problem, draws: Draws, count: int, method: str = "uniform") -> Tensor:
    """Place points in space at the initial time: ``[B, N, D]`` float64.

    Raises:
        ValueError: If the problem has no time.
    """
    time = problem.time
    if time is None:
        raise ValueError("a steady problem has no initial points")
    fixed = {time.name: (time.low, time.low)}
    return _place(problem, draws, "initial", count, method, fixed)


def boundary_points(
    problem: Problem, draws: Draws, count: int, face: str, method: str = "uniform"
) -> Tensor:
    """Place points on a face such as ``x.min``: ``[B, N, D]`` float64.

    On the face of a shape they are spread over its length.

    Raises:
        ValueError: If there is no such face.
    """
    lane = f"boundary/{face}"
    if problem.shape is not None:
        return _on_face(problem, draws, lane, count, face, method)
    faces = {f"{a.name}.{end}": (a, end) for a in problem.space for end in ("min", "max")}
    if face not in faces:
        raise ValueError(f"{face!r} is not a face; one of {', '.join(faces)}")
    axis, end = faces[face]
    place = axis.low if end == "min" else axis.high
    return _in_box(problem.coordinates, draws, lane, count, method, {axis.name: (place, place)})


def _check_range(problem: Problem, t_range: tuple[float, float]) -> None:
    time, (start, end) = problem.time, t_range
    if time is None:
        raise ValueError("t_range: a steady problem has no time")
    if not time.low <= start <= end <= time.high:
        raise ValueError(f"t_range: [{start:g}, {end:g}] is not in [{time.low:g}, {time.high:g}]")


def _place(
    problem: Problem,
    draws: Draws,
    lane: str,
    count: int,
    method: str,
    fixed: dict[str, tuple[float, float]],
) -> Tensor:
    """Place points in the domain, between other ends along some axes."""
    axes = problem.coordinates
    if problem.shape is None or problem.region is None:
        return _in_box(axes, draws, lane, count, method, fixed)
    region = Region(problem.region, problem.shape)
    if method == "grid":
        free = sum(c.name not in fixed or fixed[c.name][0] < fixed[c.name][1] for c in axes)

        def grid(each: int) -> Tensor:
            return _in_box(axes, draws, lane, each**free, method, fixed)

        return region.on_grid(grid, count)
    if method == "latin_hypercube":
        raise ValueError(f"{method!r} divides a box, which a shape does not fill")
    ends = zip(problem.space, region.ends, strict=True)
    around = {axis.name: end for axis, end in ends} | fixed
    return region.first(lambda n: _in_box(axes, draws, lane, n, method, around), count)


def _on_face(
    problem: Problem, draws: Draws, lane: str, count: int, face: str, method: str
) -> Tensor:
    """Place points on a face of a shape: at even shares of its length, and in time."""
    assert problem.region is not None and problem.shape is not None  # noqa: S101 - the caller's
    if face not in problem.shape.faces:
        raise ValueError(f"{face!r} is not a face; one of {', '.join(problem.shape.faces)}")
    along = replace(problem.space[0], low=0.0, high=1.0)  # a share of the length
    axes = (*((problem.time,) if problem.time else ()), along)
    points = _in_box(axes, draws, lane, count, method, {})
    placed = Region(problem.region, problem.shape).on_face(face, points[..., -1])
    return torch.cat([points[..., :-1], placed], -1)


def _in_box(
    axes: tuple[Coordinate, ...],
    draws: Draws,
    lane: str,
    count: int,
    method: str,
    fixed: dict[str, tuple[float, float]],
) -> Tensor:
    """Place points in a box whose ends along some axes are replaced, equal ends taking no part."""
    ends = [fixed.get(axis.name, (axis.low, axis.high)) for axis in axes]
    free = [i for i, (low, high) in enumerate(ends) if low < high]
    if method == "grid":
        points = _grid([axes[i] for i in free], [ends[i] for i in free], count)
        points = points.to(draws.index.device).expand(draws.batch, -1, -1)
    else:
        unit = unit_points(draws, lane, count, len(free), method)
        points = scale_to_box(unit, [ends[i][0] for i in free], [ends[i][1] for i in free])
    placed = points.new_empty(*points.shape[:2], len(axes))
    for i, (low, _) in enumerate(ends):
        placed[..., i] = points[..., free.index(i)] if i in free else low
    return placed


def _grid(axes: list[Coordinate], ends: list[tuple[float, float]], count: int) -> Tensor:
    """Lay a tensor grid of at most ``count`` points: ``[1, N, D']``."""
    if count < 1:
        raise ValueError(f"count: {count} is not positive")
    if not axes:
        return torch.zeros(1, 1, 0, dtype=torch.float64)
    each = max(1, math.floor(count ** (1 / len(axes)) + 1e-9))
    whole = [a.periodic and e == (a.low, a.high) for a, e in zip(axes, ends, strict=True)]
    ticks = [grid_axis(*e, each, p) for e, p in zip(ends, whole, strict=True)]
    return torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).flatten(0, -2)[None]
