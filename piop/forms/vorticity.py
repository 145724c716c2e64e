"""Advection of a vorticity by its own stream function, as two fluxes.

Where a psi + b w = 0 with a = c (∂xx + ∂yy) fixes psi, the vorticity is w = −(c/b) Δψ, and

    ∂xψ ∂yΔψ − ∂yψ ∂xΔψ = (∂yy − ∂xx)(∂xψ ∂yψ) + ∂xy((∂xψ)² − (∂yψ)²)

(C. Basdevant, "Technical improvements for direct numerical simulation of homogeneous
three-dimensional turbulence", J. Comput. Phys. 50 (1983), doi:10.1016/0021-9991(83)90075-5): two
transforms to the points and two back, in place of four and one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sympy
from sympy import Expr

Flux = tuple[tuple[int, int], Expr]
"""Derivatives to take along both axes, and of what."""


def stream_function(
    residual: Expr, psi: Expr, w: Expr, axes: Sequence[sympy.Symbol]
) -> Expr | None:
    """Give k of w = k Δψ where an auxiliary equation says just that, k free of coordinates.

    Args:
        residual: The equation, equal to zero, derivatives carried out.
        psi: The auxiliary unknown.
        w: The state that may be its Laplacian.
        axes: Both coordinates of space.
    """
    parts = [psi.diff(a, 2) for a in axes]
    rest, found = sympy.expand(residual), []
    for atom in (*parts, w):
        coefficient = rest.coeff(atom)
        rest = sympy.expand(rest - coefficient * atom)
        found.append(coefficient)
    first, second, own = found
    moving = (first.free_symbols | own.free_symbols) & psi.free_symbols
    return -first / own if rest == 0 and first == second != 0 != own and not moving else None


def as_fluxes(
    expression: Expr, psi: Expr, w: Expr, factor: Expr, axes: Sequence[sympy.Symbol]
) -> Iterator[Flux]:
    """Write c (∂xψ ∂yw − ∂yψ ∂xw), c a number or scalar, as fluxes; the rest stays as it is.

    Args:
        expression: A sum of products.
        psi: The stream function.
        w: ``factor`` times its Laplacian.
        factor: See ``w``.
        axes: Both coordinates of space.

    Yields:
        Parts that add up to the expression; one alone where nothing was found.
    """
    x, y = axes
    expression = sympy.expand(expression)
    one, other = psi.diff(x) * w.diff(y), psi.diff(y) * w.diff(x)
    c: Any = expression.coeff(one)
    rest = sympy.expand(expression - c * (one - other))
    if c == 0 or c.free_symbols & {*psi.free_symbols} or rest.has(one) or rest.coeff(other) != 0:
        yield (0, 0), expression
        return
    if rest != 0:
        yield (0, 0), rest
    mixed = factor * c * psi.diff(x) * psi.diff(y)
    yield (0, 2), mixed
    yield (2, 0), -mixed
    yield (1, 1), factor * c * (psi.diff(x) ** 2 - psi.diff(y) ** 2)
