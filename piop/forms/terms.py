"""Terms of a residual: their coefficients, derivatives and nonlinear factors.

Every form is read from these terms; no pass takes a residual apart in its own way. The atoms of an
expression are applied functions, such as u(t, x), and their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import sympy
from sympy import Derivative, Expr

from piop.expression.functions import is_applied
from piop.forms.pde import PDE


def applied(atom: Any) -> Any:
    """The applied function of an atom: itself, or what it differentiates."""
    return atom.expr if atom.is_Derivative else atom


def name_of(atom: Any) -> str:
    """Name of an atom's function, as in the spec."""
    return applied(atom).func.__name__


def derivative_counts(atom: Any) -> dict[Any, int]:
    """How often an atom is differentiated by each coordinate."""
    return {v: int(count) for v, count in atom.variable_count} if atom.is_Derivative else {}


def argument_order(atom: Any) -> tuple[int, ...]:
    """How often an atom is differentiated by each argument of its function."""
    return derivative_index(atom, applied(atom).args)


def derivative_index(atom: Any, coordinates: Iterable[Any]) -> tuple[int, ...]:
    """How often an atom is differentiated along each coordinate."""
    count = derivative_counts(atom)
    return tuple(count.get(symbol, 0) for symbol in coordinates)


def symbols_named(expressions: Iterable[Expr]) -> set[Any]:
    """Find the symbols that expressions hold by themselves, not as those of a function."""
    found: set[Any] = set()
    for expression in expressions:
        hidden = {atom: sympy.Dummy() for atom in outermost_atoms(expression)}
        found |= expression.xreplace(hidden).free_symbols
    return found


def outermost_atoms(expression: Any) -> list[Any]:
    """The atoms in the order met, each once: a derivative hides the function inside it.

    Example:
        >>> x = sympy.Symbol("x")
        >>> u = sympy.Function("u")(x)
        >>> outermost_atoms(u.diff(x) ** 2 + sympy.sin(x))
        [Derivative(u(x), x)]
    """
    found: dict[Any, None] = {}
    walk = sympy.preorder_traversal(expression)
    for node in walk:
        if node.is_Derivative or is_applied(node):
            walk.skip()
            found[node] = None
    return list(found)


def unknown_derivatives(
    expressions: Sequence[Expr], coordinates: Sequence[sympy.Symbol], channels: Sequence[str]
) -> dict[Expr, tuple[int, tuple[int, ...]]]:
    """Map the unknowns, and derivatives of unknowns, in expressions to (channel, multi-index).

    Each is listed once, in a fixed order.
    """
    unknowns = {sympy.Function(n, real=True)(*coordinates) for n in channels}
    found: list[Any] = []
    for expression in expressions:
        own = [a for a in outermost_atoms(expression) if applied(a) in unknowns]
        found += sorted(own, key=lambda a: (not a.is_Derivative, str(a)))
    names = tuple(channels)
    return {a: (names.index(name_of(a)), derivative_index(a, coordinates)) for a in found}


_MAX_TERMS = 2000


@final
@dataclass(frozen=True)
class Term:
    """One term of a sum: coefficient · Π values · Π derivatives.

    Attributes:
        expression: All of it.
        coefficient: Product of the factors that hold none of the functions.
        values: Factors that hold a function and are no derivative: ``u``, ``u**2``, ``dx(u)**2``.
        derivatives: Factors that are derivatives, as written, of what holds a function.
    """

    expression: Expr
    coefficient: Expr
    values: tuple[Expr, ...]
    derivatives: tuple[Derivative, ...]

    @property
    def holders(self) -> tuple[Expr, ...]:
        """The factors that hold a function."""
        return self.values + self.derivatives

    @property
    def held(self) -> Expr:
        """The product of the factors that hold a function."""
        return sympy.Mul(*self.holders)


@final
@dataclass(frozen=True)
class LinearTerm:
    """``coefficient`` times the derivative ``order`` (per coordinate, time first) of ``unknown``.

    The coefficient holds no unknown, but may hold coordinates and inputs.
    """

    unknown: str
    order: tuple[int, ...]
    coefficient: Expr


def additive_terms(expr: Any) -> list[Expr]:
    """The terms of a sum after products and small powers of sums are multiplied out.

    Unlike ``sympy.expand`` it leaves denominators and arguments of functions as they are, and a
    product that would give more than 2000 terms, so its cost is bounded.
    """
    if expr.is_Add:
        return [t for part in expr.args for t in additive_terms(part)]
    if expr.is_Pow:
        base, exponent = expr.args
        if not (base.is_Add and exponent.is_Integer and 1 < int(exponent) <= 16):
            return [expr]
        factors: list[Expr] = [base] * int(exponent)
    elif expr.is_Mul:
        factors = list(expr.args)
    else:
        return [expr]
    parts = [additive_terms(f) for f in factors]
    if prod(len(p) for p in parts) > _MAX_TERMS:
        return [expr]
    done = parts[0]
    for part in parts[1:]:
        done = list(sympy.Add.make_args(sympy.Add(*[a * b for a in done for b in part])))
    return done


def read_term(product: Expr, functions: Iterable[Any]) -> Term:
    """Sort the factors of a product.

    Args:
        product: A number, a function, a derivative, or a product of such.
        functions: What counts as held: unknowns, or coordinates for all that varies along them.
    """
    held = frozenset(functions)
    free, values, derivatives = [], [], []
    for factor in sympy.Mul.make_args(product):
        if held.isdisjoint(sympy.preorder_traversal(factor)):
            free.append(factor)
        else:
            (derivatives if factor.is_Derivative else values).append(factor)
    return Term(product, sympy.Mul(*free), tuple(values), tuple(derivatives))


def read_terms(
    expression: Expr,
    functions: Iterable[Any],
    expand: Callable[[Expr], Sequence[Expr]] = additive_terms,
) -> list[Term]:
    """Take an expression apart into terms.

    Args:
        expression: A residual, or what a derivative in it holds; derivatives stay as written.
        functions: See `read_term`.
        expand: Gives the addends of an expression.
    """
    held = tuple(functions)
    return [read_term(term, held) for term in expand(expression)]


def split_terms(pde: PDE, residual: Expr) -> tuple[list[LinearTerm], list[Expr], list[Expr]]:
    """Linear terms, nonlinear terms, and terms without unknowns, of a residual after ``doit()``."""
    linear, nonlinear, free = [], [], []
    names = {pde.function(name): name for name in pde.channels}
    for term in read_terms(residual, names):
        if not term.holders:
            free.append(term.expression)
            continue
        base, order = _derivative(pde, term.holders[0])
        if len(term.holders) == 1 and base in names:
            linear.append(LinearTerm(names[base], order, term.coefficient))
        else:
            nonlinear.append(term.expression)
    return linear, nonlinear, free


def _derivative(pde: PDE, factor: Any) -> tuple[Expr, tuple[int, ...]]:
    return applied(factor), derivative_index(factor, (c.symbol for c in pde.coordinates))


def orders(pde: PDE, expr: Expr, *names: str) -> list[tuple[int, ...]]:
    """The order per coordinate of every occurrence of unknowns in an expression."""
    symbols = [c.symbol for c in pde.coordinates]
    return [derivative_index(a, symbols) for a in outermost_atoms(expr) if name_of(a) in names]


def space_order(pde: PDE, order: tuple[int, ...]) -> int:
    """Total order in space."""
    return sum(order[1:] if pde.time else order)


def highest_space_order(pde: PDE, expressions: Iterable[Expr], names: Iterable[str]) -> int:
    """The highest total order in space of a derivative of these unknowns; zero without one."""
    names = tuple(names)
    found = [order for e in expressions for order in orders(pde, e, *names)]
    return max((space_order(pde, order) for order in found), default=0)


def multipliers(pde: PDE) -> tuple[str, ...]:
    """Name the Lagrange multipliers among the unknowns of a steady PDE, such as a pressure.

    A multiplier occurs in first derivatives at most, not in every equation, and only in equations
    with second derivatives of another unknown along every axis: that one takes the conditions at
    walls.
    """
    if pde.time is not None:
        return ()
    found = []
    for name in pde.unknowns:
        own = [orders(pde, r, name) for r in pde.residuals]
        holds = [r for r, o in zip(pde.residuals, own, strict=True) if o]
        steep = max((sum(o) for each in own for o in each), default=0)
        if steep == 1 and len(holds) < len(own) and all(_second(pde, r, name) for r in holds):
            found.append(name)
    return tuple(found)


def _second(pde: PDE, residual: Expr, name: str) -> bool:
    """Whether another unknown stands in an equation with a second derivative along each axis."""
    return any(
        all(max((o[i] for o in found), default=0) == 2 for i in range(len(pde.coordinates)))
        for other in pde.unknowns
        if other != name and (found := orders(pde, residual, other))
    )
