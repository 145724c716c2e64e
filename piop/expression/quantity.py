"""Scalars and vectors under construction, each with an upper bound of what it may grow into.

Every operation checks its bound first and builds the SymPy object after, so a short text such as
``9**(16**7)`` or a tower of exponentials is refused instead of computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
from sympy import Expr, Rational, Symbol
from sympy.core.function import AppliedUndef

from piop.expression.functions import FUNCTIONS
from piop.expression.text_checks import (
    MAX_DEGREE,
    MAX_EXPONENT,
    MAX_NODES,
    MAX_ORDER,
    MAX_TERMS,
    Refusal,
)

_BITS = 1100  # of a numerator or denominator: a double's range


@dataclass(frozen=True, slots=True)
class Scalar:
    """A SymPy expression and bounds on its size.

    Attributes:
        expr: The expression.
        number: Its value if it is a constant, else None.
        nodes: Operations and operands.
        degree: Total degree in everything that is not a number.
        terms: Terms after expansion.
        growth: By how much a derivative multiplies the terms, less one.
    """

    expr: Expr
    number: float | None = None
    nodes: int = 1
    degree: int = 1
    terms: int = 1
    growth: int = 0


Quantity: TypeAlias = "Scalar | tuple[Quantity, ...]"

_KNOWN = {function.symbolic for function in FUNCTIONS.values()}


def symbol(expr: Expr) -> Scalar:
    """A name: a coordinate, an unknown, an input."""
    return Scalar(expr)


def number(value: float | str | Rational) -> Scalar:
    """A constant, kept exact: 0.001, 1e-3 and 1/1000 are the same rational number.

    Raises:
        Refusal: If it is not finite.
    """
    if isinstance(value, Rational):
        return _constant(value, float(value))
    approximate = float(value)
    _finite(approximate)
    return _constant(Rational(str(value)) if isinstance(value, (int, str)) else _exact(value))


def as_number(quantity: Quantity) -> float:
    """The value of a constant.

    Raises:
        Refusal: If it is a vector or depends on something.
    """
    if isinstance(quantity, tuple) or quantity.number is None:
        raise Refusal("a number is needed here")
    return quantity.number


def _exact(value: float) -> Any:
    return Rational(repr(float(value)))


def _constant(expr: Expr, value: float | None = None, nodes: int = 1) -> Scalar:
    value = float(expr) if value is None else value
    return Scalar(_tame(expr, value), value, nodes, 0, 1, 0)


def _tame(expr: Expr, value: float) -> Expr:
    if isinstance(expr, Rational) and max(expr.p.bit_length(), expr.q.bit_length()) > _BITS:
        return _exact(value)
    return expr


def _finite(value: float | complex) -> float:
    if isinstance(value, complex):
        raise Refusal("a constant that is not a real number")
    if not math.isfinite(value):
        raise Refusal("a number too large to be finite")
    return value


def _bounded(result: Scalar) -> Scalar:
    if result.nodes > MAX_NODES:
        raise Refusal(f"more than {MAX_NODES} operations and operands")
    if result.degree > MAX_DEGREE:
        raise Refusal(f"a total degree of {result.degree}; at most {MAX_DEGREE} is allowed")
    if result.terms > MAX_TERMS:
        raise Refusal(f"expands into more than {MAX_TERMS} terms")
    return result


def add(parts: Sequence[Scalar]) -> Scalar:
    """The sum."""
    nodes = sum(p.nodes for p in parts) + 1
    numbers = [p.number for p in parts if p.number is not None]
    if len(numbers) == len(parts):
        value = _finite(sum(numbers))
        return _bounded(_constant(sympy.Add(*[p.expr for p in parts]), value, nodes))
    bound = _bounded(
        Scalar(
            sympy.S.Zero,
            None,
            nodes,
            max(p.degree for p in parts),
            sum(p.terms for p in parts),
            max(p.growth for p in parts),
        )
    )
    return _with(bound, sympy.Add(*[p.expr for p in parts]))


def _foreign(expr: Expr) -> bool:
    """Whether SymPy brought in a function that the language does not have."""
    return any(
        not isinstance(f, (AppliedUndef, sympy.Piecewise)) and f.func not in _KNOWN
        for f in expr.atoms(sympy.Function)
    )


def _with(bound: Scalar, expr: Expr) -> Scalar:
    if expr.has(sympy.I) or _foreign(expr):
        raise Refusal("this is not a real expression")
    if expr.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
        raise Refusal("this is not finite")
    if expr.is_number:  # something cancelled: x - x
        return _constant(expr, None, bound.nodes)
    return Scalar(expr, None, bound.nodes, bound.degree, bound.terms, bound.growth)


def negate(a: Scalar) -> Scalar:
    """Minus a."""
    return multiply(number(-1), a)


def multiply(a: Scalar, b: Scalar) -> Scalar:
    """The product of two scalars."""
    nodes = a.nodes + b.nodes + 1
    if a.number is not None and b.number is not None:
        return _bounded(_constant(a.expr * b.expr, _finite(a.number * b.number), nodes))
    nonlinear = a.number is None and b.number is None
    growth = a.growth + b.growth + nonlinear
    bound = Scalar(a.expr, None, nodes, a.degree + b.degree, a.terms * b.terms, growth)
    return _with(_bounded(bound), a.expr * b.expr)


def divide(a: Scalar, b: Scalar) -> Scalar:
    """The quotient.

    Raises:
        Refusal: On division by zero, among the bounds of any operation.
    """
    if b.number == 0:
        raise Refusal("division by zero")
    return multiply(a, power(b, number(-1)))


def power(base: Scalar, exponent: Scalar) -> Scalar:
    """base**exponent, with a constant exponent of magnitude at most 16 or any other expression."""
    nodes = base.nodes + exponent.nodes + 1
    n = exponent.number
    if n is None:
        growth = base.growth + exponent.growth + base.terms + exponent.terms
        bound = Scalar(base.expr, None, nodes, base.degree + exponent.degree, 1, growth)
        return _with(_bounded(bound), base.expr**exponent.expr)
    if abs(n) > MAX_EXPONENT:
        raise Refusal(f"an exponent of {n:g}; at most {MAX_EXPONENT} in magnitude is allowed")
    if base.number is not None:
        value = _number_power(base.number, n)
        exact = isinstance(exponent.expr, sympy.Integer) or (
            isinstance(base.expr, Rational)
            and isinstance(exponent.expr, Rational)
            and max(base.expr.p.bit_length(), base.expr.q.bit_length()) < 64
        )
        expr = base.expr**exponent.expr if exact else _exact(value)
        return _bounded(_constant(expr, value, nodes))
    whole = int(n) if n == int(n) and n > 0 else 0
    terms = math.comb(base.terms + whole - 1, whole) if whole else 1
    degree = math.ceil(abs(n) * base.degree)
    growth = base.growth + (base.terms if n != 1 else 0)
    bound = _bounded(Scalar(base.expr, None, nodes, degree, terms, growth))
    if isinstance(base.expr, sympy.Piecewise):  # SymPy would raise every branch, and its conditions
        return _with(bound, sympy.Pow(base.expr, exponent.expr, evaluate=False))
    return _with(bound, base.expr**exponent.expr)


def _number_power(base: float, exponent: float) -> float:
    try:
        return _finite(base**exponent)
    except ZeroDivisionError:
        raise Refusal("division by zero") from None
    except OverflowError:
        raise Refusal("a number too large to be finite") from None


def apply(name: str, arguments: Sequence[Scalar]) -> Scalar:
    """A function of the table applied to scalars."""
    function = FUNCTIONS[name]
    symbolic, numeric = function.symbolic, function.number
    nodes = sum(a.nodes for a in arguments) + 1
    exprs = [a.expr for a in arguments]
    build = (
        (lambda: symbolic(*exprs, evaluate=False))
        if function.variadic
        else (lambda: symbolic(*exprs))
    )
    numbers = [a.number for a in arguments]
    if numeric is not None and all(n is not None for n in numbers):
        try:
            value = _finite(float(numeric(*numbers)))
        except (OverflowError, ValueError):
            raise Refusal(f"{name} of this number is not a finite real number") from None
        if function.variadic:
            return _bounded(_constant(exprs[numbers.index(value)], value, nodes))
        return _bounded(_constant(build(), value, nodes))
    growth = sum(a.growth + a.terms for a in arguments)
    bound = _bounded(Scalar(exprs[0], None, nodes, max(a.degree for a in arguments), 1, growth))
    built = build()
    if _foreign(built):  # such as re and atan2: SymPy cannot tell that the argument is real; it is
        built = symbolic(*exprs, evaluate=False)
    result = _with(bound, built)
    if isinstance(result.expr, sympy.Pow) and name == "exp":  # exp(99*log(u)) is u**99
        exponent = result.expr.exp
        if exponent.is_number and abs(float(exponent)) > MAX_EXPONENT:
            raise Refusal(f"an exponent of {float(exponent):g}; at most {MAX_EXPONENT} is allowed")
    return result


def choose(condition: tuple[type, Scalar, Scalar], then: Scalar, other: Scalar) -> Scalar:
    """``where(a < b, then, other)`` as a Piecewise."""
    relation, left, right = condition
    parts = (left, right, then, other)
    if left.expr.has(sympy.Piecewise) or right.expr.has(sympy.Piecewise):
        raise Refusal("where inside the comparison of another where")
    if left.number is not None and right.number is not None:
        return then if relation(sympy.Float(left.number), sympy.Float(right.number)) else other
    bound = Scalar(
        then.expr,
        None,
        sum(p.nodes for p in parts) + 2,
        max(p.degree for p in parts),
        then.terms + other.terms,
        sum(p.growth for p in parts) + 1,
    )
    test = relation(left.expr, right.expr, evaluate=False)
    _bounded(bound)
    branches = (then.expr, test), (other.expr, sympy.true)
    return Scalar(sympy.Piecewise(*branches, evaluate=False), None, *_sizes(bound))


def _sizes(bound: Scalar) -> tuple[int, int, int, int]:
    return bound.nodes, bound.degree, bound.terms, bound.growth


def derive(a: Scalar, coordinates: Sequence[Symbol]) -> Scalar:
    """The derivative, left unevaluated so that flux forms survive."""
    if a.number is not None:
        return number(0)
    inner = a.expr.derivative_count if isinstance(a.expr, sympy.Derivative) else 0
    if inner + len(coordinates) > MAX_ORDER:
        raise Refusal(f"a derivative of order above {MAX_ORDER}")
    growth = (1 + a.growth) ** len(coordinates)
    after = a.growth + len(coordinates) if a.growth else 0
    bound = Scalar(a.expr, None, a.nodes + 1, a.degree, a.terms * growth, after)
    if bound.terms > MAX_TERMS:
        raise Refusal(f"a derivative that expands into more than {MAX_TERMS} terms")
    return _with(_bounded(bound), merge(a.expr, coordinates))


def merge(expr: Any, coordinates: Sequence[Expr]) -> Expr:
    """The derivative of an expression; that of a derivative becomes one, in one canonical order."""
    if isinstance(expr, sympy.Derivative):
        coordinates = [*expr.variables, *coordinates]
        expr = expr.expr
    return sympy.Derivative(expr, *sorted(coordinates, key=str))
