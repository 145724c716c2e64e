"""Solutions of the reference solver in place of predictions that may exceed a tolerance."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, cast, final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import DataError, NotSupportedError, SolverError
from piop.fields import FunctionSamples
from piop.reference import solve_reference
from piop.run.user_inputs import read_functions
from piop.sampling.stored_functions import interpolate

if TYPE_CHECKING:
    from piop.problem import Coordinate, Problem
    from piop.reference.solution import Solution

FEWEST_TIMES = 101
"""Times of the solver's solution from which values at scattered points are interpolated."""


class AnswerSource(IntEnum):
    """Where an answer comes from; the number is that in files."""

    OPERATOR = 0
    SOLVER = 1
    UNSOLVED = 2
    """The operator, whose bound exceeds the tolerance, because the solver has no answer."""


@final
@dataclass(frozen=True)
class Fallback:
    """Solutions of some samples.

    Attributes:
        values: ``[B, N, C]`` float64, of samples that are solved; others have NaN.
        errors: Error estimate of each ``[B]``; NaN where it is not solved.
        seconds: The time it took.
        reasons: Why samples are not solved, each once.
    """

    values: Tensor
    errors: Tensor
    seconds: float
    reasons: tuple[str, ...] = field(default=())

    @property
    def solved(self) -> Tensor:
        """Which are solved ``[B]``."""
        return self.errors.isfinite()


def solve_samples(
    problem: Problem,
    observed: Mapping[str, FunctionSamples],
    queries: Queries,
    tolerance: float,
    batch: int,
) -> Fallback:
    """Solve samples by the reference solver of the problem; what it cannot solve is left out.

    Args:
        problem: The problem, its parameters being numbers.
        observed: Sensors of B samples of each visible input.
        queries: Where the solutions are wanted.
        tolerance: Largest relative L2 error.
        batch: B.
    """
    begun = clock.monotonic()
    found = torch.full((batch, _count(queries), len(problem.channels)), torch.nan).double()
    errors = torch.full((batch,), torch.nan, dtype=torch.float64)
    reasons: dict[str, None] = {}
    for rows in _batches(problem, observed, batch, reasons):
        own = {name: s.repeat(batch).take(rows) for name, s in observed.items()}
        try:
            solution = _solve(problem, own, queries, tolerance)
            values = _at_queries(problem, solution, queries)
        except (DataError, SolverError, NotSupportedError) as error:
            reasons[str(error)] = None
            continue
        good = solution.accepted
        reasons |= dict.fromkeys(solution.notes)
        found[rows[good]], errors[rows[good]] = values[good], solution.error_estimate[good]
    return Fallback(found, errors, clock.monotonic() - begun, tuple(reasons))


def _count(queries: Queries) -> int:
    return queries.tensor().shape[1]


def _batches(
    problem: Problem,
    observed: Mapping[str, FunctionSamples],
    batch: int,
    reasons: dict[str, None],
) -> list[Tensor]:
    """Split samples into all those whose inputs are functions, or each alone; note the others."""
    everything = torch.arange(batch)
    if not batch:
        return []
    with suppress(DataError):
        read_functions(problem, observed)
        return [everything]
    kept = []
    for row in everything.split(1):
        try:
            read_functions(problem, {n: s.repeat(batch).take(row) for n, s in observed.items()})
            kept.append(row)
        except DataError as error:
            reasons[str(error)] = None
    return kept


def _solve(
    problem: Problem, own: Mapping[str, FunctionSamples], queries: Queries, tolerance: float
) -> Solution:
    times = None
    if problem.time is not None and queries.axes is not None:
        times = queries.axes[problem.time.name].unique().tolist()
    elif problem.time is not None:
        low, high = problem.time.low, problem.time.high
        count = max(problem.save[0], FEWEST_TIMES)
        times = torch.linspace(low, high, count, dtype=torch.float64).tolist()
    return solve_reference(problem, read_functions(problem, own), times=times, tolerance=tolerance)


def _at_queries(problem: Problem, solution: Solution, queries: Queries) -> Tensor:
    """Interpolate a solution in space, and in time for scattered points: ``[B, N, C]``."""
    if solution.points is not None:
        raise NotSupportedError("the solver's answers on a shape are at points of its own")
    axes = list(problem.space)
    ticks = [axis.numpy() for axis in solution.axes]
    if queries.axes is None and problem.time is not None:
        axes, ticks = [problem.time, *axes], [solution.times.numpy(), *ticks]
    columns = []
    for channel in problem.channels:
        values = solution.values[channel].double().cpu()
        if queries.axes is None:
            function = interpolate("solution", values, ticks, axes)
            points = cast("Tensor", queries.points).double()
            columns.append(function(points).expand(len(values), -1))
            continue
        wanted = [queries.axes[axis.name].double() for axis in axes]
        flat = values if problem.time is None else values.flatten(0, 1)
        if axes:
            flat = interpolate("solution", flat, ticks, axes).on_grid(wanted)
        if problem.time is not None:
            flat = flat.unflatten(0, values.shape[:2])[:, _positions(problem.time, queries)]
        columns.append(flat.flatten(1))
    return torch.stack(columns, -1)


def _positions(time: Coordinate, queries: Queries) -> Tensor:
    """Number the requested times among those of the solution, which are each there once."""
    return (queries.axes or {})[time.name].unique(return_inverse=True)[1]
