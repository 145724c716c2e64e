"""The lattice on which equations are linearised: as fine as solutions ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.errors import NotSupportedError, SolverError
from piop.problem import Problem
from piop.problem.capabilities import usual_tolerance
from piop.problem.residual_form import FormDecision
from piop.residual import Lattice
from piop.residual.lattice import lobatto_nodes
from piop.residual.linearised.evolution import DEGREE
from piop.training.coarse_references import TOLERANCE, solve_coarsely
from piop.training.integration_lattice import (
    ALIASED,
    FEWEST_POINTS,
    UNRESOLVED,
    UNRESOLVED_IN_TIME,
    by_window,
    chosen,
    even_points,
    node_times,
)
from piop.training.resolution import degree_needed, interpolate_even, waves_needed

EVEN_TIMES, SPACE_NODES = 241, 65
"""Even times at which solutions between walls are looked at, and nodes in space."""
MOST_STEADY = 2200
"""Values of all unknowns on the lattice of a steady problem at most. A solution of 2106 serves 32
steps, and resolves ``cavity_cvit``, which 1380 do not (docs/training.md)."""
NO_REFERENCE = "there is no reference solution ({})"
UNRESOLVED_AT_MOST = 1e-2
"""That of steady solutions where a lattice as of :data:`UNRESOLVED` would be too large."""
FEWEST_NODES = 9
"""Along an axis of a steady problem."""
ELEMENTS = (1, 2, 3, 4, 6, 8)
"""Numbers of elements of time to choose from, between walls."""
SPREAD = 1.5
"""Nodes between walls per coefficient that solutions have in space: products of them are there."""
MOST_UNKNOWNS = 400
"""Values of all unknowns in an element of time at most, a third of the points of a lattice: a step
solves for as many, of each function."""


@dataclass(frozen=True)
class LatticeChoice:
    """The lattice on which equations are linearised in training.

    Attributes:
        shape: Its times and points; empty for random points.
        why: The reason, a clause.
        sizes: Typical size of each unknown in the solutions that were looked at; empty for those of
            the distribution of the inputs.
    """

    shape: tuple[int, ...]
    why: str
    sizes: tuple[float, ...] = ()


def choose_linearised_lattice(problem: Problem, form: FormDecision) -> LatticeChoice:
    """Choose the lattice on which equations and conditions on walls are linearised.

    Args:
        problem: An evolution on an interval, or a steady problem on a box.
        form: In which form the equations may be trained.

    Raises:
        ValueError: If the integral form is requested, and no lattice resolves the solutions.
    """
    if not form.integral:
        return LatticeChoice((), form.why)
    if problem.time is not None:
        return LatticeChoice(*chosen(solve_for_linearised_lattice(problem), form))
    try:
        solved = solve_coarsely(problem)
    except (NotSupportedError, SolverError) as error:
        return LatticeChoice(*chosen(NO_REFERENCE.format(error), form))
    found: Lattice | str = ""
    for part in (UNRESOLVED, UNRESOLVED_AT_MOST):
        found = find_steady_lattice(solved, problem.space, MOST_STEADY, part)
        if isinstance(found, Lattice):
            break
    shape, why = chosen(found, form)
    sizes = tuple(float(solved[name].std()) for name in problem.channels)
    return LatticeChoice(shape, why, sizes if shape and min(sizes) > 0 else ())


def solve_for_linearised_lattice(
    problem: Problem, most: int = MOST_UNKNOWNS, unresolved: float = UNRESOLVED
) -> Lattice | str:
    """Find the coarsest lattice on one axis that resolves some solutions, which it solves for.

    Args:
        problem: An evolution on one axis.
        most: Values of all unknowns in an element at most.
        unresolved: As of :func:`finest`.

    Returns:
        The lattice; where there is none, the reason, a clause.
    """
    time = cast("Coordinate", problem.time)
    times, tolerance = np.linspace(time.low, time.high, EVEN_TIMES), TOLERANCE
    if unresolved < UNRESOLVED:
        tolerance = max(tolerance * unresolved / UNRESOLVED, usual_tolerance(problem))
    try:
        solved = solve_coarsely(problem, times.tolist(), tolerance)
    except (NotSupportedError, SolverError) as error:
        return NO_REFERENCE.format(error)
    values, periodic = solved, problem.pde.periodic
    return finest(lambda part: find_linearised_lattice(values, periodic, most, part), unresolved)


def finest(find: Callable[[float], Lattice | str], unresolved: float) -> Lattice | str:
    """Find the finest lattice that is small enough.

    Args:
        find: Finds the coarsest lattice beyond which this part of solutions may lie.
        unresolved: Root of the part of a solution's variance that may lie beyond the lattice; more,
            up to :data:`UNRESOLVED`, where such a lattice would be too large.

    Returns:
        The lattice; where there is none, the reason, a clause.
    """
    found: Lattice | str = ""
    for part in dict.fromkeys((unresolved, math.sqrt(unresolved * UNRESOLVED), UNRESOLVED)):
        found = find(part)
        if isinstance(found, Lattice):
            break
    return found


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
        points = even_points(values, unresolved)
    else:
        points = max(FEWEST_POINTS, _nodes(values, 2, unresolved))
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


def find_steady_lattice(
    values: Mapping[str, Tensor],
    space: Sequence[Coordinate],
    most: int,
    unresolved: float = UNRESOLVED,
) -> Lattice | str:
    """Find the coarsest lattice on a box that resolves some steady solutions.

    Args:
        values: Unknown → its values on an even grid ``[B, n1, …]``, walls among it.
        space: The axes.
        most: Values of all unknowns at most.
        unresolved: Root of the part of a solution's variance that may lie beyond the lattice.

    Returns:
        The lattice; where it would be too large, the reason, a clause.
    """
    points = []
    for axis, coordinate in enumerate(space, 1):
        if coordinate.periodic:
            along = [
                v.movedim(axis, -1).reshape(len(v), -1, v.shape[axis]) for v in values.values()
            ]
            waves = max(waves_needed(v, unresolved) for v in along)
            points.append(max(FEWEST_NODES, ALIASED * waves) // 2 * 2 + 1)
        else:
            points.append(max(FEWEST_NODES, _nodes(values, axis, unresolved)))
    if math.prod(points) * len(values) > most:
        return f"solutions need {' × '.join(map(str, points))} points or more, too many"
    return Lattice(1, tuple(points))


def _nodes(values: Mapping[str, Tensor], axis: int, unresolved: float) -> int:
    """Return the nodes that resolve values between walls along an axis of even places."""
    degrees = []
    for value in values.values():
        nodes = interpolate_even(value, lobatto_nodes(SPACE_NODES), axis)
        degrees.append(degree_needed(nodes.movedim(axis, 1)[:, None], unresolved))
    return math.ceil(SPREAD * (max(degrees) + 1))


def _resolves(values: Mapping[str, Tensor], elements: int, unresolved: float) -> bool:
    """Whether the polynomials of so many elements resolve values ``[B, T, n]`` in time."""
    times = torch.tensor(node_times(0.0, 1.0, elements), dtype=torch.float64)
    return all(
        degree_needed(by_window(interpolate_even(v, times, axis=1), elements), unresolved) < DEGREE
        for v in values.values()
    )
