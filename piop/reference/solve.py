"""Solve a problem to a given tolerance by the first reference method that covers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from piop.arguments import real_number, sequence, whole_number
from piop.errors import DataError, UsageError, excerpt
from piop.fields import InputFunction, usable_device
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
from piop.reference.input_values import Sources
from piop.reference.refinement import LevelSolver
from piop.reference.solution import BatchProgress, Limits, Request, Solution

if TYPE_CHECKING:
    from piop.reference.fem.solve import ShapeSolver

SMALLEST = 1e-12  # tolerance: float64 and its rounding leave little below it
MOST_POINTS = 10**6  # along an axis of the output


def solve_reference(
    problem: Problem,
    functions: Mapping[str, InputFunction],
    *,
    times: Sequence[float] | Tensor | None = None,
    shape: Sequence[int] | None = None,
    tolerance: float | None = None,
    device: torch.device | str | None = None,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
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
        progress: Takes how many instances are solved, each time that some are.

    Returns:
        The solution. Samples that reached the limits first are not accepted; ``notes`` says why.

    Raises:
        NotSupportedError: A problem that no solver covers, with the reason of each.
        DataError: Inputs missing or of different batch sizes, or times out of range.
        UsageError: A tolerance below 1e-12 or from 1 on, or a device that is not there.
        SolverError: Nothing finite at any level, or an equation without a solution.
    """
    problem = problem.at()
    solver = _solver_of(choose_method(problem))
    tolerance = requested_tolerance(problem, tolerance)
    if not isinstance(functions, Mapping):
        raise DataError(f"functions: {excerpt(functions)} is not a mapping of names to functions")
    if problem.time is None and times is not None:
        raise DataError(f"{problem.name} is steady; it has no times")
    moments = () if problem.time is None else _times(problem.time, problem.save[0], times)
    if shape is None:
        shape = problem.save[len(problem.coordinates) - len(problem.space) :]
    parts = sequence("shape", shape, "[64] or [64, 64]")
    shape = tuple(whole_number("shape", n, 1, MOST_POINTS) for n in parts)
    if len(shape) != len(problem.space):
        raise DataError(
            f"shape {shape} must give one size for each of {len(problem.space)} space axes"
        )
    place = usable_device(device)
    with torch.no_grad():
        sources = Sources(problem, functions, place)
        shown = BatchProgress(sources.batch, progress)
        request = Request(moments, shape, tolerance, place, limits or Limits(), shown)
        return solver(sources, request).run()


def _solver_of(method: Method) -> Callable[[Sources, Request], LevelSolver[Any, Any] | ShapeSolver]:
    """Return the solver of a method, imported only now: few runs need finite elements or cells."""
    match method:
        case Fourier():
            from piop.reference.fourier.solve import SpectralSolver as solver
        case OrdinaryEquations() | Chebyshev():
            from piop.reference.chebyshev.solve import CollocationSolver as solver
        case Characteristics():
            from piop.reference.characteristics import TransportSolver as solver
        case EllipticFiniteVolumes():
            from piop.reference.elliptic.solve import CellSolver as solver
        case FiniteVolumes():
            from piop.reference.finite_volume.solve import ShockSolver as solver
        case FiniteElements():
            from piop.reference.fem.solve import ShapeSolver as solver
        case _:
            raise NotImplementedError(f"{method!r} has no solver")
    return solver


def requested_tolerance(problem: Problem, tolerance: float | None) -> float:
    """Return the tolerance that was given, else the usual one of the problem.

    Raises:
        UsageError: If it is out of range.
    """
    if tolerance is None:
        return usual_tolerance(problem)
    found = real_number("tolerance", tolerance)
    if not SMALLEST <= found < 1:
        raise UsageError(f"tolerance: {found:g} must be at least {SMALLEST:g} and below 1")
    return found


def _times(
    time: Coordinate, count: int, times: Sequence[float] | Tensor | None
) -> tuple[float, ...]:
    low, high = float(time.low), float(time.high)
    if times is None:
        return tuple(torch.linspace(low, high, count, dtype=torch.float64).tolist())
    moments = [real_number("times", t) for t in sequence("times", times, "[0.5, 1.0]")]
    slack = 1e-9 * (high - low)
    ascending = all(a < b for a, b in pairwise(moments))
    if not moments or not ascending or moments[0] < low - slack or moments[-1] > high + slack:
        raise DataError(
            f"times must ascend inside [{low}, {high}]; got {moments[:3]} … {moments[-1:]}"
        )
    return tuple(max(low, t) for t in moments)
