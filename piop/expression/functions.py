"""The one table of functions, in SymPy, text, NumPy and torch, and values of expressions by it.

A new function is one row. Those without a word are not part of the spec language; derivatives and
simplifications of SymPy may bring them in. Values in NumPy are for checks, never for training.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Expr
from sympy.core.function import AppliedUndef


@final
@dataclass(frozen=True)
class ElementaryFunction:
    """A function of real numbers in every notation.

    Attributes:
        symbolic: What builds it in SymPy, its class where it has one.
        word: Its name in the spec language; None for a function outside of it.
        array: The same on NumPy arrays.
        torch: Name of the operation in torch, which `piop.lowering` looks up.
        number: The same on Python numbers, exact as ``math`` is; needed with a word alone.
        slope: Its derivative, of the argument, away from jumps; None where there is no rule.
        smoothness: Derivatives exist for every order strictly below this: 0 at a jump, 1 at a kink.
        variadic: Whether it takes two or more arguments, of which ``array`` and ``torch`` take two.
        degree: k where f(c*x) = c**k * f(x) for every c > 0; None where there is none.
    """

    symbolic: Any
    word: str | None
    array: Callable[..., Any]
    torch: str
    number: Callable[..., Any] | None = None
    slope: Callable[[Expr], Expr] | None = None
    smoothness: float = math.inf
    variadic: bool = False
    degree: float | None = None


@final
@dataclass(frozen=True)
class Relation:
    """A comparison in every notation.

    Attributes:
        symbolic: Its class in SymPy.
        syntax: Its class in Python's syntax tree.
        word: As it is written.
        operation: The same on numbers, arrays and tensors.
    """

    symbolic: Any
    syntax: type[ast.cmpop]
    word: str
    operation: Callable[[Any, Any], Any]


def _sign(x: float) -> float:
    return float((x > 0) - (x < 0))


def _heaviside(x: Any, half: Any = 0.5) -> Any:
    return np.heaviside(x, half)


_ROWS: tuple[ElementaryFunction, ...] = (
    ElementaryFunction(sympy.sin, "sin", np.sin, "sin", math.sin, lambda a: sympy.cos(a)),
    ElementaryFunction(sympy.cos, "cos", np.cos, "cos", math.cos, lambda a: -sympy.sin(a)),
    ElementaryFunction(sympy.tan, "tan", np.tan, "tan", math.tan, lambda a: 1 + sympy.tan(a) ** 2),
    ElementaryFunction(sympy.exp, "exp", np.exp, "exp", math.exp, lambda a: sympy.exp(a)),
    ElementaryFunction(sympy.log, "log", np.log, "log", math.log, lambda a: 1 / a),
    ElementaryFunction(sympy.sqrt, "sqrt", np.sqrt, "sqrt", math.sqrt, degree=0.5),  # as a power
    ElementaryFunction(
        sympy.tanh, "tanh", np.tanh, "tanh", math.tanh, lambda a: 1 - sympy.tanh(a) ** 2
    ),
    ElementaryFunction(sympy.atan, "atan", np.arctan, "atan", math.atan, lambda a: 1 / (1 + a**2)),
    ElementaryFunction(sympy.sinh, "sinh", np.sinh, "sinh", math.sinh, lambda a: sympy.cosh(a)),
    ElementaryFunction(sympy.cosh, "cosh", np.cosh, "cosh", math.cosh, lambda a: sympy.sinh(a)),
    ElementaryFunction(sympy.Abs, "abs", np.abs, "abs", abs, lambda a: sympy.sign(a), 1, degree=1),
    ElementaryFunction(
        sympy.sign, "sign", np.sign, "sign", _sign, lambda _: sympy.S.Zero, smoothness=0, degree=0
    ),
    ElementaryFunction(
        sympy.Min, "min", np.minimum, "minimum", min, smoothness=1, variadic=True, degree=1
    ),
    ElementaryFunction(
        sympy.Max, "max", np.maximum, "maximum", max, smoothness=1, variadic=True, degree=1
    ),
    ElementaryFunction(sympy.asin, None, np.arcsin, "asin"),
    ElementaryFunction(sympy.acos, None, np.arccos, "acos"),
    ElementaryFunction(sympy.atan2, None, np.arctan2, "atan2"),
    ElementaryFunction(sympy.erf, None, np.vectorize(math.erf), "erf"),
    ElementaryFunction(sympy.floor, None, np.floor, "floor", smoothness=0),
    ElementaryFunction(sympy.ceiling, None, np.ceil, "ceil", smoothness=0),
    ElementaryFunction(sympy.Heaviside, None, _heaviside, "heaviside", smoothness=0),
)
_COMPARISONS = (
    Relation(sympy.StrictLessThan, ast.Lt, "<", operator.lt),
    Relation(sympy.LessThan, ast.LtE, "<=", operator.le),
    Relation(sympy.StrictGreaterThan, ast.Gt, ">", operator.gt),
    Relation(sympy.GreaterThan, ast.GtE, ">=", operator.ge),
)

FUNCTIONS = {row.word: row for row in _ROWS if row.word is not None}
"""Word of the spec language → function."""
BY_SYMBOL: dict[Any, ElementaryFunction] = {row.symbolic: row for row in _ROWS}
"""Class in SymPy → function."""
RELATIONS = {row.symbolic: row for row in _COMPARISONS}
"""Class in SymPy → comparison."""
BY_SYNTAX = {row.syntax: row for row in _COMPARISONS}
"""Class in Python's syntax tree → comparison."""
JUMPS = (sympy.Piecewise, *(row.symbolic for row in _ROWS if row.smoothness < 1))
"""Classes in SymPy whose values may jump."""
KINKS = (sympy.Piecewise, *(row.symbolic for row in _ROWS if row.smoothness <= 1))
"""Classes in SymPy whose values or slopes may jump."""


Value = float | NDArray[np.float64]


def is_applied(expression: Any) -> bool:
    """Whether an expression is an unknown or an input, as a function of its arguments."""
    return isinstance(expression, AppliedUndef)


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
        return _evaluate(expr, lookup, {})


def _evaluate(expr: Any, lookup: Callable[[Expr], Value], known: dict[Any, Any]) -> Any:
    """Compute the value, and that of each part once."""
    if expr not in known:
        known[expr] = _compute(expr, lookup, known)
    return known[expr]


def _compute(expr: Any, lookup: Callable[[Expr], Value], known: dict[Any, Any]) -> Any:
    if expr.is_number:
        value = expr.evalf()
        return float(value) if value.is_extended_real else math.nan
    if expr.is_Symbol or expr.is_Derivative or is_applied(expr):
        return lookup(expr)
    if expr.is_Piecewise:
        result: Any = np.nan
        for value, test in reversed(expr.args):
            branch = _evaluate(value, lookup, known)
            met = True if test == sympy.true else _evaluate(test, lookup, known)
            result = np.where(met, branch, result)
        return result
    parts = [_evaluate(a, lookup, known) for a in expr.args]
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
