"""Notes on initial data that contradict what is prescribed on walls.

A solution jumps where they meet, at the start, and near there every method converges slowly. That
may be meant, as of a plate that is suddenly heated, so it is no error.

Source: conditions of compatibility as in Evans 2010, Partial Differential Equations, sec. 7.1.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from sympy import Expr

from piop.boundary import BoundaryCondition
from piop.domain import Coordinate
from piop.errors import Issue
from piop.expression import write
from piop.expression.functions import JUMPS
from piop.forms.hard_constraints import vanishes_at
from piop.forms.pde import Input
from piop.forms.terms import applied, name_of, outermost_atoms
from piop.problem.wellposed.random_points import ALONG, NEGLIGIBLE, POINTS, Array, RandomPoints
from piop.spec.distributions import FourierSeries, GaussianRandomField, PiecewiseConstant
from piop.spec.formulas import Resolved
from piop.spec.model import issue_at

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def note_contradictions(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Mention initial data that differ from a prescribed value where they meet.

    Only what is certain is mentioned: not of inputs that are read from data, nor of derivatives of
    inputs, nor on shapes that differ from sample to sample.
    """
    if problem.time is None or problem.domain.varies:
        return
    for (name, order), (datum, place) in resolved.initial.items():
        faces = [
            (face, condition)
            for face, condition in problem.pde.face_conditions
            if condition.unknown == name and condition.prescribed is not None
        ]
        found = [pair for pair in faces if _differs(problem, datum, order, *pair)]
        if found:
            key = problem.derivative_text(name, order)
            where = "; ".join(c.sentence(problem.domain.where(face)) for face, c in found)
            jumps = f"{key} jumps" if order else "the solution jumps"
            message = (
                f"initial.{key}: {write(datum)} contradicts the boundary ({where}), so {jumps} "
                f"where they meet, at {problem.time.name} = {problem.time.low:g}"
            )
            yield issue_at(place, message, _advice(problem, datum, found))


def _advice(problem: Problem, datum: Expr, found: list[tuple[str, BoundaryCondition]]) -> str:
    """Say how to mend it."""
    zero = all(condition.prescribed == 0 for _, condition in found)
    for item in problem.inputs:
        own = zero and problem.domain.is_box and datum == item.symbol
        if own and isinstance(item.distribution, GaussianRandomField):
            axes = dict.fromkeys(problem.domain.across(face)[0].name for face, _ in found)
            words = ", ".join(f"{axis}: dirichlet" for axis in axes)
            mean = " with mean 0" if item.distribution.mean else ""
            return f"If that is not meant, give {item.name} 'boundary: {{{words}}}'{mean}."
    return "If that is not meant, change one of them."


def _differs(
    problem: Problem, datum: Expr, order: int, face: str, condition: BoundaryCondition
) -> bool:
    """Tell whether an initial datum certainly differs from what is prescribed on a face."""
    time: Any = problem.time
    prescribed: Any = condition.prescribed
    for _ in range(order):
        prescribed = sp.diff(prescribed, time.symbol)
    expressions = [_without_expressions(problem, e) for e in (datum, prescribed)]
    points = problem.domain.fixed.points_on(face, _fractions(problem))
    columns = dict(zip(problem.space, points.T, strict=True))
    ends = [(time, time.low), *_ends(columns)]
    known: dict[Any, Any] = {}
    for atom in dict.fromkeys(a for e in expressions for a in outermost_atoms(e)):
        if atom.is_Derivative:
            return False
        if any(vanishes_at(problem.pde, atom, *end) for end in ends):
            known[atom] = sp.S.Zero
        elif not _is_nonzero(problem, atom):
            return False
    start, wall = (e.xreplace(known) for e in expressions)
    if start.has(*JUMPS) or wall.has(*JUMPS):
        return False
    fixed: dict[Expr, Array] = {axis.symbol: column for axis, column in columns.items()}
    fixed[time.symbol] = np.array([time.low])
    spots = RandomPoints(problem)
    with np.errstate(all="ignore"):  # what is not finite cannot be told
        at_wall = spots.evaluate(wall, fixed)
        gap = np.abs(spots.evaluate(start, fixed) - at_wall)
        size = _size(problem.space, expressions[0], spots) + np.abs(at_wall)
        return bool((gap > NEGLIGIBLE * size).any())


def _fractions(problem: Problem) -> Array:
    """Positions along a face ``[POINTS, d - 1]`` in no symmetric places."""
    return np.random.default_rng(1).uniform(0.1, 0.9, (POINTS, len(problem.space) - 1))


def _ends(columns: Mapping[Coordinate, Array]) -> Iterator[tuple[Coordinate, float]]:
    """Yield the axes at an end of which all points lie, and that end."""
    for axis, column in columns.items():
        for end in (axis.low, axis.high):
            if (np.abs(column - end) <= 1e-9 * axis.length).all():
                yield axis, end


def _size(space: tuple[Coordinate, ...], datum: Expr, spots: RandomPoints) -> Array:
    """Root mean square of a datum over lines through the domain."""
    along = np.linspace(0, 1, ALONG)[:, None]
    fixed: dict[Expr, Array] = {axis.symbol: axis.low + axis.length * along for axis in space}
    return np.sqrt(np.mean(spots.evaluate(datum, fixed) ** 2, axis=0))


def _without_expressions(problem: Problem, expression: Expr) -> Any:
    """Replace the inputs that are expressions of others by these expressions."""
    found: Any = expression
    given = {i.symbol: i.expression for i in problem.inputs if i.expression is not None}
    while any(found.has(symbol) for symbol in given):
        found = found.xreplace(given)
    return found.doit()


def _is_nonzero(problem: Problem, atom: Any) -> bool:
    """Whether draws of an input are known to have other values than zero at a wall."""
    name = name_of(atom)
    item: Input | None = next((i for i in problem.inputs if i.name == name), None)
    match None if item is None else item.distribution:
        case FourierSeries(phase=phase):  # sines without a phase are zero at both ends
            return len(applied(atom).args) > 1 or phase != (0.0, 0.0)
        case GaussianRandomField() | PiecewiseConstant():
            return True
    return False
