"""Scalars and vectors under construction, each with an upper bound of what it may grow into.

Every operation checks its bound first and builds the SymPy object after, so a short text such as
``9**(16**7)`` or a tower of exponentials is refused instead of computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import sympy
from sympy import Expr, Rational, Symbol

from piop.expression.functions import FUNCTIONS, is_applied
from piop.expression.text_checks import (
    MAX_DEGREE,
    MAX_EXPONENT,
    MAX_NESTING,
    MAX_NODES,
    MAX_ORDER,
    MAX_TERMS,
    Refusal,
)

_BITS = 1100  # of a numerator or denominator: a double's range


@dataclass(frozen=True, slots=True)
class Scalar:
    """A SymPy expression and bounds on its size, by default those of a declared name.

    Attributes:
        expr: The expression.
        number: Its value if it is a constant, else None.
        nodes: Operations and operands.
        degree: Total degree in everything that is not a number.
        terms: Terms after expansion.
        growth: By how much a derivative multiplies the terms, less one.
        nesting: How deep functions, roots and other powers stand inside of each other.
    """

    expr: Expr
    number: float | None = None
    nodes: int = 1
    degree: int = 1
    terms: int = 1
    growth: int = 0
    nesting: int = 0


Quantity: TypeAlias = "Scalar | tuple[Quantity, ...]"

_KNOWN = {function.symbolic for function in FUNCTIONS.values()}


def number(value: float | str | Rational) -> Scalar:
    """A constant, kept exact: 0.001, 1e-3 and 1/1000 are the same rational number.

    Raises:
        Refusal: If it is not finite.
    """
    try:
        _finite(float(value))
    except OverflowError:
        raise Refusal("a number too large to be finite") from None
    return _constant(value if isinstance(value, Rational) else Rational(str(value)))


def as_number(quantity: Quantity) -> float:
    """The value of a constant.

    Raises:
        Refusal: If it is a vector or depends on something.
    """
    if isinstance(quantity, tuple) or quantity.number is None:
        raise Refusal("a number is needed here")
    return quantity.number


def _constant(expr: Expr, value: float | None = None, nodes: int = 1) -> Scalar:
    """A constant of bounded size, rounded to a double where it is a longer fraction."""
    value = float(expr) if value is None else value
    return _bounded(Scalar(_rounded(expr, value), value, nodes, 0, 1, 0))


def _rounded(expr: Expr, value: float) -> Expr:
    """A constant; its value as a double where it is a longer fraction."""
    return Rational(repr(value)) if expr.is_Rational and _bits(expr) > _BITS else expr


def _bits(expr: Any) -> int:
    return max(expr.p.bit_length(), expr.q.bit_length())


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
    if result.nesting > MAX_NESTING:
        raise Refusal(
            f"functions inside of functions, {result.nesting} deep; at most {MAX_NESTING}"
        )
    return result


def _build(
    make: Callable[[], Expr],
    parts: Sequence[Scalar],
    degree: int,
    terms: int,
    growth: int,
    nested: bool = False,
) -> Scalar:
    """Check the bounds of an expression of parts, then make it."""
    nodes, nesting = sum(p.nodes for p in parts) + 1, max(p.nesting for p in parts) + nested
    bound = _bounded(Scalar(sympy.S.Zero, None, nodes, degree, terms, growth, nesting))
    expr = make()
    if why := "not a real expression" if _foreign(expr) else no_number(expr):
        raise Refusal(f"this is {why}")
    if expr.is_number:  # something cancelled: x - x
        return _constant(expr, None, nodes)
    return replace(bound, expr=_shortened(expr))


def no_number(expr: Expr) -> str:
    """Why an expression has no values that are finite real numbers; empty where it has."""
    if expr.has(sympy.I):
        return "not a real expression"
    return "not finite" if expr.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo) else ""


def _shortened(expr: Any) -> Expr:
    """Round the constants of an expression that are longer fractions to doubles."""
    long = [c for c in expr.atoms(Rational) if _bits(c) > _BITS]
    return expr.xreplace({c: _rounded(c, _finite(float(c))) for c in long}) if long else expr


def _foreign(expr: Expr) -> bool:
    """Whether SymPy brought in a function that the language does not have."""
    functions = expr.atoms(sympy.Function)
    return any(not (is_applied(f) or f.is_Piecewise or f.func in _KNOWN) for f in functions)


def add(parts: Sequence[Scalar]) -> Scalar:
    """The sum."""
    nodes = sum(p.nodes for p in parts) + 1
    exprs = [p.expr for p in parts]
    numbers = [p.number for p in parts if p.number is not None]
    if len(numbers) == len(parts):
        return _constant(sympy.Add(*exprs), _finite(sum(numbers)), nodes)
    degree, growth = max(p.degree for p in parts), max(p.growth for p in parts)
    return _build(lambda: sympy.Add(*exprs), parts, degree, sum(p.terms for p in parts), growth)


def negate(a: Scalar) -> Scalar:
    """Minus a."""
    return multiply(number(-1), a)


def multiply(a: Scalar, b: Scalar) -> Scalar:
    """The product of two scalars."""
    nodes = a.nodes + b.nodes + 1
    if a.number is not None and b.number is not None:
        return _constant(a.expr * b.expr, _finite(a.number * b.number), nodes)
    growth = a.growth + b.growth + (a.number is None and b.number is None)
    return _build(lambda: a.expr * b.expr, (a, b), a.degree + b.degree, a.terms * b.terms, growth)


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
        degree = base.degree + exponent.degree
        make = partial(sympy.Pow, base.expr, exponent.expr)
        return _build(make, (base, exponent), degree, 1, growth, nested=True)
    if abs(n) > MAX_EXPONENT:
        raise Refusal(f"an exponent of {n:g}; at most {MAX_EXPONENT} in magnitude is allowed")
    if base.number is not None:
        return _constant(*_constant_power(base.expr, base.number, exponent.expr, n), nodes)
    whole = int(n) if n == int(n) and n > 0 else 0
    terms = math.comb(base.terms + whole - 1, whole) if whole else 1
    growth = base.growth + (base.terms if n != 1 else 0)
    evaluate = not base.expr.is_Piecewise  # SymPy would raise every branch, and its conditions
    if not evaluate:  # but does so later
        branches: Any = base.expr.args
        for branch, _ in branches:
            _shortened(sympy.Pow(branch, exponent.expr))
    make = partial(sympy.Pow, base.expr, exponent.expr, evaluate=evaluate)
    degree = math.ceil(abs(n) * base.degree)
    return _build(make, (base, exponent), degree, terms, growth, nested=n != int(n))


def _constant_power(base: Expr, value: float, exponent: Expr, n: float) -> tuple[Expr, float]:
    """The power of two constants, exact where it is short, and its value."""
    try:
        found = _finite(value**n)
    except ZeroDivisionError:
        raise Refusal("division by zero") from None
    except OverflowError:
        raise Refusal("a number too large to be finite") from None
    small = exponent.is_Rational and base.is_Rational and _bits(base) < 64
    return (base**exponent if exponent.is_Integer or small else Rational(repr(found))), found


def apply(name: str, arguments: Sequence[Scalar]) -> Scalar:
    """A function of the table applied to scalars."""
    function = FUNCTIONS[name]
    nodes = sum(a.nodes for a in arguments) + 1
    exprs = [a.expr for a in arguments]
    numbers = [a.number for a in arguments]
    if function.number is not None and all(n is not None for n in numbers):
        try:
            value = _finite(float(function.number(*numbers)))
        except (OverflowError, ValueError):
            raise Refusal(f"{name} of this number is not a finite real number") from None
        chosen = exprs[numbers.index(value)] if function.variadic else function.symbolic(*exprs)
        return _constant(chosen, value, nodes)

    def make() -> Expr:
        if not function.variadic:
            built = function.symbolic(*exprs)
            if not _foreign(built):
                return built
        # re and atan2 are foreign: SymPy cannot tell that the argument is real; it is
        return function.symbolic(*exprs, evaluate=False)

    growth = sum(a.growth + a.terms for a in arguments)
    result = _build(make, arguments, max(a.degree for a in arguments), 1, growth, nested=True)
    if result.expr.is_Pow and name == "exp":  # exp(99*log(u)) is u**99
        exponent: Any = result.expr.args[1]
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
    branches = (then.expr, relation(left.expr, right.expr, evaluate=False)), (other.expr, True)
    return _build(
        lambda: sympy.Piecewise(*branches, evaluate=False),
        parts,
        max(p.degree for p in parts),
        then.terms + other.terms,
        sum(p.growth for p in parts) + 1,
    )


def derive(a: Scalar, coordinates: Sequence[Symbol]) -> Scalar:
    """The derivative, left unevaluated so that flux forms survive."""
    if a.number is not None:
        return number(0)
    expr: Any = a.expr
    inner = expr.derivative_count if expr.is_Derivative else 0
    if inner + len(coordinates) > MAX_ORDER:
        raise Refusal(f"a derivative of order above {MAX_ORDER}")
    terms = a.terms * (1 + a.growth) ** len(coordinates)
    after = a.growth + len(coordinates) if a.growth else 0
    if terms > MAX_TERMS:
        raise Refusal(f"a derivative that expands into more than {MAX_TERMS} terms")
    return _build(lambda: merge(expr, coordinates), (a,), a.degree, terms, after)


def merge(expr: Any, coordinates: Sequence[Expr]) -> Expr:
    """The derivative of an expression; that of a derivative becomes one, in one canonical order.

    That of an input along a coordinate on which it does not depend is zero.
    """
    if expr.is_Derivative:
        coordinates = [*expr.variables, *coordinates]
        expr = expr.expr
    if is_applied(expr) and not expr.free_symbols.issuperset(coordinates):
        return sympy.S.Zero
    return sympy.Derivative(expr, *sorted(coordinates, key=str))
