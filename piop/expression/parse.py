"""Walk the syntax tree of a formula against a whitelist."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import sympy
from sympy import Symbol

from piop.errors import did_you_mean
from piop.expression import quantity as q
from piop.expression import vector_calculus as calculus
from piop.expression.functions import BY_SYNTAX, FUNCTIONS
from piop.expression.quantity import Quantity, Scalar
from piop.expression.text_checks import MAX_DEPTH, MAX_NODES, Refusal, check_text

_VECTOR = ("grad", "div", "lap", "curl", "dot")
EQUALS = re.compile(r"(?<![<>=!])=(?!=)")
"""The sign between the two sides of an equation."""
SYMPY_FAILS = (
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that SymPy raises on nonsense such as the comparison of an infinite value."""

RESERVED = frozenset({*FUNCTIONS, *_VECTOR, "where", "pi", "d", *keyword.kwlist})
"""Names that no spec may declare, besides the short derivatives of its coordinates."""

_FORBIDDEN = {
    ast.Attribute: "a '.' after a name",
    ast.Subscript: "square brackets",
    ast.Lambda: "lambda",
    ast.BoolOp: "'and' and 'or'",
    ast.IfExp: "if … else (use where(a < b, p, q))",
    ast.List: "a list (a vector is written in parentheses)",
    ast.Starred: "'*' before a name",
}


@dataclass(frozen=True)
class Scope:
    """The names a formula may use.

    Attributes:
        values: Declared names and what they stand for.
        coordinates: Coordinates, time first where there is one.
        space: Those of them that are space.
        broken: Names whose declaration was refused already; using them raises a silent refusal.
        used: Collects the names that were looked up, other than coordinates of derivatives.
        elsewhere: Declared names that have no meaning here, and why.
    """

    values: Mapping[str, Quantity]
    coordinates: Mapping[str, Symbol] = field(default_factory=dict)
    space: tuple[Symbol, ...] = ()
    broken: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set, compare=False)
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def parse(text: str, scope: Scope) -> Quantity:
    """Read one expression.

    Args:
        text: A formula of the spec language, at most 2 kB of ASCII.
        scope: The names it may use.

    Returns:
        A scalar, or a tuple for a vector.

    Raises:
        Refusal: With the offset of the part that cannot be used.
    """
    tree, start = read_tree(text)
    return Walker(scope, start).visit(tree, 0)


def read_tree(text: str) -> tuple[ast.expr, int]:
    """Read the syntax tree of one expression, and where in the text it starts.

    Raises:
        Refusal: If it is no expression, or one that is too large.
    """
    check_text(text)
    flat = text.replace("\n", " ").replace("\t", " ")
    start = len(flat) - len(flat.lstrip())
    _refuse_equals(flat)
    try:
        tree = ast.parse(flat[start:], mode="eval").body
    except SyntaxError as error:
        offset = min(start + max(0, (error.offset or 1) - 1), len(flat) - 1)
        if "leading zeros" in error.msg:
            raise Refusal("a number with leading zeros", offset) from None
        raise Refusal("this is not an expression that can be read", offset) from None
    except (ValueError, MemoryError, RecursionError):
        raise Refusal("an expression that is too deep or too large to read", start) from None
    count = sum(1 for node in ast.walk(tree) if isinstance(node, ast.expr))
    if count > MAX_NODES:
        raise Refusal(f"{count} operations and operands; at most {MAX_NODES} are allowed", start)
    return tree, start


def parse_equation(text: str, scope: Scope) -> tuple[Quantity, Quantity]:
    """Read ``left = right``.

    Raises:
        Refusal: Unless there is exactly one ``=`` and both sides have the same shape.
    """
    signs = [match.start() for match in EQUALS.finditer(text)]
    if len(signs) != 1:
        place = signs[1] if signs else 0
        hint = "" if signs else "Write 'left = right'."
        raise Refusal(f"an equation has exactly one '='; this has {len(signs)}", place, hint)
    left = parse(text[: signs[0]], scope)
    try:
        right = parse(text[signs[0] + 1 :], scope)
    except Refusal as refusal:
        raise Refusal(refusal.message, refusal.offset + signs[0] + 1, refusal.hint) from None
    if calculus.kind(left) != calculus.kind(right):
        if isinstance(right, Scalar) and right.number == 0:
            return left, calculus.each(lambda _: right, left)
        message = f"the left side is {calculus.kind(left)}, the right side {calculus.kind(right)}"
        raise Refusal(message, signs[0])
    return left, right


def short_derivative(name: str, coordinates: Iterable[str]) -> tuple[str, ...] | None:
    """``dxxy`` to ``("x", "x", "y")``; None if it is no short derivative up to order four."""
    choices = (along for n in range(1, 5) for along in product(coordinates, repeat=n))
    found = {tuple(sorted(along)) for along in choices if name == "d" + "".join(along)}
    return found.pop() if len(found) == 1 else None


def links(node: ast.BinOp) -> list[tuple[ast.operator | None, ast.expr]]:
    """Return the operands of a run of + and -, or of * and /, each with the operator before it."""
    sums = isinstance(node.op, (ast.Add, ast.Sub))
    group = (ast.Add, ast.Sub) if sums else (ast.Mult, ast.Div)
    found: list[tuple[ast.operator | None, ast.expr]] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp) and isinstance(first.op, group):
        found.append((first.op, first.right))
        first = first.left
    return [(None, first), *reversed(found)]


def _refuse_equals(text: str) -> None:
    if match := re.search(r"[=!]=|=", re.sub(r"[<>]=", "  ", text)):
        hint = "A comparison is one of <, <=, >, >=." if len(match.group()) == 2 else ""
        raise Refusal(f"{match.group()!r} in an expression", match.start(), hint)


class Walker:
    """One walk over one formula; ``offset`` is where its text starts in what the user wrote."""

    def __init__(self, scope: Scope, offset: int) -> None:
        self.scope, self.offset = scope, offset

    def visit(self, node: ast.expr, depth: int) -> Quantity:
        """Return what a part of the formula stands for, which is ``depth`` levels down."""
        if depth > MAX_DEPTH:
            raise self._refuse(node, f"an expression deeper than {MAX_DEPTH} levels")
        try:
            return self._visit(node, depth + 1)
        except Refusal as refusal:
            if not refusal.placed:
                refusal.offset, refusal.placed = node.col_offset + self.offset, True
            raise
        except SYMPY_FAILS:
            raise self._refuse(node, "this has no meaning as a formula") from None

    def _refuse(self, node: ast.expr, message: str) -> Refusal:
        return Refusal(message, node.col_offset + self.offset, placed=True)

    def _visit(self, node: ast.expr, depth: int) -> Quantity:
        match node:
            case ast.Constant(value=value):
                if type(value) not in (int, float):
                    raise Refusal(f"{value!r} is not allowed in an expression")
                return q.number(value)  # type: ignore[arg-type]
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return calculus.each(q.negate, self.visit(operand, depth))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand, depth)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                return self._chain(node, depth)
            case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
                below = calculus.scalar(self.visit(base, depth), "a power")
                return q.power(below, calculus.scalar(self.visit(exponent, depth), "an exponent"))
            case ast.Tuple(elts=elements):
                return self._vector(elements, depth)
            case ast.Call():
                return self._call(node, depth)
            case ast.Compare():
                raise Refusal("a comparison outside where(a < b, p, q)")
        raise Refusal(f"{_FORBIDDEN.get(type(node), 'this')} is not allowed in an expression")

    def _chain(self, node: ast.BinOp, depth: int) -> Quantity:
        """A run of + and -, or of * and /, is one level however long it is."""
        (_, first), *others = links(node)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            parts = [self.visit(first, depth)]
            for operator, part in others:
                value = self.visit(part, depth)
                minus = isinstance(operator, ast.Sub)
                parts.append(calculus.each(q.negate, value) if minus else value)
            return calculus.add(parts)
        result = self.visit(first, depth)
        for operator, factor in others:
            operate = calculus.multiply if isinstance(operator, ast.Mult) else calculus.divide
            result = operate(result, self.visit(factor, depth))
        return result

    def _vector(self, elements: list[ast.expr], depth: int) -> Quantity:
        if not elements:
            raise Refusal("an empty vector")
        parts = tuple(self.visit(e, depth) for e in elements)
        if len({calculus.kind(p) for p in parts}) > 1 or calculus.rank(parts) > 2:
            raise Refusal("a vector needs components of one kind")
        return parts

    def _name(self, name: str) -> Quantity:
        if name in self.scope.values:
            self.scope.used.add(name)
            return self.scope.values[name]
        if name in self.scope.broken:
            raise Refusal("", placed=True)
        if name == "pi":
            return Scalar(sympy.pi, float(sympy.pi), 1, 0, 1, 0)
        if name in FUNCTIONS or name in _VECTOR or name in ("where", "d"):
            raise Refusal(f"'{name}' is a function and needs arguments in parentheses")
        if name in self.scope.elsewhere:
            raise Refusal(f"'{name}' {self.scope.elsewhere[name]}", declared=True)
        known = [*self.scope.values, *FUNCTIONS, *_VECTOR, "where", "pi"]
        hint = "Write exp(1)." if name in ("E", "e") else did_you_mean(name, known)
        raise Refusal(f"'{name}' is not declared", 0, self._as_derivative(name) or hint)

    def _as_derivative(self, name: str) -> str:
        """How to write ``u_xx``; empty for any other name."""
        unknown, _, along = name.rpartition("_")
        short = f"d{along}"
        if unknown in self.scope.values and short_derivative(short, self.scope.coordinates):
            return f"Write {short}({unknown})."
        return ""

    def _call(self, node: ast.Call, depth: int) -> Quantity:
        if not isinstance(node.func, ast.Name):
            raise Refusal("only a named function can be called")
        name = node.func.id
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise Refusal(f"{name} takes plain arguments only")
        if name in self.scope.values:
            self.scope.used.add(name)
            raise Refusal(f"'{name}' is written without arguments", 0, f"Write '{name}'.")
        if name == "where":
            return self._where(node.args, depth)
        if name == "d":
            return self._derivative(node.args, depth)
        if name in FUNCTIONS:
            return self._function(name, node.args, depth)
        if name in _VECTOR:
            return self._calculus(name, node.args, depth)
        along = short_derivative(name, self.scope.coordinates)
        if along is None:
            shorts = [f"d{c}" for c in self.scope.coordinates]
            known = [*FUNCTIONS, *_VECTOR, "where", "d", *shorts, *(s + s[1:] for s in shorts)]
            raise Refusal(f"'{name}' is not a function", 0, did_you_mean(name, known))
        self._arity(name, node.args, 1)
        return self._along(self.visit(node.args[0], depth), along)

    def _arity(self, name: str, arguments: list[ast.expr], count: int) -> None:
        if len(arguments) != count:
            plural = "s" if count > 1 else ""
            raise Refusal(f"{name} takes {count} argument{plural}; {len(arguments)} given")

    def _function(self, name: str, arguments: list[ast.expr], depth: int) -> Quantity:
        if FUNCTIONS[name].variadic:
            if len(arguments) < 2:
                raise Refusal(f"{name} takes two or more arguments")
        else:
            self._arity(name, arguments, 1)
        return q.apply(name, [calculus.scalar(self.visit(a, depth), name) for a in arguments])

    def _calculus(self, name: str, arguments: list[ast.expr], depth: int) -> Quantity:
        self._arity(name, arguments, 2 if name == "dot" else 1)
        values = [self.visit(a, depth) for a in arguments]
        if name == "dot":
            return calculus.dot(*values)
        if not self.scope.space:
            raise Refusal(f"{name} needs space coordinates")
        return getattr(calculus, name)(values[0], self.scope.space)

    def _where(self, arguments: list[ast.expr], depth: int) -> Quantity:
        self._arity("where", arguments, 3)
        test = arguments[0]
        if not (isinstance(test, ast.Compare) and type(test.ops[0]) in BY_SYNTAX):
            raise self._refuse(test, "where needs a comparison (<, <=, >, >=) first")
        if len(test.ops) > 1:
            raise self._refuse(test, "where compares two values; this compares more")
        left, right = (
            calculus.scalar(self.visit(s, depth), "a comparison")
            for s in (test.left, test.comparators[0])
        )
        then, other = (calculus.scalar(self.visit(a, depth), "where") for a in arguments[1:])
        return q.choose((BY_SYNTAX[type(test.ops[0])].symbolic, left, right), then, other)

    def _derivative(self, arguments: list[ast.expr], depth: int) -> Quantity:
        if len(arguments) < 2:
            raise Refusal("d takes an expression and coordinates, as in d(u, x, 2)")
        along: list[str] = []
        for node in arguments[1:]:
            match node:
                case ast.Name(id=name) if name in self.scope.coordinates:
                    along.append(name)
                case ast.Constant(value=n) if type(n) is int and along and 1 <= n <= 8:
                    along += [along[-1]] * (n - 1)
                case _:
                    names = ", ".join(self.scope.coordinates) or "none is declared"
                    message = f"d needs a coordinate ({names}) or an order up to 8 here"
                    raise self._refuse(node, message)
        return self._along(self.visit(arguments[0], depth), tuple(along))

    def _along(self, value: Quantity, names: tuple[str, ...]) -> Quantity:
        return calculus.derive(value, [self.scope.coordinates[n] for n in names])
