"""Solve a periodic evolution problem to a stated tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import InputFunction
from piop.reference.climb import Climb
from piop.reference.discretise import Discretisation
from piop.reference.ladder import Limits
from piop.reference.solution import Solution


def solve_reference(
    problem: Any,
    functions: Mapping[str, InputFunction],
    *,
    times: Sequence[float] | Tensor | None = None,
    shape: Sequence[int] | None = None,
    tolerance: float = 1e-6,
    device: torch.device | str | None = None,
    limits: Limits | None = None,
) -> Solution:
    """Solve a batch of instances of a periodic evolution problem in float64.

    Fourier pseudo-spectral in space and ETDRK4 in time (Cox and Matthews 2002,
    doi:10.1006/jcph.2002.6995; Kassam and Trefethen 2005, doi:10.1137/S1064827502410633).
    Resolution and step are raised, per trajectory, until an error estimate meets the tolerance.

    Args:
        problem: A ``Problem`` with a time coordinate, periodic along 1 to 3 space axes.
        functions: Input functions by name, each of batch B (or 1); hidden ones that others are
            expressed in are not needed.
        times: Save times, ascending, inside the problem's interval; default ``problem.save``.
        shape: Points per space axis of the output, above or below the solver's; default
            ``problem.save``.
        tolerance: Largest error estimate accepted (relative, see ``Solution.error_estimate``).
        device: Where to compute; default the CPU.
        limits: Where to stop refining.

    Returns:
        The solution. Trajectories that met the limits first are marked and described in ``notes``.

    Raises:
        NotSupportedError: A problem this solver does not cover, saying why.
        DataError: Inputs missing or of different batch sizes, or times out of range.
        SolverError: NaN at every level, or an auxiliary equation without a solution.
    """
    device = torch.device(device or "cpu")
    discretisation = Discretisation(problem, functions, device)
    moments = _times(problem, times)
    shape = tuple(shape) if shape is not None else tuple(problem.save[1:])
    if len(shape) != len(problem.space):
        raise DataError(
            f"shape {shape} must give one size for each of {len(problem.space)} space axes"
        )
    with torch.no_grad():
        return Climb(discretisation, moments, shape, tolerance, limits or Limits()).run()


def _times(problem: Any, times: Sequence[float] | Tensor | None) -> list[float]:
    low, high = float(problem.time.low), float(problem.time.high)
    if times is None:
        return torch.linspace(low, high, problem.save[0], dtype=torch.float64).tolist()
    moments = [float(t) for t in times]
    slack = 1e-9 * (high - low)
    ascending = all(a < b for a, b in pairwise(moments))
    if not moments or not ascending or moments[0] < low - slack or moments[-1] > high + slack:
        raise DataError(
            f"times must ascend inside [{low}, {high}]; got {moments[:3]} … {moments[-1:]}"
        )
    return [max(low, t) for t in moments]
