"""Dimensions of formulas: whether names and numbers can carry such that all terms agree.

A dimension is a product of powers of base dimensions, such as ``[length]``, of the size of its unit
(a kilometre is not a metre), and of unknown ones: those of names without a unit, and of each number
where it stands. Terms that are added, compared or equated agree, which is a linear equation between
exponents. Each is solved exactly when it is met; the first that contradicts those before is
refused, with its term. A factor that is not written is no number: it has no dimension.

All formulas have been parsed before, so they are known to be well formed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, cycle
from typing import Any, TypeAlias, final

from piop.expression import vector_calculus as calculus
from piop.expression.functions import FUNCTIONS
from piop.expression.parse import EQUALS, Scope, Walker, links, parse, read_tree
from piop.expression.text_checks import Refusal

Dimension: TypeAlias = "dict[str | int, Fraction]"
"""Exponents by base dimension (in brackets), by name without a unit, and by number of a literal."""
Dimensions: TypeAlias = "Dimension | tuple[Dimensions, ...]"
"""Of a scalar or, component by component, of a vector."""

SCALE = "[scale]"
"""Key of the size of a unit in base units, as a power of ten."""
_SAME_SCALE = 1e-6
_BASE_UNITS = {
    "[length]": "m",
    "[mass]": "kg",
    "[time]": "s",
    "[current]": "A",
    "[temperature]": "K",
    "[substance]": "mol",
    "[luminosity]": "cd",
}


def product(*factors: tuple[Dimension, Fraction | int]) -> Dimension:
    """Return the dimension of a product of powers."""
    found: Dimension = {}
    for dimension, exponent in factors:
        for key, n in dimension.items():
            found[key] = found.get(key, Fraction(0)) + n * exponent
    return {key: n for key, n in found.items() if n}


def _unknown(dimension: Dimension) -> list[str | int]:
    """The unknown dimensions in it; first the latest literal, on which the least depends."""
    keys = [key for key in dimension if isinstance(key, int) or not key.startswith("[")]
    return sorted(keys, key=lambda key: 1 if isinstance(key, str) else -key)


def _unit(dimension: Dimension) -> str:
    """A dimension as a unit, such as ``m^2/s`` or ``0.001 m``."""
    parts: tuple[list[str], list[str]] = [], []
    for key, n in sorted(dimension.items(), key=str):
        size = abs(n)
        exponent = "" if size == 1 else f"^{size}" if size.denominator == 1 else f"^({size})"
        if key != SCALE:
            parts[n < 0].append(_BASE_UNITS.get(str(key), str(key)) + exponent)
    unit = "/".join(["*".join(parts[0]) or "1", *parts[1]])
    scale = _size(dimension.get(SCALE, Fraction(0)))
    return unit if scale == "1" else f"{scale} {unit}".removesuffix(" 1")


def _size(power_of_ten: Fraction) -> str:
    """10 to the power as a number, such as ``0.001``, also beyond the range of doubles."""
    size = float(power_of_ten)
    return f"{10**size:g}" if abs(size) < 300 else f"1e{size:g}"


@final
@dataclass(frozen=True)
class Operand:
    """Part of a formula that must agree with others.

    Attributes:
        value: Its dimension.
        text: As it is written, or how messages call what has no text.
        offset: Where it stands in the formula; None without a text.
    """

    value: Dimensions
    text: str
    offset: int | None = None

    @property
    def shown(self) -> str:
        """How messages call it."""
        return self.text if self.offset is None else f"'{self.text}'"


@final
class DimensionSystem:
    """The equations between exponents that were met so far, solved."""

    def __init__(self) -> None:
        self._solved: dict[str | int, Dimension] = {}
        self._users: defaultdict[str | int, set[str | int]] = defaultdict(set)
        self._literals = count()

    def literal(self) -> Dimension:
        """Return the dimension of a number: a new unknown."""
        return {next(self._literals): Fraction(1)}

    def agree(self, terms: Sequence[Operand]) -> Dimensions:
        """Let all terms have the dimension of the first, and return it.

        Where the first is a scalar and others are vectors, all their components have it; where only
        the first is a vector, the others are the number zero.

        Raises:
            Refusal: If one cannot.
        """
        first, *others = terms
        for other in others:
            pairs = zip(cycle(_components(first.value)), _components(other.value), strict=False)
            for a, b in pairs:
                rest = self._reduced(product((a, 1), (b, -1)))
                if unknown := _unknown(rest):
                    self._solve(unknown[0], rest)
                elif rest.keys() - {SCALE} or abs(rest.get(SCALE, 0)) > _SAME_SCALE:
                    raise self._conflict(first, a, other, b)
        return next((t.value for t in terms if isinstance(t.value, tuple)), first.value)

    def _solve(self, key: str | int, rest: Dimension) -> None:
        """Let an unknown dimension be such that nothing of the rest, which has it, is left over."""
        self._solved[key] = product((rest, -1 / rest[key]), ({key: Fraction(1)}, 1))
        for user in (key, *self._users.pop(key, ())):
            self._solved[user] = found = self._reduced(self._solved[user])
            for unknown in _unknown(found):
                self._users[unknown].add(user)

    def _reduced(self, value: Dimension) -> Dimension:
        """A dimension with all that is known of its unknown ones put in."""
        return product(*((self._solved.get(k, {k: Fraction(1)}), n) for k, n in value.items()))

    def _conflict(self, first: Operand, a: Dimension, other: Operand, b: Dimension) -> Refusal:
        left, right = self._reduced(a), self._reduced(b)
        missing = product((left, 1), (right, -1))
        number = _size(-missing.pop(SCALE, Fraction(0)))
        factor = f" in {_unit(missing)}" if missing else ""
        if free := [key for key in _unknown(left) if isinstance(key, str)]:
            what = f"{other.shown} lacks a factor{factor} beside {first.shown}"
            what += f", whatever the unit of {' and '.join(map(str, free))}"
        else:
            units = [_unit(d) if d else "none" for d in (right, left)]
            what = f"the unit of {other.shown} is {units[0]}, that of {first.shown} {units[1]}"
        names = [key for key in {**a, **b} if isinstance(key, str) and key in self._solved]
        found = {name: self._reduced({name: Fraction(1)}) for name in names}
        if known := [f"{name} in {_unit(d)}" for name, d in found.items() if not _unknown(d)]:
            what += f" (with {', '.join(known)} from what comes before)"
        written = other.offset is not None
        example = f", as in {number}*{other.text}" if written else ""
        hint = f"Write the factor{factor} that is left out{example}, or correct the units."
        return Refusal(what, other.offset or 0, hint, placed=written)


def _times(a: Any, b: Any, exponent: int = 1) -> Any:
    """A product of which at most one factor is a vector, or a quotient by a scalar."""
    if isinstance(a, tuple):
        return tuple(_times(part, b, exponent) for part in a)
    return calculus.each(lambda part: product((a, 1), (part, exponent)), b)  # type: ignore[arg-type]


def _components(value: Dimensions) -> Iterator[Dimension]:
    if isinstance(value, tuple):
        for part in value:
            yield from _components(part)
    else:
        yield value


def read_terms(text: str, scope: Scope, numbers: Scope, system: DimensionSystem) -> list[Operand]:
    """Return the terms of an expression, or of both sides of an equation.

    Args:
        text: The formula.
        scope: Names, with dimensions for values.
        numbers: Parameters that are numbers, for exponents.
        system: Takes the equations that hold within the terms.

    Raises:
        Refusal: If parts of a term cannot agree.
    """
    found: list[Operand] = []
    start = 0
    for side in EQUALS.split(text):
        tree, offset = read_tree(side)
        found += _DimensionWalker(scope, start + offset, text, numbers, system).terms(tree, 0)
        start += len(side) + 1
    return found


class _DimensionWalker(Walker):
    """Reads dimensions where the base class reads expressions."""

    def __init__(
        self, scope: Scope, offset: int, text: str, numbers: Scope, system: DimensionSystem
    ) -> None:
        super().__init__(scope, offset)
        self.text, self.numbers, self.system = text, numbers, system

    def terms(self, node: ast.expr, depth: int) -> list[Operand]:
        """Return the terms of a sum, or the one that anything else is."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            return [self._term(part, depth) for _, part in links(node)]
        return [self._term(node, depth)]

    def _term(self, node: ast.expr, depth: int) -> Operand:
        text = self._source(node).lstrip("+- ")
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            text = f"({text})"
        value: Any = self.visit(node, depth)
        return Operand(value, text, node.col_offset + self.offset)

    def _source(self, node: ast.expr) -> str:
        return self.text[node.col_offset + self.offset : (node.end_col_offset or 0) + self.offset]

    def _visit(self, node: ast.expr, depth: int) -> Any:
        match node:
            case ast.Constant():
                return self.system.literal()
            case ast.UnaryOp(operand=operand):
                return self.visit(operand, depth)
            case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
                return self._power(base, exponent, depth)
        return super()._visit(node, depth)

    def _chain(self, node: ast.BinOp, depth: int) -> Any:
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return self.system.agree(self.terms(node, depth))
        result: Any = {}
        for operator, factor in links(node):
            sign = -1 if isinstance(operator, ast.Div) else 1
            result = _times(result, self.visit(factor, depth), sign)
        return result

    def _power(self, base: ast.expr, exponent: ast.expr, depth: int) -> Dimension:
        try:
            n: Any = parse(self._source(exponent), self.numbers)
        except Refusal:
            n = None
        if n is None or n.number is None:
            return self._pure(
                "a base or exponent where the exponent varies", [base, exponent], depth
            )
        value: Any = self.visit(base, depth)
        return product((value, Fraction(n.number).limit_denominator(1000)))

    def _pure(self, what: str, arguments: Sequence[ast.expr], depth: int) -> Dimension:
        """What takes and gives numbers, whose value may carry a dimension as a number may."""
        for argument in arguments:
            self.system.agree([Operand({}, what), self._term(argument, depth)])
        return self.system.literal()

    def _name(self, name: str) -> Any:
        return self.scope.values[name] if name in self.scope.values else self.system.literal()

    def _function(self, name: str, arguments: list[ast.expr], depth: int) -> Any:
        degree = FUNCTIONS[name].degree
        if degree is None:
            return self._pure(f"the argument of {name}", arguments, depth)
        value: Any = self.system.agree([self._term(a, depth) for a in arguments])
        return product((value, Fraction(degree))) if degree else self.system.literal()

    def _where(self, arguments: list[ast.expr], depth: int) -> Any:
        test: Any = arguments[0]
        self.system.agree([self._term(side, depth) for side in (test.left, test.comparators[0])])
        return self.system.agree([self._term(branch, depth) for branch in arguments[1:]])

    def _along(self, value: Any, names: tuple[str, ...]) -> Any:
        lengths: Any = [(self.scope.values[name], -1) for name in names]
        return calculus.each(lambda part: product((part, 1), *lengths), value)  # type: ignore

    def _calculus(self, name: str, arguments: list[ast.expr], depth: int) -> Any:
        values: list[Any] = [self.visit(argument, depth) for argument in arguments]
        value = values[0]
        axes = [axis.name for axis in self.scope.space]
        match name:
            case "dot":
                return self._dot(*values)
            case "grad":
                return tuple(self._along(value, (axis,)) for axis in axes)
            case "lap":
                return self._same(name, [self._along(value, (axis, axis)) for axis in axes])
            case "div":
                parts = zip(value, axes, strict=True)
                return self._same(name, [self._along(part, (axis,)) for part, axis in parts])
        turns = ((1, 2), (2, 0), (0, 1)) if len(axes) == 3 else ((0, 1),)
        if not isinstance(value, tuple):
            return self._along(value, (axes[1],)), self._along(value, (axes[0],))
        found = [
            self._same(name, [self._along(value[k], (axes[j],)), self._along(value[j], (axes[k],))])
            for j, k in turns
        ]
        return tuple(found) if len(axes) == 3 else found[0]

    def _dot(self, a: Any, b: Any) -> Any:
        if isinstance(a[0], tuple):
            return tuple(self._dot(row, b) for row in a)
        return self._same("dot", [_times(x, y) for x, y in zip(a, b, strict=True)])

    def _same(self, name: str, parts: list[Any]) -> Any:
        first, *others = parts
        rest = [Operand(part, f"another part of {name}") for part in others]
        return self.system.agree([Operand(first, f"one part of {name}"), *rest])
