"""Derivatives of compound expressions, carried out by the rules of calculus and nothing else.

``Derivative.doit`` of SymPy re-evaluates everything it meets (comparisons of polynomials inside
``Max`` among others), whose cost is not bounded. Here each rule is applied once, and an expression
that grows too large is refused. At a kink of ``min``, ``max`` or ``abs`` the derivative is the mean
of both sides.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Derivative, Expr

from piop.expression.functions import BY_SYMBOL, is_applied
from piop.expression.quantity import merge

_LIMIT = 20_000  # rules applied to one equation
EXTREMES = (sympy.Min, sympy.Max)


def differentiate(expr: Expr) -> Expr:
    """Carry out every derivative of anything but an unknown or an input.

    Raises:
        ArithmeticError: If the result would be too large, or a derivative exists at no point that
            matters, as the second one of ``abs``.
    """
    return _Differentiator().carry_out(expr)


def partial(expr: Expr, atom: Expr) -> Expr:
    """The derivative by an unknown, or by a derivative of one, as if all of them were independent.

    Raises:
        ArithmeticError: As for `differentiate`.
    """
    return _Differentiator().along(expr, atom)


class _Differentiator:
    """One equation's worth of rules."""

    def __init__(self) -> None:
        self.count = 0

    def _spend(self) -> None:
        self.count += 1
        if self.count > _LIMIT:
            raise ArithmeticError("too large")

    def carry_out(self, expr: Any) -> Expr:
        """Replace derivatives of compound expressions, innermost first."""
        self._spend()
        if not expr.has(Derivative) or (expr.is_Derivative and is_applied(expr.expr)):
            return expr
        if expr.is_Derivative:
            result = self.carry_out(expr.expr)
            for symbol in expr.variables:
                result = self.along(result, symbol)
            return result
        if expr.is_Piecewise:
            return _piecewise([(self.carry_out(e), self._condition(c)) for e, c in expr.args])
        return _rebuild(expr, [self.carry_out(a) for a in expr.args])

    def _condition(self, condition: Any) -> Any:
        if not condition.has(Derivative):
            return condition
        sides = [self.carry_out(a) for a in condition.args]
        return condition.func(*sides, evaluate=False)

    def along(self, expr: Any, x: Expr) -> Expr:
        """The derivative along a coordinate, or by an atom taken as independent."""
        self._spend()
        if expr == x:
            return sympy.S.One
        if not expr.has(x):
            return sympy.S.Zero
        if is_applied(expr) or expr.is_Derivative:
            return merge(expr, [x]) if x.is_Symbol else sympy.S.Zero
        if expr.is_Add:
            return sympy.Add(*[self.along(a, x) for a in expr.args])
        if expr.is_Mul:
            parts = expr.args
            return sympy.Add(
                *[
                    sympy.Mul(*parts[:i], self.along(a, x), *parts[i + 1 :])
                    for i, a in enumerate(parts)
                ]
            )
        if expr.is_Pow:
            return self._power(expr, x)
        if expr.func in EXTREMES:
            return self._extreme(expr, x)
        if expr.is_Piecewise:
            return _piecewise([(self.along(e, x), c) for e, c in expr.args])
        function = BY_SYMBOL.get(expr.func)
        if function is not None and function.slope is not None:
            inner = expr.args[0]
            return function.slope(inner) * self.along(inner, x)
        raise ArithmeticError(f"no derivative of {expr.func.__name__}")

    def _power(self, expr: Any, x: Expr) -> Expr:
        base, exponent = expr.args
        slope = self.along(base, x)
        if not exponent.has(x):
            return exponent * base ** (exponent - 1) * slope
        rest = self.along(exponent, x) * sympy.log(base)
        return expr * (rest + exponent * slope / base)

    def _extreme(self, expr: Any, x: Expr) -> Expr:
        first, *others = sorted(expr.args, key=sympy.default_sort_key)
        second = others[0] if len(others) == 1 else expr.func(*others, evaluate=False)
        a, b = self.along(first, x), self.along(second, x)
        lead = sympy.sign(first - second)
        toward = 1 if expr.func == sympy.Max else -1
        return (a + b) / 2 + toward * lead * (a - b) / 2


def _rebuild(expr: Any, arguments: list[Expr]) -> Expr:
    if expr.func in EXTREMES:
        return expr.func(*arguments, evaluate=False)
    return expr.func(*arguments)


def _piecewise(branches: list[tuple[Expr, Any]]) -> Expr:
    if len({value for value, _ in branches}) == 1:
        return branches[0][0]
    return sympy.Piecewise(*branches, evaluate=False)
