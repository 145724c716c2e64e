"""Reference solutions at the queries of predictions: on the solver's grid, or interpolated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError
from piop.fields import grid_axis
from piop.sampling.stored_functions import interpolate

if TYPE_CHECKING:
    from piop.problem import Problem
    from piop.reference.solution import Solution

FEWEST_TIMES = 101
"""Times of the solver's solution from which values at scattered points are interpolated."""


def solution_times(problem: Problem, queries: Queries) -> list[float] | None:
    """Return the times of the solution from which its values at queries follow; None if steady."""
    if problem.time is None:
        return None
    if queries.axes is not None:
        return queries.axes[problem.time.name].unique().tolist()
    count = max(problem.save[0], FEWEST_TIMES)
    return torch.linspace(problem.time.low, problem.time.high, count, dtype=torch.float64).tolist()


def solution_shape(problem: Problem, queries: Queries) -> tuple[int, ...]:
    """Return the points per axis of space for a grid: its own where it is even, else no fewer.

    A solver answers on even grids, both ends of walls included; values at other positions are
    interpolated from at least as many points as are saved.
    """
    axes = _space_axes(problem, queries)
    counts = tuple(map(len, axes))
    even = [
        grid_axis(c.low, c.high, len(a), c.periodic)
        for c, a in zip(problem.space, axes, strict=True)
    ]
    if _same_positions(problem, axes, even):
        return counts
    saved = problem.save[len(problem.coordinates) - len(problem.space) :]
    return tuple(max(pair) for pair in zip(counts, saved, strict=True))


def values_at(problem: Problem, solution: Solution, queries: Queries) -> dict[str, Tensor]:
    """Interpolate a solution in space, and in time for scattered points.

    Args:
        problem: The problem.
        solution: At :func:`solution_times`.
        queries: Grid or points.

    Returns:
        Channel → ``[B, *queries.shape]`` float64.

    Raises:
        NotSupportedError: On a shape, where solutions are at points of their own.
    """
    if solution.points is not None:
        raise NotSupportedError("the solver's answers on a shape are at points of its own")
    axes = list(problem.space)
    ticks = [axis.numpy() for axis in solution.axes]
    if queries.axes is None and problem.time is not None:
        axes, ticks = [problem.time, *axes], [solution.times.numpy(), *ticks]
    found = {}
    for channel in problem.channels:
        values = solution.values[channel].double().cpu()
        if queries.axes is None:
            function = interpolate("solution", values, ticks, axes)
            points = cast("Tensor", queries.points).double()
            found[channel] = function(points).expand(len(values), -1)
            continue
        wanted = _space_axes(problem, queries)
        if not _same_positions(problem, wanted, solution.axes):
            flat = values if problem.time is None else values.flatten(0, 1)
            flat = interpolate("solution", flat, ticks, axes).on_grid(wanted)
            values = flat if problem.time is None else flat.unflatten(0, values.shape[:2])
        if problem.time is not None:
            own = queries.axes[problem.time.name]
            values = values[:, own.unique(return_inverse=True)[1]]
        found[channel] = values
    return found


def _space_axes(problem: Problem, queries: Queries) -> list[Tensor]:
    return [(queries.axes or {})[c.name].double().cpu() for c in problem.space]


def _same_positions(problem: Problem, one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether two grids in space are the same, up to rounding."""
    return all(
        len(a) == len(b) and torch.allclose(a, b.to(a), rtol=0, atol=1e-9 * c.length)
        for c, a, b in zip(problem.space, one, other, strict=True)
    )
