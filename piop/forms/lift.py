"""Functions that meet initial data and wall values, in symbols.

The initial data are taken first; then along each walled axis what the walls still ask is blended
from face to face, so that faces and start that agree where they meet are all met exactly. What is
left for a network is multiplied by the distance to those walls.

Source: transfinite interpolation as a Boolean sum of projectors, Gordon & Hall 1973, sec. 2
(doi:10.1007/BF01436298).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

import sympy as sp

from piop.forms.atoms import applied, derivative_counts, name_of, outermost_atoms
from piop.problem.around import surround
from piop.problem.walls import ENDS, axis_of, place_of, value_on
from piop.spec.distributions import GaussianRandomField

if TYPE_CHECKING:
    from piop.forms.parts import Coordinate
    from piop.problem.problem import Problem


UNKNOWN = "values of an input there are not known before it is drawn"
PROBES, ZERO = 4, 1e-9
"""Places at which an expression is tried for zero, and what counts as zero there."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""Whose multiples fill the unit interval without repeating."""


def lift_expression(
    problem: Problem,
    channel: str,
    order: int,
    faces: Sequence[str],
    constant: float = 0.0,
) -> sp.Expr | None:
    """Write a function that meets data of a channel.

    Args:
        problem: The problem.
        channel: Whose data.
        order: How many initial data to meet: u0, and then the slope in time.
        faces: Whose prescribed values to meet, each where it agrees with what it touches; of a
            shape all or none.
        constant: Where to start without initial data, units of the channel.

    Returns:
        The function; None where what it takes on a face is not known before inputs are drawn.
    """
    if problem.shape is not None and faces:
        return surround(problem, channel, order)
    found: sp.Expr = sp.Float(constant) if constant else sp.S.Zero
    if order and problem.time is not None:
        since = problem.time.symbol - problem.time.low
        terms = problem.initial[channel][:order]
        found = sp.Add(*(term * since**k for k, term in enumerate(terms)))
    for axis in problem.space:
        asked = _missing(problem, channel, found, axis, faces)
        if asked is None:
            return None
        found = found + _blend(asked, axis)
    return found


def disagreement(
    problem: Problem, channel: str, order: int, faces: Sequence[str], face: str
) -> str | None:
    """Say why the value on a face cannot be met beside the start and the faces before it.

    Args:
        problem: The problem.
        channel: Whose value.
        order: How many initial data are met.
        faces: Those before it.
        face: The face, where a value of the channel is prescribed.

    Returns:
        A clause; None where it can be met.
    """
    axis = axis_of(problem, face)
    others = [f for f in faces if axis_of(problem, f) is not axis]
    base = lift_expression(problem, channel, order, others)
    asked = None if base is None else _missing(problem, channel, base, axis, [face])
    if asked is None:
        return UNKNOWN
    (gap,) = asked.values()
    touched: list[tuple[sp.Expr, Coordinate, float, str]] = []
    if problem.time is not None:
        time = problem.time
        slopes = [sp.diff(gap, time.symbol, k) for k in range(order)]
        touched += [(slope, time, time.low, "that of the initial data") for slope in slopes]
    for other in others:
        touched.append((gap, axis_of(problem, other), place_of(problem, other), f"that of {other}"))
    for expression, place, at, what in touched:
        edge = restrict(problem, expression, place, at)
        if edge is None:
            return UNKNOWN
        if not _vanishes(problem, edge):
            return f"it is not {what} where they touch"
    return None


def restrict(problem: Problem, expression: sp.Expr, axis: Coordinate, at: float) -> sp.Expr | None:
    """Give an expression at one place of an axis; None where an input there is not known.

    Inputs of a law that vanishes at the ends of the axis are known there: zero, and with them their
    derivatives along the face.
    """
    fixed: dict[Any, Any] = {}
    for atom in outermost_atoms(expression):
        if axis.symbol not in applied(atom).args:
            continue
        if derivative_counts(atom).get(axis.symbol, 0) or not _vanishing(problem, atom, axis, at):
            return None
        fixed[atom] = sp.S.Zero
    here: Any = expression.xreplace(fixed)
    return here.subs(axis.symbol, _exact(at))


def _missing(
    problem: Problem, channel: str, found: sp.Expr, axis: Coordinate, faces: Sequence[str]
) -> dict[str, sp.Expr] | None:
    """What each prescribed value asks beyond a function; None where that is not known."""
    gaps: dict[str, sp.Expr] = {}
    for end in ENDS:
        face = f"{axis.name}.{end}"
        if face not in faces:
            continue
        given = value_on(problem, channel, face)
        at = place_of(problem, face)
        here = restrict(problem, found, axis, at)
        wanted = None if given is None else restrict(problem, given, axis, at)
        if here is None or wanted is None:
            return None
        gaps[face] = sp.expand(wanted - here)
    return gaps


def _blend(gaps: Mapping[str, sp.Expr], axis: Coordinate) -> sp.Expr:
    """Spread what two faces ask linearly between them; what one asks reaches as it is."""
    if len(gaps) < 2:
        return sp.Add(*gaps.values())
    low, high = gaps.values()
    share = (axis.symbol - _exact(axis.low)) / (_exact(axis.high) - _exact(axis.low))
    return low * (1 - share) + high * share


def _vanishing(problem: Problem, atom: Any, axis: Coordinate, at: float) -> bool:
    """Whether a law holds an input at zero at an end of an axis."""
    law = next((i.law for i in problem.inputs if i.name == name_of(atom)), None)
    if not isinstance(law, GaussianRandomField) or law.mean or at not in (axis.low, axis.high):
        return False
    return law.boundary.get(axis.name) == "dirichlet"


def _vanishes(problem: Problem, expression: sp.Expr) -> bool:
    """Whether an expression is zero wherever it is tried, whatever its inputs are."""
    unknown = [*outermost_atoms(expression)]
    unknown += sorted(expression.free_symbols - {c.symbol for c in problem.coordinates}, key=str)
    spots = (k * GOLDEN % 1 for k in count(1))
    for _ in range(PROBES):
        values = {c.symbol: c.low + c.length * next(spots) for c in problem.coordinates}
        values = {atom: 0.5 + next(spots) for atom in unknown} | values
        found: Any = expression.xreplace({a: sp.Float(v) for a, v in values.items()})
        if not abs(complex(found.evalf())) < ZERO:
            return False
    return True


def _exact(number: float) -> sp.Expr:
    """A number as a fraction, of π where it is one, so that sines of it vanish where they do."""
    turns = Fraction(number / math.pi).limit_denominator(64)
    if turns and abs(float(turns) * math.pi - number) <= 1e-15 * abs(number):
        return sp.Rational(turns.numerator, turns.denominator) * sp.pi
    return sp.Rational(str(number))
