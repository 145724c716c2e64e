"""A few coarse reference solutions, by which a run's settings are chosen before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.problem import Problem
from piop.reference import Limits, Solution, solve_reference
from piop.sampling import Draws, sample_inputs

SAMPLES = 4
"""Reference solutions that are looked at."""
TOLERANCE = 1e-2
"""Of these references: as coarse as what is decided by them."""
POINTS = {1: 256, 2: 64, 3: 32}
"""Points per axis of these references, by the number of axes."""
MOST_MODES = (1024, 128, 48)
"""Points per axis at most on which they are solved."""


def coarse_inputs(problem: Problem, seed: int = 0) -> Mapping[str, InputFunction]:
    """Draw the inputs of a few solutions.

    Args:
        problem: The problem.
        seed: Of the inputs.
    """
    return sample_inputs(problem, Draws(seed, 1, torch.arange(SAMPLES)))


def solve_coarsely(
    problem: Problem,
    functions: Mapping[str, InputFunction],
    times: Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
) -> Solution:
    """Solve for a few inputs on an even grid of :data:`POINTS`.

    Args:
        problem: The problem.
        functions: As of :func:`coarse_inputs`.
        times: At which times; None for a steady problem.
        tolerance: Largest relative L2 error.

    Raises:
        NotSupportedError: If no solver covers the problem.
        SolverError: If a solution is not finite.
    """
    d = len(problem.space)
    limits = Limits(modes=MOST_MODES)
    shape = (POINTS[d],) * d
    found = solve_reference(
        problem, functions, times=times, shape=shape, tolerance=tolerance, limits=limits
    )
    if not all(bool(v.isfinite().all()) for v in found.values.values()):
        raise SolverError(f"a reference solution of {problem.name} is not finite")
    return found
