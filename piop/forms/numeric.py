"""Values of SymPy expressions in NumPy; used by checks, never by training."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Expr
from sympy.core.function import AppliedUndef

from piop.expression.functions import BY_SYMBOL, RELATIONS

Value = float | NDArray[np.float64]


def evaluate(expr: Expr, lookup: Callable[[Expr], Value]) -> Value:
    """The value of an expression.

    Args:
        expr: Made of the spec language's operations.
        lookup: Gives a number, or an array, for each symbol, function and derivative.

    Returns:
        A number or an array; NaN where the expression is not defined.

    Raises:
        TypeError: For an operation that has no number.
    """
    with np.errstate(all="ignore"):
        return _evaluate(expr, lookup)


def _evaluate(expr: Any, lookup: Callable[[Expr], Value]) -> Any:
    if expr.is_number:
        return float(expr)
    if expr.is_Symbol or isinstance(expr, (AppliedUndef, sympy.Derivative)):
        return lookup(expr)
    if isinstance(expr, sympy.Piecewise):
        result: Any = np.nan
        for value, test in reversed(expr.args):  # type: ignore[misc]
            branch = _evaluate(value, lookup)
            met = True if test == sympy.true else _evaluate(test, lookup)
            result = np.where(met, branch, result)
        return result
    parts = [_evaluate(a, lookup) for a in expr.args]
    if expr.is_Add:
        return sum(parts[1:], parts[0])
    if expr.is_Mul:
        return np.prod(np.broadcast_arrays(*parts), axis=0)
    if expr.is_Pow:
        return np.power(np.asarray(parts[0], dtype=float), parts[1])
    if expr.func in RELATIONS:
        return RELATIONS[expr.func].operation(*parts)
    if expr.func in BY_SYMBOL:
        function = BY_SYMBOL[expr.func]
        return reduce(function.array, parts) if function.variadic else function.array(*parts)
    raise TypeError(f"no number for {type(expr).__name__}")
