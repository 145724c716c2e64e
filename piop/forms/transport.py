"""Linear transport u_t + a(x) u_x = b(x) u + f(x) on an interval, read from the symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Expr

from piop.errors import NotSupportedError
from piop.forms.pde import PDE
from piop.forms.terms import split_terms


@dataclass(frozen=True)
class LinearTransport:
    """The equation and what enters.

    Attributes:
        unknown: u.
        speed: a, of the coordinate, scalars and inputs, none of which moves in time.
        growth: b, likewise.
        source: f, likewise.
        walls: g of u = g(t) at the low and at the high end; None where there is no condition.
    """

    unknown: str
    speed: Expr
    growth: Expr
    source: Expr
    walls: tuple[Expr | None, Expr | None]


def transport_form(pde: PDE) -> LinearTransport:
    """Read a PDE as linear transport.

    Raises:
        NotSupportedError: If it is not, with the reason.
    """
    if pde.time is None or len(pde.channels) != 1 or len(pde.space) != 1:
        raise NotSupportedError("it follows one unknown along one axis in time")
    axis = pde.space[0]
    if axis.periodic or not pde.domain.is_box:
        raise NotSupportedError("there is no wall to enter through")
    name, residual = pde.channels[0], pde.residuals[0]
    linear, nonlinear, free = split_terms(pde, residual)
    if nonlinear:
        raise NotSupportedError(f"{nonlinear[0]} is nonlinear")
    zero: Expr = sympy.S.Zero
    found: dict[tuple[int, ...], Expr] = {(1, 0): zero, (0, 1): zero, (0, 0): zero}
    for term in linear:
        if term.order not in found:
            raise NotSupportedError(f"a derivative of order {term.order} in time and space")
        found[term.order] += term.coefficient
    parts = [found[0, 1], -found[0, 0], -sympy.Add(*free)]
    mass: Any = found[1, 0]
    a, b, f = (p / mass for p in parts)
    if a == 0:
        raise NotSupportedError("nothing is carried along the axis")
    moving = {pde.time.symbol} | {i.symbol for i in pde.inputs if pde.time.name in i.of}
    for part in (a, b, f):
        if any(part.has(m) for m in moving):
            raise NotSupportedError("a coefficient or source moves in time")
        rough = [i.name for i in pde.inputs if not i.smooth and part.has(i.symbol)]
        if rough:
            raise NotSupportedError(f"a coefficient jumps ({', '.join(rough)})")
    ends = []
    for face in (f"{axis.name}.min", f"{axis.name}.max"):
        conditions = pde.boundary[face]
        if any(c.prescribed is None for c in conditions):
            raise NotSupportedError(f"a condition at {face} that does not give the value")
        ends.append(conditions[0].prescribed if conditions else None)
    return LinearTransport(name, a, b, f, (ends[0], ends[1]))
