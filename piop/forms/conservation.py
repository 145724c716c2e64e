"""Conservation laws: fluxes, sources and mirror symmetry of a PDE, from its symbols alone.

u_t + Σ ∂F_i(u, x, t)/∂x_i = S(u, x, t), read from the equations as written (``residuals_raw``):
``d(u**2/2, x)`` is a flux, ``u*dx(u)`` is none. A coefficient in front of a derivative that varies
along it goes inside, c ∂_x g = ∂_x(c g) − g ∂_x c.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import sympy
from sympy import Derivative, Expr, Symbol

from piop.errors import NotSupportedError
from piop.forms.differentiate import differentiate, gradient, partial
from piop.forms.pde import PDE
from piop.forms.terms import Term, read_terms


@dataclass(frozen=True)
class ConservationLaw:
    """A first-order system in flux form.

    Attributes:
        state: The unknowns u as functions of all coordinates, n of them.
        fluxes: F_i, n expressions for each axis of space.
        source: S, n expressions.
        coordinates: Symbols of time and space.
    """

    state: tuple[Expr, ...]
    fluxes: tuple[tuple[Expr, ...], ...]
    source: tuple[Expr, ...]
    coordinates: frozenset[Expr]

    def jacobian(self, axis: int) -> tuple[tuple[Expr, ...], ...]:
        """∂F/∂u along an axis, n rows of n."""
        return tuple(gradient(flux, self.state) for flux in self.fluxes[axis])

    @property
    def nonlinear(self) -> bool:
        """Whether a wave speed depends on the solution, so that shocks may form."""
        rows = (row for axis in range(len(self.fluxes)) for row in self.jacobian(axis))
        return any(entry.has(*self.state) for row in rows for entry in row)


def read_conservation_law(pde: PDE) -> ConservationLaw:
    """Read the flux form of a PDE.

    Raises:
        NotSupportedError: If it is no first-order law in flux form, with the reason, a clause.
    """
    if pde.time is None or set(pde.time_order.values()) != {1}:
        raise NotSupportedError("a conservation law is of order one in time in every unknown")
    if pde.auxiliaries:
        raise NotSupportedError("auxiliary unknowns, which act at once everywhere")
    reader = _Reader(pde, pde.time.symbol)
    for row, residual in enumerate(pde.residuals_raw):
        for term in read_terms(residual, reader.state):
            reader.add(row, term)
    return reader.finish()


def forms_shocks(pde: PDE) -> bool:
    """Whether shocks may form: a conservation law with a nonlinear flux and nothing that smooths.

    >>> from piop.problem import Problem
    >>> forms_shocks(Problem.from_file("burgers").pde)  # viscous
    False
    """
    try:
        return read_conservation_law(pde).nonlinear
    except (NotSupportedError, ArithmeticError):
        return False


def mirror(law: ConservationLaw, axis: int) -> tuple[int, ...]:
    """Signs r of the unknowns in a mirror across an axis, such as −1 for the normal momentum.

    The mirrored state R u, R = diag(r), obeys the same law: F(R u) = −R F(u) along the axis and
    F(R u) = R F(u) along the others. A wall is where a solution meets its mirror image.

    Raises:
        NotSupportedError: If no signs do, or the law does not tell which of several do.
    """
    plain: dict[Any, Any] = {u: sympy.Dummy(f"u{i}", real=True) for i, u in enumerate(law.state)}
    fluxes: list[list[Any]] = [[f.xreplace(plain) for f in row] for row in law.fluxes]
    symbols = list(plain.values())

    def obeys(signs: tuple[int, ...]) -> bool:
        image = {s: r * s for s, r in zip(symbols, signs, strict=True)}
        return all(
            vanishes(f.xreplace(image) - (-r if i == axis else r) * f)
            for i, row in enumerate(fluxes)
            for f, r in zip(row, signs, strict=True)
        )

    found = [*filter(obeys, product((1, -1), repeat=len(symbols)))]
    if not found:
        raise NotSupportedError("wall: the fluxes have no mirror symmetry, so nothing is reflected")
    fewest = min(s.count(-1) for s in found)
    best = [s for s in found if s.count(-1) == fewest]
    if len(best) > 1:
        raise NotSupportedError(
            "wall: the fluxes do not tell which unknown vanishes there; give it by dirichlet"
        )
    return best[0]


def vanishes(expression: Expr) -> bool:
    """Whether an expression of plain symbols is zero, as far as fractions of polynomials tell."""
    return expression == 0 or sympy.cancel(sympy.together(expression)) == 0


class _Reader:
    """Sorts the terms of all equations into mass, fluxes and the rest."""

    def __init__(self, pde: PDE, time: Symbol) -> None:
        self.state = tuple(pde.function(u) for u in pde.unknowns)
        self.time = time
        self.space = tuple(c.symbol for c in pde.space)
        self.coordinates = {c.symbol for c in pde.coordinates}
        self.rough = {i.symbol for i in pde.inputs if not i.smooth}
        n = len(self.state)
        self.mass: Any = sympy.zeros(n, n)
        self.fluxes: list[list[Any]] = [[sympy.S.Zero] * n for _ in self.space]
        self.rest: list[Any] = [sympy.S.Zero] * n

    def add(self, row: int, term: Term) -> None:
        if not term.derivatives:
            if any(self._slopes(value) for value in term.values):
                raise NotSupportedError(f"the term {term.expression}, which is no flux")
            self.rest[row] += differentiate(term.expression)
            return
        outer: Any = term.derivatives[0]
        if len(outer.variables) > 1 or self._slopes(outer.expr):
            raise NotSupportedError(f"the term {term.expression}, of an order above one")
        if len(term.holders) > 1:
            raise NotSupportedError(f"the term {term.expression}, which is not in flux form")
        if outer.variables[0] == self.time:
            self._add_mass(row, term.coefficient, outer.expr, term.expression)
        else:
            self._add_flux(row, term.coefficient, outer.expr, outer.variables[0])

    def _add_mass(self, row: int, coefficient: Expr, inner: Expr, term: Expr) -> None:
        for column, u in enumerate(self.state):
            entry = coefficient * partial(inner, u)
            if entry.free_symbols or self._holds_state(entry):
                raise NotSupportedError(f"the term {term}: u_t must stand with a constant factor")
            self.mass[row, column] += entry

    def _add_flux(self, row: int, coefficient: Expr, inner: Expr, symbol: Any) -> None:
        axis, coefficient = self.space.index(symbol), differentiate(coefficient)
        self.fluxes[axis][row] += coefficient * inner
        if symbol in coefficient.free_symbols:
            if any(coefficient.has(r) for r in self.rough):
                raise NotSupportedError(
                    f"the rough coefficient {coefficient} outside of the derivative; write the "
                    "flux inside"
                )
            self.rest[row] -= inner * differentiate(Derivative(coefficient, symbol))

    def finish(self) -> ConservationLaw:
        if self.mass.det() == 0:
            raise NotSupportedError("the time derivatives do not determine each other")
        inverse = self.mass.inv()
        fluxes = tuple(tuple(inverse * sympy.Matrix(f)) for f in self.fluxes)
        if not any(self._holds_state(f) for axis in fluxes for f in axis):
            raise NotSupportedError("no flux of an unknown: nothing is transported")
        source = tuple(-inverse * sympy.Matrix(self.rest))
        return ConservationLaw(self.state, fluxes, source, frozenset(self.coordinates))

    def _slopes(self, expression: Expr) -> bool:
        """Whether an expression holds a derivative of the state."""
        return any(self._holds_state(d) for d in expression.atoms(Derivative))

    def _holds_state(self, expression: Expr) -> bool:
        return expression.has(*self.state)
