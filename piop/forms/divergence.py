"""Steady linear equations in divergence form, −Σᵢ ∂ᵢ(aᵢ ∂ᵢu) + c u = f, read from the symbols.

Derivatives stay as they are written: a coefficient that jumps has a flux but no derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Derivative, Expr

from piop.errors import NotSupportedError
from piop.expression.functions import JUMPS
from piop.forms.atoms import applied
from piop.forms.differentiate import differentiate
from piop.forms.parts import BoundaryCondition
from piop.forms.pde import PDE
from piop.forms.terms import additive_terms

KINDS = ("dirichlet", "neumann", "robin")


@dataclass(frozen=True)
class Wall:
    """αu + β∂u/∂n = g on one face, n the outward normal.

    Attributes:
        alpha: Of coordinates along the face, scalars and inputs; like the others.
        beta: See above.
        value: g.
    """

    alpha: Expr
    beta: Expr
    value: Expr


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
        gauge: Mean of u over the box, where nothing else fixes the constant.
    """

    unknown: str
    diffusion: tuple[Expr, ...]
    reaction: Expr
    source: Expr
    walls: tuple[tuple[Wall, Wall] | None, ...]
    rough: bool
    gauge: float | None


def divergence_form(pde: PDE) -> DivergenceForm:
    """Read the form off.

    Raises:
        NotSupportedError: If the problem has another form, with the term that stands out.
    """
    reasons = list(_outside(pde))
    if reasons:
        raise NotSupportedError(", ".join(reasons))
    unknown = pde.unknowns[0]
    reader = _Reader(pde)
    reader.read(pde.residuals_raw[0])
    lacking = [c.name for c, a in zip(pde.space, reader.diffusion, strict=True) if a.is_zero]
    if lacking:
        raise NotSupportedError(f"no second derivative along {', '.join(lacking)}")
    return DivergenceForm(
        unknown,
        tuple(-a for a in reader.diffusion),
        reader.reaction,
        -reader.source,
        tuple(None if c.periodic else _walls(pde, c.name) for c in pde.space),
        any(jumps(pde, a) for a in reader.diffusion),
        pde.gauge.get(unknown),
    )


def jumps(pde: PDE, expression: Expr) -> bool:
    """Whether an expression holds ``where`` or ``sign``, or an input that does or is not smooth."""
    if expression.has(*JUMPS):
        return True
    held = [i for i in pde.inputs if expression.has(i.symbol)]
    inner = [i.expression for i in held if i.expression is not None]
    return any(not i.smooth for i in held) or any(jumps(pde, e) for e in inner)


def _outside(pde: PDE) -> list[str]:
    reasons = []
    if pde.time is not None:
        reasons.append("it covers steady problems")
    if len(pde.unknowns) + len(pde.auxiliaries) != 1:
        reasons.append("it covers one equation for one unknown")
    if not pde.is_box:
        reasons.append("the domain is no box")
    for face, conditions in pde.boundary.items():
        found = ", ".join(c.kind for c in conditions) or "none"
        if len(conditions) != 1 or conditions[0].kind not in KINDS:
            reasons.append(f"one condition of {', '.join(KINDS)} is needed on {face}, not {found}")
    return reasons


def _walls(pde: PDE, axis: str) -> tuple[Wall, Wall]:
    low, high = (_wall(pde.boundary[f"{axis}.{end}"][0]) for end in ("min", "max"))
    return low, high


def _wall(condition: BoundaryCondition) -> Wall:
    if condition.kind == "robin":
        return Wall(*condition.values)
    one, zero = sympy.S.One, sympy.S.Zero
    alpha, beta = (one, zero) if condition.kind == "dirichlet" else (zero, one)
    return Wall(alpha, beta, condition.values[0])


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
        for term in additive_terms(residual):
            if not term.has(self.unknown):
                self.source += term
                continue
            factor, holder = self._isolate(term)
            if holder == self.unknown:
                self.reaction += factor
                continue
            if not isinstance(holder, Derivative):
                raise NotSupportedError(f"the term {term} is nonlinear")
            if any(factor.has(f) for f in self.fields):
                raise NotSupportedError(
                    f"the coefficient of {term} stands outside the derivative; write it as a flux, "
                    "d(a*d(u, x), x) or div(a*grad(u))"
                )
            self._read_outer(factor, holder)

    def _read_outer(self, factor: Expr, outer: Any) -> None:
        axes = list(outer.variables)
        for part in additive_terms(outer.expr):
            if not part.has(self.unknown):
                rest = Derivative(part, *axes, evaluate=False)
                self.source += factor * differentiate(rest)
                continue
            coefficient, inner = self._isolate(part)
            within = list(inner.variables) if isinstance(inner, Derivative) else []
            base = applied(inner)
            order = [*axes, *within]
            if base != self.unknown or len(order) != 2:
                raise NotSupportedError(
                    f"the term {factor * outer} is not of the form d(a*d(u, x), x)"
                )
            if order[0] != order[1]:
                raise NotSupportedError(f"the term {factor * outer} couples two axes")
            if len(axes) == 2 and any(coefficient.has(f) for f in self.fields):
                raise NotSupportedError(f"the term {factor * outer} holds no flux")
            self.diffusion[self.axes.index(order[0])] += factor * coefficient

    def _isolate(self, term: Expr) -> tuple[Expr, Expr]:
        """Give the factors free of the unknown, and the one that holds it."""
        holders = [f for f in sympy.Mul.make_args(term) if f.has(self.unknown)]
        if len(holders) != 1:
            raise NotSupportedError(f"the term {term} is nonlinear")
        return term / holders[0], holders[0]
