"""Wave speeds of a conservation law: eigenvalues of its flux Jacobian, as formulas."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Dummy, Expr

from piop.expression.parse import SYMPY_FAILS
from piop.problem.conservation import ConservationLaw
from piop.problem.gas import Gas

_LARGEST = 5  # unknowns for which the characteristic polynomial is formed

Pairs = tuple[tuple[Expr, Expr], ...]
"""(slower, faster) eigenvalue of each factor of the characteristic polynomial."""


def wave_speeds(law: ConservationLaw, axis: int, gas: Gas | None) -> Pairs | None:
    """Give formulas among which the slowest and the fastest wave speed are.

    One unknown: F′(u). A gas: the two speeds besides its velocity v, from the traces of A and A²,
    λ₊ + λ₋ = tr A − (n − 2)v and λ₊² + λ₋² = tr A² − (n − 2)v², whatever its pressure law. Other
    systems: the characteristic polynomial is factored; its factors must be of degree two at most.

    Returns:
        None where that fails, so that eigenvalues must be computed in numbers.
    """
    plain: dict[Any, Any] = {u: Dummy(f"u{i}", real=True) for i, u in enumerate(law.state)}
    back: dict[Any, Any] = {s: u for u, s in plain.items()}
    rows = law.jacobian(axis)
    a: Any = sympy.Matrix([[entry.xreplace(plain) for entry in row] for row in rows])
    velocity: Any = None if gas is None else gas.velocity(law, axis).xreplace(plain)
    try:
        pairs = _formulas(a, velocity)
    except (*SYMPY_FAILS, sympy.PolynomialError):
        return None
    if pairs is None:
        return None
    found: Any = tuple(tuple(speed.xreplace(back) for speed in pair) for pair in pairs)
    return found


def _formulas(a: Any, velocity: Expr | None) -> Pairs | None:
    n = a.rows
    if n == 1:
        return ((a[0, 0], a[0, 0]),)
    if velocity is not None or n == 2:
        v = sympy.S.Zero if velocity is None else velocity
        total = sympy.cancel(a.trace() - (n - 2) * v)
        squares = sympy.cancel((a * a).trace() - (n - 2) * v**2)
        return (_pair(total / 2, sympy.cancel(2 * squares - total**2) / 4),)
    return _factored(a) if n <= _LARGEST else None


def _factored(a: Any) -> Pairs | None:
    speed = Dummy("speed", real=True)
    whole = sympy.together((speed * sympy.eye(a.rows) - a).det(method="berkowitz"))
    pairs = []
    for factor, _ in sympy.factor_list(sympy.fraction(sympy.cancel(whole))[0])[1]:
        if not factor.has(speed):
            continue
        leading, *others = sympy.Poly(factor, speed).all_coeffs()
        if len(others) > 2:
            return None
        middle = -others[0] / leading
        if len(others) == 1:
            pairs.append((sympy.cancel(middle),) * 2)
        else:
            discriminant = sympy.cancel(middle**2 / 4 - others[1] / leading)
            pairs.append(_pair(sympy.cancel(middle / 2), discriminant))
    return tuple(pairs) or None


def _pair(mean: Expr, discriminant: Expr) -> tuple[Expr, Expr]:
    reach = sympy.sqrt(sympy.factor(discriminant))
    return mean - reach, mean + reach
