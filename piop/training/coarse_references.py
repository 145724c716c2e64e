"""A few coarse reference solutions, by which a run's settings are chosen before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from piop import user_cache
from piop.errors import SolverError
from piop.fields import InputFunction
from piop.problem import Problem
from piop.reference import Limits, solve_reference
from piop.sampling import Draws, sample_inputs
from piop.sampling.stored_functions import file_digests

SAMPLES = 4
"""Reference solutions that are looked at."""
TOLERANCE = 1e-2
"""Of these references: as coarse as what is decided by them."""
POINTS = {1: 256, 2: 64, 3: 32}
"""Points per axis of these references, by the number of axes."""
MOST_MODES = (1024, 128, 48)
"""Points per axis at most on which they are solved."""
MOST_KEPT = user_cache.MOST_BYTES // 4
"""Bytes of solutions that are kept: those of ``gray_scott`` are 67 MB. More would leave
little room in the cache for references, which take longer."""


def coarse_inputs(problem: Problem, seed: int = 0) -> Mapping[str, InputFunction]:
    """Draw the inputs of a few solutions.

    Args:
        problem: The problem.
        seed: Of the inputs.
    """
    return sample_inputs(problem, Draws(seed, 1, torch.arange(SAMPLES)))


def solve_coarsely(
    problem: Problem,
    times: Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Solve for a few inputs on an even grid of :data:`POINTS`, or take what an earlier run kept.

    Args:
        problem: The problem.
        times: At which times; None for a steady problem.
        tolerance: Largest relative L2 error.
        seed: Of the inputs; see :func:`coarse_inputs`.

    Returns:
        Unknown → its values ``[SAMPLES, T, n1, …]``, float64.

    Raises:
        NotSupportedError: If no solver covers the problem.
        SolverError: If a solution is not finite.
    """
    identity = (problem.hash, problem.points, file_digests(problem.inputs))
    key = user_cache.key_of("coarse", *identity, times, tolerance, seed)
    if (kept := user_cache.read_tensors(key)) is not None:
        return kept
    d = len(problem.space)
    found = solve_reference(
        problem,
        coarse_inputs(problem, seed),
        times=times,
        shape=(POINTS[d],) * d,
        tolerance=tolerance,
        limits=Limits(modes=MOST_MODES),
    ).values
    if not all(bool(value.isfinite().all()) for value in found.values()):
        raise SolverError(f"a reference solution of {problem.name} is not finite")
    if sum(value.nbytes for value in found.values()) <= MOST_KEPT:
        user_cache.write_tensors({key: found})
    return found
