"""Potential form of conservation laws on a periodic interval: u = u0 + ∂W/∂x.

Where m u_t + ∂F/∂x = 0 and W = 0 at the start, every W with m W_t + F(u0 + W_x) = 0 gives a
solution, and the mean of u keeps its value for any W. The place of a front is determined by the
residual of W on both of its sides, where the residual of u determines it within the front alone.
See ``docs/math.md``, 23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
from sympy import Derivative, Expr, Symbol

from piop.errors import NotSupportedError
from piop.forms.differentiate import differentiate, partial, substitute
from piop.forms.linear_nonlinear_split import expand
from piop.forms.pde import PDE
from piop.forms.stream_plan import MAX_ORDER
from piop.forms.terms import (
    applied,
    derivative_counts,
    name_of,
    outermost_atoms,
    read_terms,
    symbols_named,
)

_MOST_STEPS = 50
"""Integrations by parts at most: each lowers an order; what is no derivative goes in circles."""


NO_FLUX = "an equation is no conservation law, or holds a flux that is not written as dx(flux)"


@dataclass(frozen=True)
class Conserved:
    """An equation m u_t + ∂F/∂x = 0.

    Attributes:
        unknown: Name of u.
        mass: m, which does not depend on space.
        flux: F, derivatives carried out.
    """

    unknown: str
    mass: Expr
    flux: Expr


def conserved_fluxes(pde: PDE) -> tuple[Conserved, ...]:
    """Read every equation as a conservation law on a periodic interval.

    Fluxes may hold derivatives, as of a viscous law, and need not be written as such: ``u*dx(u)``
    is the derivative of ``u**2/2``.

    Raises:
        NotSupportedError: If one is none, with the reason, a clause.

    Example:
        >>> from piop.problem import Problem
        >>> (law,) = conserved_fluxes(Problem.from_file("burgers").pde)
        >>> law.flux
        u(t, x)**2/2 - Derivative(u(t, x), x)/100
    """
    if pde.time is None or any(order > 1 for order in pde.time_order.values()):
        raise NotSupportedError("the problem is no evolution of first order in time")
    if len(pde.space) != 1 or not pde.periodic:
        raise NotSupportedError("space is no periodic interval")
    if pde.auxiliaries:
        raise NotSupportedError(f"{pde.auxiliaries[0].name} does not evolve by itself")
    laws = tuple(_read(pde, pde.time.symbol, residual) for residual in pde.residuals_raw)
    if sorted(law.unknown for law in laws) != sorted(pde.unknowns):
        raise NotSupportedError("the equations do not hold the time derivative of one unknown each")
    if pde.space[0].symbol in symbols_named(law.flux for law in laws):
        raise NotSupportedError(f"a flux names {pde.space[0].name}")
    return laws


def potential_equations(pde: PDE) -> PDE:
    """Return the equations m W_t + F(u0 + W_x) = 0, where W has the name of its unknown.

    Raises:
        NotSupportedError: As :func:`conserved_fluxes`.
    """
    laws = conserved_fluxes(pde)
    unknowns: list[Any] = [pde.function(law.unknown) for law in laws]
    time = pde.coordinates[0].symbol
    return _with_residuals(
        pde,
        [
            law.mass * Derivative(unknown, time) + _through_potential(pde, law.flux)
            for law, unknown in zip(laws, unknowns, strict=True)
        ],
    )


def equations_of_slopes(pde: PDE) -> PDE:
    """Return the equations of u themselves, written in W: their residuals at u = u0 + W_x.

    Raises:
        NotSupportedError: If they hold a derivative of the highest order that streams take.
    """
    return _with_residuals(pde, [_through_potential(pde, residual) for residual in pde.residuals])


def _with_residuals(pde: PDE, residuals: Sequence[Expr]) -> PDE:
    start = dict.fromkeys(pde.unknowns, (sympy.S.Zero,))
    return replace(pde, residuals=(*residuals,), residuals_raw=(*residuals,), initial=start)


def _through_potential(pde: PDE, expression: Expr) -> Expr:
    """Put u0 + W_x in the place of every unknown, and their derivatives in that of its own."""
    x = pde.space[0].symbol
    values: dict[Expr, Any] = {}
    for atom in outermost_atoms(expression):
        if name_of(atom) not in pde.unknowns:
            continue
        counts = derivative_counts(atom)
        times = [(s, n + (s == x)) for s, n in ({x: 0} | counts).items()]
        if sum(n for _, n in times) > MAX_ORDER:
            raise NotSupportedError(f"{atom} is of order {MAX_ORDER}, that of its potential higher")
        values[atom] = Derivative(applied(atom), *times)
        if set(counts) <= {x}:  # the start does not depend on the time
            start = pde.initial[name_of(atom)][0]
            values[atom] += _differentiated(start, x, counts.get(x, 0))
    return substitute(expression, values)


def _read(pde: PDE, time: Symbol, residual: Expr) -> Conserved:
    """Sort the terms of an equation into mass and flux."""
    x = pde.space[0].symbol
    flux, rest = sympy.S.Zero, sympy.S.Zero
    for term in read_terms(residual, [pde.function(n) for n in (*pde.unknowns, *_varying(pde, x))]):
        inner = None if term.values or len(term.derivatives) != 1 else term.derivatives[0]
        if inner is not None and x in inner.variables and not term.coefficient.has(x):
            others = list(inner.variables)
            others.remove(x)
            held: Any = Derivative(inner.expr, *others) if others else inner.expr
            flux += term.coefficient * differentiate(held)
        else:
            rest += differentiate(term.expression)
    changing = [a for a in outermost_atoms(rest) if time in derivative_counts(a)]
    rates = [a for a in changing if name_of(a) in pde.unknowns]
    if len(rates) != 1 or derivative_counts(rates[0]) != {time: 1}:
        raise NotSupportedError("an equation holds other than one first derivative in time")
    (rate,) = rates
    mass = partial(rest, rate)
    if outermost_atoms(mass) or mass.has(x):
        raise NotSupportedError(f"the coefficient of {rate} is {mass}")
    flux += _antiderivative(expand(rest - mass * rate), x)
    if any(time in derivative_counts(a) for a in outermost_atoms(flux)):
        raise NotSupportedError("a flux holds a derivative in time")
    return Conserved(name_of(rate), mass, flux)


def _varying(pde: PDE, x: Symbol) -> list[str]:
    """Names of the inputs that vary along an axis."""
    return [item.name for item in pde.inputs if item.symbol.has(x)]


def _antiderivative(expression: Expr, x: Symbol) -> Expr:
    """Find F with ∂F/∂x = expression, by parts, the highest derivative first.

    Raises:
        NotSupportedError: If there is none that is a polynomial in what it is integrated over.

    Source: the integration of exact differential polynomials, Olver 1993, Applications of Lie
        Groups to Differential Equations, Sec. 5.4 (doi:10.1007/978-1-4612-4350-2).
    """
    found: Any = sympy.S.Zero
    left: Any = expression
    for _ in range(_MOST_STEPS):
        if left == 0:
            return found
        atoms = [a for a in outermost_atoms(left) if x in applied(a).args]
        highest = max(atoms, key=lambda a: (derivative_counts(a).get(x, 0), str(a)), default=None)
        order = 0 if highest is None else derivative_counts(highest).get(x, 0)
        if highest is None or order == 0:
            break
        slope = expand(partial(left, highest))
        if any(derivative_counts(a).get(x, 0) >= order for a in outermost_atoms(slope)):
            break
        part = _integrated(slope, _lowered(highest, x))
        found += part
        left = expand(left - differentiate(Derivative(part, x)))
    raise NotSupportedError(NO_FLUX)


def _lowered(atom: Any, x: Symbol) -> Any:
    """Take one derivative along x away."""
    counts = derivative_counts(atom)
    counts[x] -= 1
    times = [(symbol, n) for symbol, n in counts.items() if n]
    return Derivative(applied(atom), *times) if times else applied(atom)


def _integrated(expression: Expr, atom: Expr) -> Expr:
    """Integrate a polynomial in an atom over it, all others being constant."""
    variable = sympy.Dummy(real=True)
    plain: Any = expression.xreplace({atom: variable})
    try:
        found: Any = sympy.Poly(plain, variable).integrate(variable)
    except sympy.PolynomialError as error:
        raise NotSupportedError(NO_FLUX) from error
    return found.as_expr().xreplace({variable: atom})


def _differentiated(expression: Any, x: Symbol, order: int) -> Any:
    """Differentiate as often along x."""
    return differentiate(Derivative(expression, (x, order))) if order else expression
