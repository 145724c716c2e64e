"""Residuals as a source and fluxes, R = S + Σ_a ∂_a Q_a, and unknowns recovered from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import sympy
from sympy import Derivative, Expr, Symbol

from piop.errors import NotSupportedError
from piop.forms.differentiate import differentiate, partial
from piop.forms.linear_forms import jumps
from piop.forms.pde import PDE
from piop.forms.terms import Term, additive_terms, read_terms


@final
class Sorter:
    """Sorts the terms of a residual into a source and fluxes.

    Args:
        pde: The equations and what they depend on.
        unknowns: Functions whose derivatives count.
    """

    def __init__(self, pde: PDE, unknowns: Sequence[Any]) -> None:
        self.pde, self.unknowns = pde, unknowns
        self.axes = [c.symbol for c in pde.space]

    def sort(self, residual: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """Give S and Q_a."""
        source: Expr = sympy.S.Zero
        fluxes: list[Expr] = [sympy.S.Zero for _ in self.axes]
        for term in read_terms(residual, self.unknowns):
            if self.order(term.expression) < 2:
                source += self.carried_out(term.expression)
                continue
            factor, outer, inner = self.take_apart(term)
            axis = self.axes.index(outer)
            for part in additive_terms(inner):
                if self.order(part) < 1:
                    source += factor * self.carried_out(Derivative(part, outer, evaluate=False))
                    continue
                fluxes[axis] += factor * part
                source -= part * self.along(factor, outer, term.expression)
        return source, tuple(fluxes)

    def order(self, expression: Any) -> int:
        """Highest derivative of an unknown, were all of them carried out."""
        if expression in self.unknowns:
            return 0
        if expression.is_Derivative:
            inner = self.order(expression.expr)
            return inner if inner < 0 else inner + int(expression.derivative_count)
        return max((self.order(a) for a in expression.args), default=-1)

    def take_apart(self, term: Term) -> tuple[Expr, Any, Expr]:
        """Give factor, axis and expression of a term factor · ∂(expression)."""
        steep = [f for f in term.derivatives if self.order(f) > 1]
        if len(steep) != 1 or any(self.order(f) > 1 for f in term.values):
            raise NotSupportedError(f"{term.expression} is not linear in second derivatives")
        if self.order(steep[0]) > 2:
            raise NotSupportedError(f"{term.expression} is of an order above two")
        *inner, outer = steep[0].variables
        held: Any = steep[0].expr
        within = self.carried_out(Derivative(held, *inner, evaluate=False)) if inner else held
        return term.expression / steep[0], outer, self.carried_out(within)

    def carried_out(self, expression: Expr) -> Expr:
        """Carry out derivatives; jumps have none."""
        for derivative in expression.atoms(Derivative):
            held: Any = derivative.expr
            if held not in self.unknowns and jumps(self.pde, held):
                raise NotSupportedError(f"{derivative} differentiates a jump")
        return differentiate(expression)

    def along(self, factor: Expr, axis: Symbol, term: Expr) -> Expr:
        """The slope of what stands before a second derivative."""
        if not any(factor.has(s) for s in (*self.axes, *self.unknowns, *self.inputs)):
            return sympy.S.Zero
        if self.order(factor) > 0 or jumps(self.pde, factor):
            raise NotSupportedError(
                f"the coefficient of {term} stands outside the derivative; write it as a flux, "
                "div(a*grad(u))"
            )
        return differentiate(Derivative(factor, axis, evaluate=False))

    @property
    def inputs(self) -> list[Expr]:
        """Input functions."""
        return [i.symbol for i in self.pde.inputs if i.of]


def recovered_unknowns(pde: PDE) -> dict[int, Expr]:
    """Find the unknowns that their own equation gives by values and slopes of the others.

    One that stands in another equation or in a condition is no such unknown, nor one whose own
    slopes do.

    Returns:
        Channel → what gives it; none where nothing would be left to solve for.
    """
    found: dict[int, Expr] = {}
    functions = [pde.function(n) for n in pde.channels]
    conditions = [e for c in pde.boundary.values() for given in c for e in given.values]
    named = {c.unknown for given in pde.boundary.values() for c in given}
    sorter = Sorter(pde, functions)
    for channel, (name, own) in enumerate(zip(pde.channels, functions, strict=True)):
        residual = pde.residuals[channel]
        others = [r for c, r in enumerate(pde.residuals) if c != channel]
        mark = Symbol(f"own {name}", real=True)
        marked: Any = residual.xreplace({own: mark})
        if name in named or any(e.has(own) for e in (*others, *conditions)) or marked.has(own):
            continue
        if not residual.has(own) or sorter.order(residual) > 1:
            continue
        try:
            factor = partial(marked, mark)
        except ArithmeticError:
            continue
        if not factor.has(mark, *functions) and not factor.is_zero:
            found[channel] = -marked.xreplace({mark: sympy.S.Zero}) / factor
    return {} if len(found) == len(functions) else found
