"""Linear evolutions on periodic boxes whose coefficients vary in space.

Waves of such equations do not evolve independently, but the modes of their operator do: on a grid
the operator is one matrix over all points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import sympy
from sympy import Expr
from sympy.core.function import AppliedUndef

from piop.errors import NotSupportedError
from piop.forms.axis_conditions import axis_conditions
from piop.forms.linear_nonlinear_split import Order, Polynomial, Split, split_linear
from piop.forms.pde import PDE

MOST_VALUES = 1024
"""Points times unknowns on a grid whose modes are found, which takes the cube of it."""
MOST_POINTS = {1: 128, 2: 32}
"""Points per axis, by the number of axes."""
LEAST_POINTS = 16
"""Points per axis below which a grid resolves too little."""


@dataclass(frozen=True)
class OperatorTerm:
    """∂^outer (coefficient · ∂^inner w) in the right side of a state.

    Attributes:
        row: Which state it changes.
        column: Which state w is.
        outer: Derivatives of the product along the axes of space.
        coefficient: An expression of the coordinates of space.
        inner: Derivatives of w.
    """

    row: int
    column: int
    outer: Order
    coefficient: Expr
    inner: Order


@dataclass(frozen=True)
class VaryingEvolution:
    """A linear evolution, as an operator on its states.

    Attributes:
        split: The equations, term by term.
        terms: All that depends on the states, the mass removed.
        second: Whether the second time derivatives of all unknowns depend on the unknowns alone,
            not on their rates of change; the rows and columns of the terms are unknowns then.
        points: Points per axis of the grid on which its modes are found.
    """

    split: Split
    terms: tuple[OperatorTerm, ...]
    second: bool
    points: int


def varying_evolution(pde: PDE) -> VaryingEvolution:
    """Read a linear evolution with coefficients that vary in space.

    Raises:
        NotSupportedError: If it is not of this kind, with the reason.
    """
    if not pde.space or not pde.domain.is_box:
        raise NotSupportedError("the waves of a box are needed, and the domain is none")
    split = split_linear(pde)
    for axis, coordinate in enumerate(pde.space):
        if axis_conditions(pde, axis).extension != "periodic":
            raise NotSupportedError(
                f"coefficients vary, and along {coordinate.name} it is not periodic"
            )
    if len(split.channels) > split.states:
        raise NotSupportedError("coefficients vary, and there are auxiliary unknowns")
    space = {c.symbol for c in pde.space}
    terms = tuple(_terms(split))
    for term in terms:
        _require_even(term, space)
    unknowns, second = len(pde.unknowns), all(pde.time_order[u] == 2 for u in pde.unknowns)
    highest = [t for t in terms if split.channels[t.row].time_order == 1]
    if second and not any(split.channels[t.column].time_order for t in highest):
        number = [pde.unknowns.index(c.name) for c in split.channels]
        terms = tuple(replace(t, row=number[t.row], column=number[t.column]) for t in highest)
    else:
        second = False
    count = _points(len(pde.space), unknowns if second else split.states)
    return VaryingEvolution(split, terms, second, count)


def _terms(split: Split) -> Iterator[OperatorTerm]:
    """Read all terms that hold states, each divided by the number before its time derivative."""
    states = _states(split)
    for (row, column), polynomial in split.right.linear.items():
        state, mass = states[row]
        for order, coefficient in polynomial.items():
            yield OperatorTerm(state, column, (0,) * len(order), coefficient / mass, order)
    held = {atom: sympy.Dummy() for atom in split.unknown_atoms}
    for product in split.right.products:
        expression = product.expression.xreplace(held)
        for atom, symbol in held.items():
            slope = sympy.diff(expression, symbol)
            if slope == 0:
                continue
            column, inner = split.unknown_atoms[atom]
            for row, outer, factor in product.places:
                state, mass = states[row]
                yield OperatorTerm(state, column, outer, factor * slope / mass, inner)


def _states(split: Split) -> dict[int, tuple[int, Expr]]:
    """Return for each row the state whose time derivative it holds, and the number before it."""
    found: dict[int, tuple[int, Expr]] = {}
    for (row, state), polynomial in split.mass.items():
        number = _number(polynomial)
        if row in found or number is None:
            raise NotSupportedError(
                "coefficients vary, and an equation holds more than one time derivative"
            )
        found[row] = state, number
    return found


def _number(polynomial: Polynomial) -> Expr | None:
    """Return the number that a polynomial is; None where it is none."""
    ((order, coefficient), *more) = polynomial.items()
    return None if more or any(order) or coefficient.free_symbols else coefficient


def _require_even(term: OperatorTerm, space: set[sympy.Symbol]) -> None:
    """Require a coefficient of space alone, and a well-conditioned operator."""
    coefficient = term.coefficient
    if coefficient.free_symbols - space or coefficient.atoms(AppliedUndef):
        raise NotSupportedError(f"a coefficient varies with more than space: {coefficient}")
    odd = (sum(term.outer) + sum(term.inner)) % 2
    if odd and coefficient.free_symbols:
        raise NotSupportedError(
            "a coefficient varies before a derivative of odd order, whose modes are ill-conditioned"
        )


def _points(axes: int, unknowns: int) -> int:
    """Choose the points per axis of the grid."""
    count = MOST_POINTS.get(axes, 0)
    while unknowns * count**axes > MOST_VALUES:
        count -= 2
    if count < LEAST_POINTS:
        raise NotSupportedError(
            f"coefficients vary, and {unknowns} unknowns on {axes} axes have too many modes"
        )
    return count
