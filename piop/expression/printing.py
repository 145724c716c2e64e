"""SymPy to the text of the spec language: one canonical text per expression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import sympy
from sympy import Expr

from piop.expression.functions import BY_SYMBOL, RELATIONS, is_applied

_BITS = 10_000  # of a whole number, of which Python writes out no more than 4300 digits
_ATOM, _POWER, _PRODUCT, _SUM = 4, 3, 2, 1


def write(expr: Expr, names: Mapping[Expr, str] | None = None) -> str:
    """The canonical text of an expression, which parses back to it.

    Sums and products are sorted by their text, so the result does not depend on the order in which
    an expression was built. Floating-point numbers become the exact decimal that prints the same.

    Args:
        expr: Made of the spec language's operations.
        names: Sub-expressions to be written as a name.

    Raises:
        TypeError: For a SymPy object that the language has no word for.
    """
    return _write(sympy.sympify(expr, strict=True), names or {})[0]


def _write(expr: Any, names: Mapping[Expr, str]) -> tuple[str, int]:
    if expr in names:
        return names[expr], _ATOM
    if expr.is_Symbol or is_applied(expr):
        return str(expr.name), _ATOM
    if expr.is_Float:
        return _write(sympy.Rational(repr(float(expr))), names)
    if expr.is_Rational:
        return _rational(expr)
    if expr is sympy.pi:
        return "pi", _ATOM
    if expr is sympy.E:
        return "exp(1)", _ATOM
    if expr.is_Add:
        return _sum([_write(a, names) for a in expr.args]), _SUM
    if expr.is_Mul:
        return _product(expr, names), _PRODUCT
    if expr.is_Pow:
        base, exponent = (_write(a, names) for a in expr.args)  # type: ignore[arg-type]
        return f"{_wrap(base, _ATOM)}**{_wrap(exponent, _ATOM)}", _POWER
    return _call(expr, names), _ATOM


def _call(expr: Expr, names: Mapping[Expr, str]) -> str:
    if isinstance(expr, sympy.Derivative):
        parts = [_write(expr.expr, names)[0]]
        for variable, count in sorted(Counter(map(str, expr.variables)).items()):
            parts += [variable] + ([str(count)] if count != 1 else [])
        return f"d({', '.join(parts)})"
    if isinstance(expr, sympy.Piecewise):
        return _where(expr, names)
    function = BY_SYMBOL.get(expr.func)
    if function is not None and function.word is not None:
        arguments = [_write(a, names)[0] for a in expr.args]
        if function.variadic:
            arguments.sort()
        return f"{function.word}({', '.join(arguments)})"
    raise TypeError(f"{type(expr).__name__} is not part of the spec language: {expr}")


def _where(expr: Any, names: Mapping[Expr, str]) -> str:
    *cases, (last, condition) = expr.args
    if condition != sympy.true:
        raise TypeError(f"a Piecewise needs a last branch for all other cases: {expr}")
    text = _write(last, names)[0]  # type: ignore[arg-type]
    for value, test in reversed(cases):  # type: ignore[misc]
        if test.func not in RELATIONS:
            raise TypeError(f"a Piecewise compares two values with <, <=, >, >=: {test}")
        left, right = (_write(a, names)[0] for a in test.args)
        then = _write(value, names)[0]  # type: ignore[arg-type]
        text = f"where({left} {RELATIONS[test.func].word} {right}, {then}, {text})"
    return text


def _wrap(part: tuple[str, int], least: int) -> str:
    return part[0] if part[1] >= least else f"({part[0]})"


def _rational(expr: Expr) -> tuple[str, int]:
    p, q = expr.p, expr.q  # type: ignore[attr-defined]
    if max(abs(p), q).bit_length() > _BITS:
        raise TypeError("a number of more than 3000 digits")
    text = str(p) if q == 1 else f"{p}/{q}"
    if p < 0:
        return text, _SUM
    return (text, _ATOM) if q == 1 else (text, _PRODUCT)


def _sum(parts: list[tuple[str, int]]) -> str:
    texts = sorted(p[0] for p in parts)
    texts.sort(key=lambda text: text.startswith("-"))
    return "".join(texts[:1]) + "".join(
        f" - {t[1:]}" if t.startswith("-") else f" + {t}" for t in texts[1:]
    )


def _product(expr: Expr, names: Mapping[Expr, str]) -> str:
    coefficient, rest = expr.as_coeff_Mul()
    factors = sorted(_wrap(_write(f, names), _POWER) for f in sympy.Mul.make_args(rest))  # type: ignore[arg-type]
    if coefficient is sympy.S.One:
        return "*".join(factors)
    if coefficient is sympy.S.NegativeOne:
        return "-" + "*".join(factors)
    number = _write(coefficient, names)
    return "*".join([number[0], *factors])
