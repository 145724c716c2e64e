"""Solve a problem to a given tolerance by the first reference method that covers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import InputFunction
from piop.problem import Coordinate, Problem
from piop.problem.capabilities import choose_method, usual_tolerance
from piop.problem.reference_methods import (
    Characteristics,
    Chebyshev,
    EllipticFiniteVolumes,
    FiniteElements,
    FiniteVolumes,
    Fourier,
    Method,
    OrdinaryEquations,
)
from piop.reference.characteristics import TransportSolver
from piop.reference.chebyshev.solve import CollocationSolver
from piop.reference.elliptic.solve import CellSolver
from piop.reference.fem.solve import ShapeSolver
from piop.reference.finite_volume.solve import ShockSolver
from piop.reference.fourier.solve import SpectralSolver
from piop.reference.input_values import Sources
from piop.reference.refinement import LevelSolver
from piop.reference.solution import BatchProgress, Limits, Request, Solution

Solver = Callable[[Sources, Request], LevelSolver[Any, Any] | ShapeSolver]

SOLVERS: Mapping[type[Method], Solver] = {
    Fourier: SpectralSolver,
    OrdinaryEquations: CollocationSolver,
    Characteristics: TransportSolver,
    Chebyshev: CollocationSolver,
    EllipticFiniteVolumes: CellSolver,
    FiniteVolumes: ShockSolver,
    FiniteElements: ShapeSolver,
}
"""The solver of each of ``piop.problem.reference_methods.METHODS``."""


def solve_reference(
    problem: Problem,
    functions: Mapping[str, InputFunction],
    *,
    times: Sequence[float] | Tensor | None = None,
    shape: Sequence[int] | None = None,
    tolerance: float | None = None,
    device: torch.device | str | None = None,
    limits: Limits | None = None,
) -> Solution:
    """Solve a batch of instances of a problem in float64.

    The method follows from the equations, the domain and the conditions: see
    ``piop.problem.reference_methods.METHODS``. Resolution is raised, per instance, until an error
    estimate meets the tolerance.

    Args:
        problem: A ``Problem``; parameters to infer have the values that they start from, or those
            given to ``problem.at``.
        functions: Input functions by name, each of batch B (or 1); hidden ones that others are
            expressed in are not needed.
        times: Save times, ascending, inside the problem's interval; default ``problem.save``. A
            steady problem has none.
        shape: Points per space axis of the output, above or below the solver's; default
            ``problem.save``.
        tolerance: Largest error estimate accepted (relative, see ``Solution.error_estimate``);
            default the method's own: 1e-6, on shapes 1e-3, of steady problems whose coefficients
            or sources jump 1e-2, where shocks may form 2e-2.
        device: Where to compute; default the CPU.
        limits: Where to stop refining.

    Returns:
        The solution. Samples that reached the limits first are not accepted; ``notes`` says why.

    Raises:
        NotSupportedError: A problem that no solver covers, with the reason of each.
        DataError: Inputs missing or of different batch sizes, or times out of range.
        SolverError: Nothing finite at any level, or an equation without a solution.
    """
    problem = problem.at()
    solver = SOLVERS[type(choose_method(problem))]
    tolerance = usual_tolerance(problem) if tolerance is None else tolerance
    if problem.time is None and times is not None:
        raise DataError(f"{problem.name} is steady; it has no times")
    moments = () if problem.time is None else _times(problem.time, problem.save[0], times)
    shape = tuple(
        problem.save[len(problem.coordinates) - len(problem.space) :] if shape is None else shape
    )
    if len(shape) != len(problem.space):
        raise DataError(
            f"shape {shape} must give one size for each of {len(problem.space)} space axes"
        )
    device = torch.device(device or "cpu")
    with torch.no_grad():
        sources = Sources(problem, functions, device)
        progress = BatchProgress(sources.batch)
        request = Request(moments, shape, tolerance, device, limits or Limits(), progress)
        return solver(sources, request).run()


def _times(
    time: Coordinate, count: int, times: Sequence[float] | Tensor | None
) -> tuple[float, ...]:
    low, high = float(time.low), float(time.high)
    if times is None:
        return tuple(torch.linspace(low, high, count, dtype=torch.float64).tolist())
    moments = [float(t) for t in times]
    slack = 1e-9 * (high - low)
    ascending = all(a < b for a, b in pairwise(moments))
    if not moments or not ascending or moments[0] < low - slack or moments[-1] > high + slack:
        raise DataError(
            f"times must ascend inside [{low}, {high}]; got {moments[:3]} … {moments[-1:]}"
        )
    return tuple(max(low, t) for t in moments)
