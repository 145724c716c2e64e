"""Functions that satisfy initial data and prescribed boundary values, in symbols.

On a box they start from the initial data. Then, along each axis with prescribed values, what those
values still require is interpolated linearly from face to face. Initial data and values that agree
where they meet are all satisfied exactly. In a region of the plane, one value that is prescribed on
the whole boundary is satisfied, with initial data that agree with it. What a network adds is
multiplied by the distance to those faces.

Source: transfinite interpolation as a Boolean sum of projectors, Gordon & Hall 1973, sec. 2
(doi:10.1007/BF01436298); regions as in Sukumar & Srivastava 2022, sec. 3
(doi:10.1016/j.cma.2021.114333).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import sympy as sp

from piop.domain import ENDS, Coordinate, GeometryError
from piop.expression.functions import evaluate
from piop.forms.differentiate import partial
from piop.forms.pde import PDE
from piop.forms.terms import applied, derivative_counts, name_of, outermost_atoms
from piop.spec.distributions import GaussianRandomField

UNKNOWN = "values of an input there are not known before it is drawn"
PROBES, ZERO = 4, 1e-9
"""Points at which an expression is tried for zero, and what counts as zero there."""
FRACTIONS = (0.2, 0.7)
"""Of the length of each curve of a boundary: where an expression is tried there."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""Whose multiples fill the unit interval without repeating."""


def lift_expression(
    pde: PDE,
    channel: str,
    order: int,
    faces: Sequence[str],
    constant: float = 0.0,
) -> sp.Expr | None:
    """Return a function that satisfies initial data and prescribed values of a channel.

    Args:
        pde: Equations, domain and conditions.
        channel: Whose data.
        order: How many initial data to satisfy: u0, and then the slope in time.
        faces: Whose prescribed values to satisfy, each where it agrees with what it touches; all or
            none in a region of the plane.
        constant: Where to start without initial data, units of the channel.

    Returns:
        The function; None where its values on a face are not known before inputs are drawn.
    """
    if faces and not pde.domain.is_box:
        return _all_around(pde, channel, order)
    found: sp.Expr = sp.Float(constant) if constant else sp.S.Zero
    if order and pde.time is not None:
        since = pde.time.symbol - pde.time.low
        terms = pde.initial[channel][:order]
        found = sp.Add(*(term * since**k for k, term in enumerate(terms)))
    for axis in pde.space:
        gaps = _missing(pde, channel, found, axis, faces)
        if gaps is None:
            return None
        found = found + _blend(gaps, axis)
    return found


def lift_obstacle(
    pde: PDE, channel: str, order: int, faces: Sequence[str], face: str
) -> str | None:
    """Say why the value on a face contradicts the initial data or the faces before it.

    Args:
        pde: Equations, domain and conditions.
        channel: Whose value.
        order: How many initial data are satisfied.
        faces: Those before it.
        face: The face, where a value of the channel is prescribed.

    Returns:
        A clause; None where it can be satisfied beside them.
    """
    if not pde.domain.is_box:
        return _obstacle_around(pde, channel, order)
    axis, _ = pde.domain.across(face)
    others = [f for f in faces if pde.domain.across(f)[0] is not axis]
    base = lift_expression(pde, channel, order, others)
    gaps = None if base is None else _missing(pde, channel, base, axis, [face])
    if gaps is None:
        return UNKNOWN
    (gap,) = gaps.values()
    touched: list[tuple[sp.Expr, Coordinate, float, str]] = []
    if pde.time is not None:
        slopes = [_slope(gap, pde.time.symbol, k) for k in range(order)]
        touched += [(s, pde.time, pde.time.low, "that of the initial data") for s in slopes]
    touched += [(gap, *pde.domain.across(other), f"that of {other}") for other in others]
    for expression, place, at, what in touched:
        edge = restrict(pde, expression, place, at)
        if edge is None:
            return UNKNOWN
        if not _vanishes(pde, edge):
            return f"it is not {what} where they touch"
    return None


def restrict(pde: PDE, expression: sp.Expr, axis: Coordinate, at: float) -> sp.Expr | None:
    """Return an expression at one position of an axis; None where an input there is not known.

    Inputs of a distribution that vanishes at the ends of the axis are known there: zero, and with
    them their derivatives along the face.
    """
    fixed: dict[Any, Any] = {}
    for atom in outermost_atoms(expression):
        if axis.symbol not in applied(atom).args:
            continue
        if derivative_counts(atom).get(axis.symbol, 0) or not vanishes_at(pde, atom, axis, at):
            return None
        fixed[atom] = sp.S.Zero
    here: Any = expression.xreplace(fixed)
    return here.subs(axis.symbol, _exact(at))


def _missing(
    pde: PDE, channel: str, found: sp.Expr, axis: Coordinate, faces: Sequence[str]
) -> dict[str, sp.Expr] | None:
    """What each prescribed value requires beyond a function; None where that is not known."""
    gaps: dict[str, sp.Expr] = {}
    for end in ENDS:
        face = f"{axis.name}.{end}"
        if face not in faces:
            continue
        given = pde.prescribed(channel, face)
        _, at = pde.domain.across(face)
        here = restrict(pde, found, axis, at)
        wanted = None if given is None else restrict(pde, given, axis, at)
        if here is None or wanted is None:
            return None
        gaps[face] = sp.expand(wanted - here)
    return gaps


def _blend(gaps: Mapping[str, sp.Expr], axis: Coordinate) -> sp.Expr:
    """Interpolate linearly between two faces; a single face's value is constant along the axis."""
    if len(gaps) < 2:
        return sp.Add(*gaps.values())
    low, high = gaps.values()
    fraction = (axis.symbol - _exact(axis.low)) / (_exact(axis.high) - _exact(axis.low))
    return low * (1 - fraction) + high * fraction


def vanishes_at(pde: PDE, atom: Any, axis: Coordinate, at: float) -> bool:
    """Whether a distribution keeps an input at zero at an end of an axis."""
    distribution = next((i.distribution for i in pde.inputs if i.name == name_of(atom)), None)
    return (
        isinstance(distribution, GaussianRandomField)
        and not distribution.mean
        and at in (axis.low, axis.high)
        and distribution.boundary.get(axis.name) == "dirichlet"
    )


def _vanishes(pde: PDE, expression: sp.Expr) -> bool:
    """Tell whether an expression is zero wherever it is tried, whatever its inputs are."""
    unknown = _unknown_values(expression, pde.coordinates)
    spots = (k * GOLDEN % 1 for k in count(1))
    for _ in range(PROBES):
        values = {c.symbol: c.low + c.length * next(spots) for c in pde.coordinates}
        if not _is_zero(expression, {atom: 0.5 + next(spots) for atom in unknown} | values):
            return False
    return True


def _unknown_values(expression: sp.Expr, known: Sequence[Coordinate]) -> list[Any]:
    """What an expression holds beside coordinates."""
    symbols = expression.free_symbols - {c.symbol for c in known}
    return [*outermost_atoms(expression), *sorted(symbols, key=str)]


def _is_zero(expression: sp.Expr, values: Mapping[Any, float]) -> bool:
    return abs(float(evaluate(expression, values.__getitem__))) < ZERO  # NaN is not zero


def _exact(number: float) -> sp.Expr:
    """A number as a fraction, of π where it is one, so that sines of it vanish where they do."""
    turns = Fraction(number / math.pi).limit_denominator(64)
    if turns and abs(float(turns) * math.pi - number) <= 1e-15 * abs(number):
        return sp.Rational(turns.numerator, turns.denominator) * sp.pi
    return sp.Rational(str(number))


def _all_around(pde: PDE, channel: str, order: int) -> sp.Expr:
    """Satisfy the initial data and the one value prescribed on the whole boundary of a region."""
    face = pde.domain.faces[0]
    value = pde.prescribed(channel, face)
    if value is None:
        raise ValueError(f"no value of {channel} is prescribed on {face}")
    if not order or pde.time is None:
        return value
    since: Any = pde.time.symbol - sp.Rational(str(pde.time.low))
    gaps = _gaps(pde, channel, value, order)
    return sp.expand(value + sp.Add(*(gap * since**k for k, gap in enumerate(gaps))))


def _obstacle_around(pde: PDE, channel: str, order: int) -> str | None:
    """Say why what is prescribed on a region's boundary cannot be satisfied; None where it can."""
    if pde.domain.varies:
        return "the shape differs from sample to sample"
    values = [pde.prescribed(channel, face) for face in pde.domain.faces]
    first, *others = given = [v for v in values if v is not None] or [sp.S.Zero]
    if len(given) < len(values):
        return "not all faces of the shape prescribe a value"
    if any(sp.expand(v - first) != 0 for v in others):  # type: ignore[operator]
        return "the faces of the shape prescribe different values"
    if not all(_vanishes_around(pde, gap) for gap in _gaps(pde, channel, first, order)):
        return "nothing says that it is that of the initial data where they touch"
    try:
        pde.domain.fixed.distance_factors(pde.domain.faces)
    except GeometryError as error:
        return f"the distance to the boundary is not known: {error}"
    return None


def _gaps(pde: PDE, channel: str, value: sp.Expr, order: int) -> list[sp.Expr]:
    """Subtract from each initial datum the prescribed value's own derivative in time."""
    if not order or pde.time is None:
        return []
    t, start = pde.time.symbol, sp.Rational(str(pde.time.low))
    data = pde.initial[channel][:order]
    slopes: list[Any] = [_slope(value, t, k) for k in range(order)]
    return [datum - slope.subs(t, start) for datum, slope in zip(data, slopes, strict=True)]


def _slope(expression: sp.Expr, symbol: sp.Symbol, times: int) -> sp.Expr:
    """Differentiate as often by a coordinate."""
    for _ in range(times):
        expression = partial(expression, symbol)
    return expression


def _vanishes_around(pde: PDE, expression: sp.Expr) -> bool:
    """Tell whether an expression is zero on the boundary, whatever its inputs are."""
    unknown = _unknown_values(expression, pde.space)
    given = {atom: 0.5 + 0.1 * i for i, atom in enumerate(unknown)}
    symbols = [c.symbol for c in pde.space]
    points = pde.domain.fixed.boundary_points(np.array(FRACTIONS)).tolist()
    return all(_is_zero(expression, given | dict(zip(symbols, p, strict=True))) for p in points)
