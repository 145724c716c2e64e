"""Solutions of the reference solver in place of predictions that may exceed a tolerance."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import DataError, NotSupportedError, SolverError
from piop.fields import FunctionSamples
from piop.reference import solve_reference
from piop.run.solution_at_queries import solution_times, values_at
from piop.run.user_inputs import read_functions

if TYPE_CHECKING:
    from piop.problem import Problem


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
            of, functions = queries.take(rows), read_functions(problem, own)
            times = solution_times(problem, of)
            solution = solve_reference(problem, functions, times=times, tolerance=tolerance)
            each = values_at(problem, solution, of).values()
            values = torch.stack([value.flatten(1) for value in each], -1)
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
