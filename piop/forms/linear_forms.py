"""Linear equations in the forms that solvers take: divergence form, transport along one axis.

Derivatives of the divergence form stay as they are written: a coefficient that jumps has a flux but
no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import sympy
from sympy import Derivative, Expr

from piop.boundary import CONDITIONS, RobinForm
from piop.errors import NotSupportedError
from piop.expression.functions import JUMPS, KINKS
from piop.forms.differentiate import differentiate
from piop.forms.pde import PDE
from piop.forms.terms import Term, applied, read_terms, split_terms


@dataclass(frozen=True)
class DivergenceForm:
    """−Σᵢ ∂ᵢ(aᵢ ∂ᵢu) + c u = f on a box, up to one sign for all of it.

    Attributes:
        unknown: u.
        diffusion: aᵢ per axis: of coordinates, inputs and scalars, of one sign.
        reaction: c.
        source: f.
        walls: Per axis, conditions on its low and its high face; None where it is periodic.
        rough: Whether some aᵢ jumps, so that the slope of u does too.
        kinked: Whether anything of these jumps or has a kink.
        gauge: Mean of u over the box, where nothing else fixes the constant.
    """

    unknown: str
    diffusion: tuple[Expr, ...]
    reaction: Expr
    source: Expr
    walls: tuple[tuple[RobinForm, RobinForm] | None, ...]
    rough: bool
    kinked: bool
    gauge: float | None


def divergence_form(pde: PDE) -> DivergenceForm:
    """Read the form off.

    Raises:
        NotSupportedError: If the problem has another form, with the term that stands out.
    """
    reasons = {
        "it covers steady problems": pde.time is not None,
        "it covers one equation for one unknown": len(pde.channels) != 1,
        "the domain is no box": not pde.domain.is_box,
    }
    standing = [reason for reason, stands in reasons.items() if stands]
    forms = _robin_forms(pde, standing)
    if standing:
        raise NotSupportedError(", ".join(standing))
    unknown = pde.unknowns[0]
    reader = _Reader(pde)
    reader.read(pde.residuals_raw[0])
    given = (*reader.diffusion, reader.reaction, reader.source, *chain(*forms.values()))
    lacking = [c.name for c, a in zip(pde.space, reader.diffusion, strict=True) if a.is_zero]
    if lacking:
        raise NotSupportedError(f"no second derivative along {', '.join(lacking)}")
    return DivergenceForm(
        unknown,
        tuple(-a for a in reader.diffusion),
        reader.reaction,
        -reader.source,
        tuple(
            None if c.periodic else (forms[f"{c.name}.min"], forms[f"{c.name}.max"])
            for c in pde.space
        ),
        any(jumps(pde, a) for a in reader.diffusion),
        any(jumps(pde, e, KINKS) for e in given),
        pde.gauge.get(unknown),
    )


def jumps(pde: PDE, expression: Expr, kinds: Sequence[Any] = JUMPS) -> bool:
    """Whether an expression holds functions of some kinds, or an input that does or is not smooth.

    Args:
        pde: The problem's equations.
        expression: Of coordinates and inputs.
        kinds: Classes in SymPy; by default those whose values may jump, ``where`` and ``sign``.
    """
    if expression.has(*kinds):
        return True
    held = [i for i in pde.inputs if expression.has(i.symbol)]
    inner = [i.expression for i in held if i.expression is not None]
    return any(not i.smooth for i in held) or any(jumps(pde, e, kinds) for e in inner)


def _robin_forms(pde: PDE, reasons: list[str]) -> dict[str, RobinForm]:
    """The condition of each face; takes the reasons where one has no such form."""
    allowed = ", ".join(word for word, kind in CONDITIONS.items() if kind.arguments)
    found = {}
    for face, conditions in pde.boundary.items():
        forms = [c.robin_form for c in conditions]
        if len(forms) == 1 and forms[0] is not None:
            found[face] = forms[0]
        else:
            given = ", ".join(c.keyword for c in conditions) or "none"
            reasons.append(f"one condition of {allowed} is needed on {face}, not {given}")
    return found


class _Reader:
    """Sorts the terms of Σᵢ ∂ᵢ(aᵢ ∂ᵢu) + c u + s."""

    def __init__(self, pde: PDE) -> None:
        self.pde = pde
        self.unknown: Any = pde.function(pde.unknowns[0])
        self.axes = [c.symbol for c in pde.space]
        self.fields = {*self.axes, *(i.symbol for i in pde.inputs if i.of)}
        self.diffusion: list[Expr] = [sympy.S.Zero] * len(self.axes)
        self.reaction: Expr = sympy.S.Zero
        self.source: Expr = sympy.S.Zero

    def read(self, residual: Expr) -> None:
        """Sort every term of a residual."""
        for term in read_terms(residual, [self.unknown]):
            if not term.holders:
                self.source += differentiate(term.expression)
            elif self._holder(term) == self.unknown:
                self.reaction += differentiate(term.coefficient)
            elif not term.derivatives:
                raise NotSupportedError(f"the term {term.expression} is nonlinear")
            elif term.coefficient.has(*self.fields):
                raise NotSupportedError(
                    f"the coefficient of {term.expression} stands outside the derivative; write it "
                    "as a flux, d(a*d(u, x), x) or div(a*grad(u))"
                )
            else:
                self._read_outer(term.coefficient, term.derivatives[0])

    def _read_outer(self, factor: Expr, outer: Any) -> None:
        axes = list(outer.variables)
        for part in read_terms(outer.expr, [self.unknown]):
            if not part.holders:
                rest = Derivative(part.expression, *axes, evaluate=False)
                self.source += factor * differentiate(rest)
                continue
            order = [*axes, *(axis for slope in part.derivatives for axis in slope.variables)]
            if applied(self._holder(part)) != self.unknown or len(order) != 2:
                raise NotSupportedError(
                    f"the term {factor * outer} is not of the form d(a*d(u, x), x)"
                )
            if order[0] != order[1]:
                raise NotSupportedError(f"the term {factor * outer} couples two axes")
            if len(axes) == 2 and part.coefficient.has(*self.fields):
                raise NotSupportedError(f"the term {factor * outer} holds no flux")
            self.diffusion[self.axes.index(order[0])] += factor * part.coefficient

    def _holder(self, term: Term) -> Expr:
        """Return the one factor that holds the unknown."""
        if len(term.holders) != 1:
            raise NotSupportedError(f"the term {term.expression} is nonlinear")
        return term.holders[0]


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
    found: dict[Any, Expr] = dict.fromkeys([(1, 0), (0, 1), (0, 0)], sympy.S.Zero)
    for term in linear:
        if term.order not in found:
            raise NotSupportedError(f"a derivative of order {term.order} in time and space")
        found[term.order] += term.coefficient
    mass: Any = found[1, 0]
    a, b, f = (part / mass for part in (found[0, 1], -found[0, 0], -sympy.Add(*free)))
    if a == 0:
        raise NotSupportedError("nothing is carried along the axis")
    moving = {pde.time.symbol} | {i.symbol for i in pde.inputs if pde.time.name in i.of}
    for part in (a, b, f):
        if part.has(*moving):
            raise NotSupportedError("a coefficient or source moves in time")
        rough = [i.name for i in pde.inputs if not i.smooth and part.has(i.symbol)]
        if rough:
            raise NotSupportedError(f"a coefficient jumps ({', '.join(rough)})")
    for face, condition in pde.face_conditions:
        if condition.prescribed is None:
            raise NotSupportedError(f"a condition at {face} that does not give the value")
    low, high = (pde.prescribed(name, face) for face in pde.domain.faces)
    return LinearTransport(name, a, b, f, (low, high))
