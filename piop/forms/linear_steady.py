"""Steady linear equations with constant coefficients, whose waves are solved one by one.

L u = f on a box whose axes are periodic or have walls where all unknowns, or all of their slopes,
vanish: on a wave e^{ik·x}, or between walls a sine or cosine, L is its symbol L(k), a number for
one equation and a small matrix for a system.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from sympy import Add, Expr, S

from piop.errors import NotSupportedError
from piop.expression import write
from piop.forms.axis_conditions import AxisConditions, axis_conditions
from piop.forms.pde import PDE
from piop.forms.terms import split_terms

Operator = Mapping[tuple[int, int], Mapping[tuple[int, ...], float]]
"""(Equation, channel) → the coefficient of each derivative in space."""

NODES = {1: 129, 2: 65, 3: 33}
"""Points per axis, by their number, at which sources are interpolated; odd, for periodic axes."""
RESONANCE = 1e-6
"""Part of its terms that a symbol is at least: solutions grow by the inverse of it."""
SHORT = 1e-2
"""The same for waves too short for the grid, which must not resonate even approximately."""


@dataclass(frozen=True)
class LinearSteady:
    """A steady linear problem with constant coefficients.

    Attributes:
        operator: L.
        sources: f, one expression per equation.
        conditions: Of each axis.
        means: Channels that the equations leave a constant to, by their number, and their means.
    """

    operator: Operator
    sources: tuple[Expr, ...]
    conditions: tuple[AxisConditions, ...]
    means: Mapping[int, float]


def linear_steady(pde: PDE) -> LinearSteady:
    """Read L and f, and require that every wave has one solution.

    Raises:
        NotSupportedError: If the waves cannot be solved one by one, with the reason.
    """
    if pde.time is not None:
        raise NotSupportedError("the problem is not steady")
    if not pde.space or not pde.domain.is_box:
        raise NotSupportedError("the domain is not a box")
    operator, sources = _read(pde)
    conditions = tuple(axis_conditions(pde, i) for i in range(len(pde.space)))
    for axis, own in enumerate(conditions):
        _require_orders(pde, operator, axis, own)
    return LinearSteady(operator, sources, conditions, _solvable(pde, operator, conditions))


def _read(pde: PDE) -> tuple[Operator, tuple[Expr, ...]]:
    """Split the equations into L and f."""
    operator: dict[tuple[int, int], dict[tuple[int, ...], float]] = {}
    sources = []
    for row, residual in enumerate(pde.residuals):
        linear, nonlinear, free = split_terms(pde, residual)
        if nonlinear:
            raise NotSupportedError("the equations are not linear")
        for term in linear:
            if not term.coefficient.is_number:
                raise NotSupportedError(f"a coefficient is not a number: {write(term.coefficient)}")
            entry = operator.setdefault((row, pde.channels.index(term.unknown)), {})
            entry[term.order] = entry.get(term.order, 0.0) + float(term.coefficient)
        sources.append(Add(*(-term for term in free)) if free else S.Zero)
    return operator, tuple(sources)


def _require_orders(pde: PDE, operator: Operator, axis: int, conditions: AxisConditions) -> None:
    """Require derivatives along an axis that keep its waves to themselves."""
    found = {order[axis] for polynomial in operator.values() for order in polynomial}
    name = pde.space[axis].name
    if not conditions.odd_orders and any(order % 2 for order in found):
        raise NotSupportedError(
            f"a derivative of odd order along {name} does not keep a wave between its walls"
        )
    if not conditions.odd_orders and max(found, default=0) != 2:
        raise NotSupportedError(f"the highest derivative along {name} is not the second")


def _solvable(
    pde: PDE, operator: Operator, conditions: Sequence[AxisConditions]
) -> Mapping[int, float]:
    """Require that every wave has one solution; return the means that the constant one takes."""
    counts = [NODES[len(conditions)]] * len(conditions)
    axes = [
        own.wavenumbers(axis.length, count)
        for own, axis, count in zip(conditions, pde.space, counts, strict=True)
    ]
    constant = all(waves[0] == 0 for waves in axes)
    means = _constant_means(pde, operator) if constant else {}
    # half as many waves as points along an axis are resolved for certain
    long = reduce(np.logical_and.outer, [np.abs(w) <= abs(w[len(w) // 2]) for w in axes])
    for part, waves in _chunks(axes):
        sizes = _relative_symbols(pde, operator, waves)
        if constant and part == 0:
            sizes.flat[0] = 1.0  # the constant wave
        least = np.where(long[part], RESONANCE, SHORT)
        if (sizes < least).any():
            raise NotSupportedError(_resonance(pde, waves, sizes - least))
    return means


def _chunks(axes: Sequence[NDArray[np.floating]]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield the wave vectors ``[…, d]`` of each wave along the first axis, to bound memory."""
    for part, first in enumerate(axes[0]):
        yield part, np.stack(np.meshgrid(first, *axes[1:], indexing="ij"), -1)[0]


def _relative_symbols(
    pde: PDE, operator: Operator, waves: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Return the smallest singular value of L(k), its rows and columns made dimensionless.

    Args:
        pde: The problem.
        operator: L.
        waves: k ``[…, d]``.

    Returns:
        ``[…]``, at most about one.
    """
    count = len(pde.channels)
    symbol = np.zeros((*waves.shape[:-1], count, count), dtype=complex)
    size = np.zeros(symbol.shape)
    for (row, column), polynomial in operator.items():
        for order, coefficient in polynomial.items():
            term = coefficient * np.prod((1j * waves) ** np.array(order), -1)
            symbol[..., row, column] += term
            size[..., row, column] += np.abs(term)
    for axis in (-1, -2):  # each row, then each column, has a largest entry of one
        largest = size.max(axis, keepdims=True)
        largest[largest == 0] = 1.0
        symbol, size = symbol / largest, size / largest
    return np.linalg.svd(symbol, compute_uv=False)[..., -1]


def _constant_means(pde: PDE, operator: Operator) -> Mapping[int, float]:
    """Return the means of the channels whose constants the equations do not feel.

    Raises:
        NotSupportedError: If one has no mean, or the constants of the others are not fixed.
    """
    zero = (0,) * len(pde.space)
    given = dict(pde.gauge) | {a.name: a.mean for a in pde.auxiliaries}
    matrix = np.zeros((len(pde.residuals), len(pde.channels)))
    for place, polynomial in operator.items():
        matrix[place] = polynomial.get(zero, 0.0)
    free = [c for c in range(len(pde.channels)) if not matrix[:, c].any()]
    missing = [pde.channels[c] for c in free if pde.channels[c] not in given]
    if missing:
        raise NotSupportedError(f"the equations leave a constant to {missing[0]}")
    if np.linalg.matrix_rank(matrix) < len(pde.channels) - len(free):
        raise NotSupportedError("the equations do not fix the constants of all unknowns")
    return {c: given[pde.channels[c]] for c in free}


def _resonance(pde: PDE, waves: NDArray[np.floating], excess: NDArray[np.floating]) -> str:
    """Name the wave at which the equations have no bounded solution."""
    worst = waves.reshape(-1, len(pde.space))[excess.argmin()]
    parts = zip(pde.space, worst, strict=True)
    rounds = ", ".join(f"{c.length * abs(k) / (2 * math.pi):g} along {c.name}" for c, k in parts)
    return f"the equations resonate with a wave of this many periods: {rounds}"
