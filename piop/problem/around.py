"""Values prescribed all around a shape: can they be built in, and which function meets them.

Where every face prescribes the same expression g for an unknown, g itself meets them, and what is
added to it is multiplied by the distance to the boundary.

Source: Sukumar & Srivastava 2022, sec. 3 (doi:10.1016/j.cma.2021.114333).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from piop.domain import ApproximateDistance, GeometryError, approximate_distance
from piop.forms.atoms import outermost_atoms
from piop.problem.walls import faces_of, value_on

if TYPE_CHECKING:
    from piop.problem.problem import Problem

PLACES, ZERO = (0.2, 0.7), 1e-9
"""Where on each curve an expression is tried for zero, and what counts as zero there."""


def distance_around(problem: Problem) -> ApproximateDistance:
    """Write the distance to the boundary of a problem's shape.

    Raises:
        GeometryError: If there is no formula for it, with the reason.
    """
    assert problem.region is not None and problem.shape is not None  # noqa: S101 - the caller's
    return approximate_distance(problem.region, problem.shape)


def surround(problem: Problem, channel: str, order: int) -> sp.Expr:
    """Write a function that meets the initial data of a channel and what is prescribed around it.

    Args:
        problem: The problem, on a shape.
        channel: Whose data.
        order: How many initial data to meet; they are what is prescribed where they touch.
    """
    value = value_on(problem, channel, faces_of(problem)[0])
    assert value is not None  # noqa: S101 - it was decided that it is built in
    time = problem.time
    if not order or time is None:
        return value
    since: Any = time.symbol - sp.Rational(str(time.low))
    gaps = _gaps(problem, channel, value, order)
    return sp.expand(value + sp.Add(*(gap * since**k for k, gap in enumerate(gaps))))


def obstacle_around(problem: Problem, channel: str, order: int) -> str | None:
    """Say why what is prescribed for a channel around a shape cannot be built in.

    Args:
        problem: The problem, on a shape.
        channel: The channel.
        order: How many of its initial data are built in.

    Returns:
        A clause; None where it can be.
    """
    if problem.varies:
        return "the shape differs from sample to sample"
    values = [value_on(problem, channel, face) for face in faces_of(problem)]
    if any(v is None for v in values):
        return "not all faces of the shape prescribe a value"
    first = values[0]
    if any(sp.expand(v - first) != 0 for v in values):  # type: ignore[operator]
        return "the faces of the shape prescribe different values"
    if not all(_vanishes(problem, gap) for gap in _gaps(problem, channel, first, order)):  # type: ignore[arg-type]
        return "nothing says that it is that of the initial data where they touch"
    try:
        distance_around(problem)
    except GeometryError as error:
        return f"the distance to the boundary is not known: {error}"
    return None


def _gaps(problem: Problem, channel: str, value: sp.Expr, order: int) -> list[sp.Expr]:
    """What each initial datum is beyond the prescribed value's own derivative in time."""
    if not order or problem.time is None:
        return []
    t, start = problem.time.symbol, sp.Rational(str(problem.time.low))
    data = problem.initial[channel][:order]
    return [datum - sp.diff(value, t, k).subs(t, start) for k, datum in enumerate(data)]


def _vanishes(problem: Problem, expression: sp.Expr) -> bool:
    """Whether an expression is zero on the boundary, whatever its inputs are."""
    assert problem.shape is not None  # noqa: S101 - the caller's
    symbols = [c.symbol for c in problem.space]
    unknown = [*outermost_atoms(expression)]
    unknown += sorted(expression.free_symbols - set(symbols), key=str)
    given = {atom: sp.Float(0.5 + 0.1 * i) for i, atom in enumerate(unknown)}
    bare: Any = expression.xreplace(given)
    for curve in problem.shape.curves:
        for place in curve.at(np.array(PLACES)).tolist():
            here = bare.xreplace(dict(zip(symbols, map(sp.Float, place), strict=True)))
            if not abs(complex(here.evalf())) < ZERO:
                return False
    return True
