"""The lattice on which the equations are integrated over time: as fine as solutions ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from piop.domain import Coordinate
from piop.errors import NotSupportedError, SolverError
from piop.problem import Problem
from piop.problem.capabilities import usual_tolerance
from piop.problem.residual_form import FormDecision
from piop.residual import Lattice
from piop.residual.lattice import lobatto_nodes
from piop.residual.linearised import DEGREE
from piop.training.coarse_references import TOLERANCE, coarse_inputs, solve_coarsely

NODES = 17
"""Times of collocation in each window at which solutions are looked at; an odd number."""
EVEN_TIMES, SPACE_NODES = 241, 65
"""Even times at which solutions between walls are looked at, and nodes in space."""
UNRESOLVED = 3e-3
"""Root of the part of a solution's variance that may lie beyond what a lattice resolves."""
UNRESOLVED_IN_TIME = 1e-2
"""That of polynomials of the most times, beyond which random points are taken."""
FEWEST_TIMES, FEWEST_POINTS = 5, 16
MOST_TIMES = 8
"""With twelve times training is unstable at the default step size: ``burgers_fno`` after 300 steps
0.107, with eight 0.013."""
ALIASED = 3
"""Points per wave: half of them resolve it, the others keep products of two waves apart from it."""
ELEMENTS = (1, 2, 3, 4, 6, 8)
"""Numbers of elements of time to choose from, between walls."""
SPREAD = 1.5
"""Nodes between walls per coefficient that solutions have in space: products of them are there."""
MOST_UNKNOWNS = 400
"""Values of all unknowns in an element of time at most, a third of the points of a lattice: a step
solves for as many, of each function."""
MOST_POINTS = {1: 1200, 2: 4096, 3: 8192}
"""Points of a lattice at most, by the number of axes: what a step can take of one function."""
STEP_POINTS = 4096
"""Points of all functions of a step, about."""
FEWEST_FUNCTIONS, MOST_FUNCTIONS = 2, 16
CLIP = 0.01
"""Largest norm of the gradient, unless the user says otherwise: this loss is about a hundredth of
that at random points, whose limit of 1 would let single batches throw a network off
(docs/training.md)."""


def node_times(low: float, length: float, windows: int) -> list[float]:
    """Return the times of collocation in all windows, in order, ends of windows once.

    Args:
        low: Start of the time axis.
        length: Its length.
        windows: Into how many windows it is divided.
    """
    nodes = lobatto_nodes(NODES)[:-1] + torch.arange(windows)[:, None]
    return [low + length * t / windows for t in (*nodes.flatten().tolist(), windows)]


def choose_lattice(
    values: Mapping[str, Tensor], windows: int, form: FormDecision
) -> tuple[tuple[int, ...], str]:
    """Choose the lattice on which the equations are integrated over each window.

    Args:
        values: As of :func:`find_lattice`.
        windows: Into how many windows the time axis is divided.
        form: In which form the equations may be trained.

    Returns:
        Its times and points, none for random points; why, a clause.

    Raises:
        ValueError: If the integral form is requested, and no lattice resolves the solutions.
    """
    if not form.integral:
        return (), form.why
    return _chosen(find_lattice(values, windows), form)


def choose_interval_lattice(problem: Problem, form: FormDecision) -> tuple[tuple[int, ...], str]:
    """Choose the lattice on which equations between walls are linearised.

    Args:
        problem: An evolution on an interval.
        form: In which form the equations may be trained.

    Returns:
        Its times and points, none for random points; why, a clause.

    Raises:
        ValueError: If the integral form is requested, and no lattice resolves the solutions.
    """
    if not form.integral:
        return (), form.why
    return _chosen(solve_for_linearised_lattice(problem), form)


def solve_for_linearised_lattice(
    problem: Problem, most: int = MOST_UNKNOWNS, unresolved: float = UNRESOLVED
) -> Lattice | str:
    """Find the coarsest lattice on one axis that resolves some solutions, which it solves for.

    Args:
        problem: An evolution on one axis.
        most: Values of all unknowns in an element at most.
        unresolved: Root of the part of a solution's variance that may lie beyond the lattice; more,
            up to :data:`UNRESOLVED`, where such a lattice would be too large.

    Returns:
        The lattice; where there is none, the reason, a clause.
    """
    time = cast("Coordinate", problem.time)
    times, tolerance = np.linspace(time.low, time.high, EVEN_TIMES), TOLERANCE
    if unresolved < UNRESOLVED:
        tolerance = max(tolerance * unresolved / UNRESOLVED, usual_tolerance(problem))
    try:
        solved = solve_coarsely(problem, coarse_inputs(problem), times.tolist(), tolerance)
    except (NotSupportedError, SolverError) as error:
        return f"there is no reference solution ({error})"
    found: Lattice | str = ""
    for part in dict.fromkeys((unresolved, math.sqrt(unresolved * UNRESOLVED), UNRESOLVED)):
        found = find_linearised_lattice(solved.values, problem.pde.periodic, most, part)
        if isinstance(found, Lattice):
            break  # the finest that is small enough
    return found


def _chosen(found: Lattice | str, form: FormDecision) -> tuple[tuple[int, ...], str]:
    """Give a lattice and why, or none and why not.

    Raises:
        ValueError: If the integral form is requested, and there is none.
    """
    if isinstance(found, Lattice):
        shape = (found.times, *found.points)
        return shape, f"{' × '.join(map(str, shape))} points resolve reference solutions"
    if form.requested:
        raise ValueError(f"form: integral is not possible: {found}; use auto or strong")
    return (), found


def find_linearised_lattice(
    values: Mapping[str, Tensor],
    periodic: bool,
    most: int = MOST_UNKNOWNS,
    unresolved: float = UNRESOLVED,
) -> Lattice | str:
    """Find the coarsest lattice on one axis that resolves some solutions.

    Args:
        values: Unknown → its values at even times and places ``[B, T, n]``, both ends of the time
            among them, and both walls where there are any.
        periodic: Whether there are none.
        most: Values of all unknowns in an element at most.
        unresolved: Root of the part of a solution's variance that may lie beyond the lattice.

    Returns:
        The lattice; where it would be too large, the reason, a clause.
    """
    if periodic:
        points = _even_points(values, unresolved)
    else:
        degrees = []
        for value in values.values():
            nodes = _interpolate(value, lobatto_nodes(SPACE_NODES), axis=2)
            degrees.append(_degree(nodes.movedim(2, 1)[:, None], unresolved))
        points = max(FEWEST_POINTS, math.ceil(SPREAD * (max(degrees) + 1)))
        most = min(most, SPACE_NODES * DEGREE * len(values))
    if points * DEGREE * len(values) > most:
        return f"solutions need {points} points in space or more, too many for a step"
    parts = (unresolved, *(p for p in (1e-3, UNRESOLVED, UNRESOLVED_IN_TIME) if p > unresolved))
    for part in parts:
        for elements in ELEMENTS:
            lattice = Lattice(1 + elements * DEGREE, (points,))
            if lattice.size <= 3 * most and _resolves(values, elements, part):
                return lattice
    return f"solutions need more than {ELEMENTS[-1]} elements of time"


def _even_points(values: Mapping[str, Tensor], unresolved: float = UNRESOLVED) -> int:
    """Return the points along each periodic axis that resolve all unknowns; an even number."""
    waves = max(_waves(value, unresolved) for value in values.values())
    points = max(FEWEST_POINTS, ALIASED * waves)
    return points + points % 2


def _resolves(values: Mapping[str, Tensor], elements: int, unresolved: float) -> bool:
    """Whether the polynomials of so many elements resolve values ``[B, T, n]`` in time."""
    times = torch.tensor(node_times(0.0, 1.0, elements), dtype=torch.float64)
    return all(
        _degree(_by_window(_interpolate(v, times, axis=1), elements), unresolved) < DEGREE
        for v in values.values()
    )


def _interpolate(values: Tensor, places: Tensor, axis: int) -> Tensor:
    """Interpolate by cubic splines from even places, both ends among them, to fractions ``[n]``."""
    even = np.linspace(0.0, 1.0, values.shape[axis])
    spline = CubicSpline(even, values.double().cpu().numpy(), axis=axis)
    return torch.from_numpy(spline(places.numpy()))


def find_lattice(values: Mapping[str, Tensor], windows: int) -> Lattice | str:
    """Find the coarsest lattice that resolves some solutions, each unknown relative to itself.

    Args:
        values: Unknown → its values at :func:`node_times` on an even grid ``[B, T, n1, …]``.
        windows: Into how many windows the time axis is divided.

    Returns:
        The lattice of one window; where it would be too large, the reason, a clause.
    """
    axes = next(iter(values.values())).ndim - 2
    within = [_by_window(v, windows) for v in values.values()]
    degree, least = (
        max(_degree(v, part) for v in within) for part in (UNRESOLVED, UNRESOLVED_IN_TIME)
    )
    if least + 2 > MOST_TIMES:  # as many times as coefficients, and one more
        return f"solutions need more than {MOST_TIMES} times of collocation in each window"
    times = min(MOST_TIMES, max(FEWEST_TIMES, degree + 2))
    lattice = Lattice(times, (_even_points(values),) * axes)
    if lattice.size > MOST_POINTS[axes]:
        along = " × ".join(map(str, (lattice.times, *lattice.points)))
        return f"solutions need a lattice of {along} points or more, too many for a step"
    return lattice


def settings_on(lattice: Lattice) -> dict[str, float]:
    """Return the settings that go with a lattice, unless the user or the spec gives others."""
    functions = min(max(STEP_POINTS // lattice.size, FEWEST_FUNCTIONS), MOST_FUNCTIONS)
    return {"functions": functions, "clip": CLIP}


def power_by_waves(values: Tensor) -> Tensor:
    """Add up the power of waves by the most periods that they have along an axis ``[K]``.

    Args:
        values: ``[B, T, n, …]``, as many points along every axis.
    """
    axes = tuple(range(2, values.ndim))
    power = torch.fft.fftn(values.double(), dim=axes).abs().square()
    numbers = (torch.fft.fftfreq(values.shape[-1]) * values.shape[-1]).abs().round().long()
    grids = torch.meshgrid(*[numbers] * len(axes), indexing="ij")
    radius = torch.stack(grids).amax(0).flatten()
    power = power.flatten(2).sum((0, 1))
    return power.new_zeros(int(radius.max()) + 1).index_add_(0, radius, power)


def _waves(values: Tensor, unresolved: float) -> int:
    """Return the periods along an axis of the waves that resolve values ``[B, T, n1, …]``."""
    power = power_by_waves(values)
    power[0] = 0.0  # the mean, which needs no points
    return int((_beyond(power) > unresolved).sum())


def _degree(values: Tensor, unresolved: float) -> int:
    """Return the degree of the polynomials that resolve values at nodes ``[B, W, nodes, …]``."""
    count = values.shape[2]
    nodes = 2 * lobatto_nodes(count).numpy() - 1
    transform = np.linalg.inv(np.polynomial.legendre.legvander(nodes, count - 1))
    away = values.double() - values.double().mean()
    coefficients = torch.einsum("ij,bwj...->ibw...", torch.from_numpy(transform), away)
    power = coefficients.square().flatten(1).mean(1) / (torch.arange(count) + 0.5)
    return int((_beyond(power) > unresolved).sum())


def _beyond(power: Tensor) -> Tensor:
    """Return the root of what lies beyond each of some parts of a sum, as a fraction of it."""
    rest = power.flip(0).cumsum(0).flip(0)
    return (torch.cat([rest[1:], rest.new_zeros(1)]) / rest[0].clamp(min=1e-300)).sqrt()


def _by_window(values: Tensor, windows: int) -> Tensor:
    """Take the values of each window, both ends included: ``[B, windows, NODES, n1, …]``."""
    step = NODES - 1
    return torch.stack([values[:, k * step : (k + 1) * step + 1] for k in range(windows)], 1)
