"""Random problems solved by the reference solver and judged by their exact solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from piop.errors import SolverError
from piop.problem import Problem
from piop.reference import Solution
from piop.reference.solution import Limits
from piop.sampling import Draws, sample_inputs
from piop.sampling.functions import InputFunction

Fields = Mapping[str, np.ndarray]
"""Values by name ``[T, *shape]``, without T for a steady problem."""
Exact = Callable[[Mapping[str, float], np.ndarray, Sequence[np.ndarray]], Fields]
"""Scalar inputs by name, save times ``[T]``, points along each axis → the exact solution.

On a shape there are no axes, but the coordinates of P points ``[P]`` each, and values ``[P]``.
"""


@dataclass(frozen=True)
class Judged:
    """Samples of one class of problems.

    Attributes:
        error: True errors ``[n]``, in the measure of ``Solution.error_estimate``.
        estimate: Estimated ones ``[n]``.
        tolerance: The error estimate requested.
        refused: Samples that were refused with a message instead of solved.
    """

    error: np.ndarray
    estimate: np.ndarray
    tolerance: float
    refused: int = 0

    @property
    def accepted(self) -> np.ndarray:
        """Whether the estimate meets the tolerance ``[n]``."""
        return self.estimate <= self.tolerance

    @classmethod
    def join(cls, parts: Iterable[Judged]) -> Judged:
        """All samples of several parts of one class."""
        parts = list(parts)
        return cls(
            np.concatenate([p.error for p in parts]),
            np.concatenate([p.estimate for p in parts]),
            parts[0].tolerance,
            sum(p.refused for p in parts),
        )


@dataclass(frozen=True)
class RandomProblems:
    """Problems of one class: a spec whose scalar inputs are drawn, and its exact solution.

    Attributes:
        words: Of ``piop.Problem``.
        exact: Its exact solution, or one by an independent method of at least ten times the
            accuracy that is asked for.
        tolerance: The error estimate requested.
        limits: Where refinement stops.
    """

    words: Mapping[str, Any]
    exact: Exact
    tolerance: float
    limits: Limits | None = None

    def __call__(self, count: int, seed: int) -> Judged:
        """Draw, solve and judge so many."""
        problem = Problem(**self.words)
        functions = sample_inputs(problem, Draws(seed, 0, torch.arange(count)))
        values = {n: f.on_grid(()).reshape(-1).tolist() for n, f in functions.items()}
        drawn = [dict(zip(values, own, strict=True)) for own in zip(*values.values(), strict=True)]

        exact = [partial(self.exact, own) for own in drawn]
        return judge(problem, functions, exact, self.tolerance, self.limits)


def judge(
    problem: Problem,
    functions: Mapping[str, InputFunction],
    exact: Sequence[Callable[[np.ndarray, Sequence[np.ndarray]], Fields]],
    tolerance: float,
    limits: Limits | None = None,
) -> Judged:
    """Solve samples and compare them with their exact solutions.

    Args:
        problem: The spec.
        functions: Its inputs by name.
        exact: The exact solution of each sample, of times and axes.
        tolerance: The error estimate requested.
        limits: Where refinement stops.
    """
    # Without the start, where values at a jump are a matter of convention.
    time = problem.time
    times = None if time is None else np.linspace(time.low, time.high, problem.save[0])[1:]

    def solve(index: Sequence[int]) -> Judged:
        own = {n: f.take(torch.tensor(index)) for n, f in functions.items()}
        solution = problem.solve_reference(own, times=times, tolerance=tolerance, limits=limits)
        errors = []
        for row, i in enumerate(index):
            where = solution.axes if solution.points is None else solution.points[row].T
            truth = exact[i](solution.times.numpy(), [a.numpy() for a in where])
            errors.append(true_error(solution, row, truth))
        return Judged(np.array(errors), solution.error_estimate.numpy(), tolerance)

    try:
        return solve(range(len(exact)))
    except SolverError:  # of one sample: the others by themselves
        return Judged.join(_or_refused(solve, i, tolerance) for i in range(len(exact)))


def _or_refused(solve: Callable[[Sequence[int]], Judged], i: int, tolerance: float) -> Judged:
    try:
        return solve([i])
    except SolverError:
        return Judged(np.empty(0), np.empty(0), tolerance, 1)


def true_error(solution: Solution, row: int, exact: Fields) -> float:
    """Largest over unknowns and times of ‖error‖₂ over space, as ``Solution.error_estimate``."""
    rank = len(solution.axes) if solution.points is None else 1
    axes = tuple(range(-rank, 0))
    scales = {n: np.sqrt(np.mean(v**2)) for n, v in exact.items()}
    least = 1e-9 * max(scales.values())
    gaps = [
        np.sqrt(np.mean((solution.values[n][row].numpy() - v) ** 2, axis=axes)).max()
        / max(scales[n], least)
        for n, v in exact.items()
    ]
    return float(max(gaps))
