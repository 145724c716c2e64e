"""SymPy to torch through one table: an expression is walked once, into a list of steps.

The steps work on tensors of any shape, dtype and device, and on anything that stands for a tensor
(Taylor streams, traced proxies). Shared sub-expressions are computed once. Nothing is printed to
source text and nothing is executed as text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import sympy
import torch
from sympy import Basic, Expr
from torch import Tensor

from piop.errors import NotSupportedError
from piop.expression.functions import BY_SYMBOL, RELATIONS

Operation = Callable[..., Any]
Argument = tuple[int | None, Any]
"""(slot, None) for a computed value, or (None, a number)."""


def lower(expression: Expr, environment: Mapping[Any, Tensor]) -> Tensor:
    """Evaluate an expression once.

    Args:
        expression: Any expression of the spec language.
        environment: A tensor for each symbol, applied function and derivative in it.

    Returns:
        The value, broadcast as the tensors are; a constant has no dimensions, and float64 where no
        tensor gives it a dtype.

    Raises:
        NotSupportedError: If a symbol has no tensor or a function no translation.

    Example:
        >>> x = sympy.Symbol("x", real=True)
        >>> lower(x**2 + sympy.Max(x, 5), {x: torch.tensor(3.0)})
        tensor(14.)
    """
    return compile_expression(expression, tuple(environment))(tuple(environment.values()))


def compile_expression(
    expression: Expr, atoms: Sequence[Any]
) -> Callable[[Sequence[Tensor]], Tensor]:
    """Walk an expression once; see :func:`compile_expressions` for several that share parts."""
    many = compile_expressions((expression,), atoms)
    return lambda values: many(values)[0]


def compile_expressions(
    expressions: Sequence[Expr], atoms: Sequence[Any]
) -> Callable[[Sequence[Tensor]], tuple[Tensor, ...]]:
    """Walk expressions once, sharing their common parts.

    Args:
        expressions: What to compute.
        atoms: Symbols, applied functions and derivatives that will be given as tensors.

    Returns:
        A function of the tensors, in the order of ``atoms``, that gives one tensor per expression.

    Raises:
        NotSupportedError: If an atom is missing or a function has no translation.
    """
    tape = _Tape(len(atoms), {sympy.sympify(a): i for i, a in enumerate(atoms)})
    outputs = [tape.visit(sympy.sympify(e)) for e in expressions]
    steps = tuple(tape.steps)

    def run(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(values) != len(atoms):
            raise ValueError(f"{len(values)} tensors for {len(atoms)} atoms")
        slots: list[Any] = list(values)
        for operation, arguments in steps:
            slots.append(operation(*(a if k is None else slots[k] for k, a in arguments)))
        like = next((v for v in values if hasattr(v, "new_tensor")), None)
        found = (a if k is None else slots[k] for k, a in outputs)
        return tuple(_as_tensor(v, like) for v in found)

    return run


class _Tape:
    """Collects steps while an expression is walked."""

    def __init__(self, count: int, known: dict[Basic, int]) -> None:
        self.count = count
        self.known: dict[Basic, Argument] = {a: (i, None) for a, i in known.items()}
        self.steps: list[tuple[Operation, tuple[Argument, ...]]] = []

    def visit(self, node: Basic) -> Argument:
        if node not in self.known:
            self.known[node] = self._lower(node)
        return self.known[node]

    def emit(self, operation: Operation, *arguments: Argument) -> tuple[int, None]:
        self.steps.append((operation, arguments))
        return self.count + len(self.steps) - 1, None

    def _lower(self, node: Any) -> Argument:
        if node in (sympy.true, sympy.false):
            return None, bool(node)
        if node.is_number:
            return None, _number(node)
        if node.is_Add:
            return self._sum(node)
        if node.is_Mul:
            return self._product(node)
        if node.is_Pow:
            return self._power(node)
        if node.is_Piecewise:
            return self._piecewise(node)
        if node.func in _OPERATIONS:
            operation, folded = _OPERATIONS[node.func]
            parts = list(map(self.visit, node.args))
            if folded:
                return reduce(lambda a, b: self.emit(operation, a, b), parts)
            return self.emit(operation, *parts)
        if node.func is sympy.DiracDelta:
            return None, 0.0
        if node.is_Symbol or node.is_Derivative or node.is_Function:
            raise NotSupportedError(
                f"{node} has no value here and no translation to torch; known are "
                f"{sorted(str(a) for a, v in self.known.items() if v[0] in range(self.count))}"
            )
        raise NotSupportedError(f"{node.func.__name__} in {node} has no translation to torch")

    def _sum(self, node: Any) -> Argument:
        plus = [a for a in node.args if not a.could_extract_minus_sign()]
        minus = [-a for a in node.args if a.could_extract_minus_sign()]
        if not plus:
            return self.emit(operator.neg, self.visit(-node))  # type: ignore[operator]
        total = reduce(lambda a, b: self.emit(operator.add, a, b), map(self.visit, plus))
        return reduce(lambda a, b: self.emit(operator.sub, a, b), map(self.visit, minus), total)

    def _product(self, node: Any) -> Argument:
        below = [a for a in node.args if _is_denominator(a)]
        if below:
            top = sympy.Mul(*(a for a in node.args if a not in below))
            bottom = sympy.Mul(*(1 / a for a in below))
            return self.emit(operator.truediv, self.visit(top), self.visit(bottom))
        number, rest = node.as_coeff_Mul()
        if number == -1:
            return self.emit(operator.neg, self.visit(rest))
        fixed = [a for a in node.args if a.is_number]
        varied = [self.visit(a) for a in node.args if not a.is_number]
        total = reduce(lambda a, b: self.emit(operator.mul, a, b), varied)
        if not fixed:
            return total
        return self.emit(operator.mul, total, (None, _number(sympy.Mul(*fixed))))

    def _power(self, node: Any) -> Argument:
        base, exponent = node.args
        if exponent.is_Integer and exponent < 0:
            return self.emit(operator.truediv, (None, 1.0), self.visit(base**-exponent))
        if exponent.is_Integer:
            n = int(exponent)
            half = self.visit(base ** (n // 2))
            square = self.emit(operator.mul, half, half)
            return self.emit(operator.mul, square, self.visit(base)) if n % 2 else square
        if exponent == sympy.Rational(1, 2):
            return self.emit(torch.sqrt, self.visit(base))
        if exponent == -sympy.Rational(1, 2):
            return self.emit(torch.rsqrt, self.visit(base))
        if base == sympy.E:
            return self.emit(torch.exp, self.visit(exponent))
        if base.is_number:
            return self.emit(torch.exp, self.visit(exponent * sympy.log(base)))
        return self.emit(operator.pow, self.visit(base), self.visit(exponent))

    def _piecewise(self, node: Any) -> Argument:
        pairs = [tuple(pair.args) for pair in node.args]
        like = (0, None)
        last_value, last_condition = pairs[-1]
        out = self.visit(last_value)
        if last_condition != sympy.true:
            out = self.emit(_where, self.visit(last_condition), out, (None, float("nan")), like)
        for value, condition in reversed(pairs[:-1]):
            out = self.emit(_where, self.visit(condition), self.visit(value), out, like)
        return out


def _number(node: Expr) -> float:
    value = sympy.N(node, 30)
    if not value.is_real:
        raise NotSupportedError(f"{node} is no real number")
    return float(value)


def _as_tensor(value: Any, like: Any) -> Any:
    if isinstance(value, float | bool):
        return torch.tensor(value, dtype=torch.float64) if like is None else like.new_tensor(value)
    return value


def _is_denominator(node: Any) -> bool:
    if not node.is_Pow or node.base.is_number:
        return False
    return bool(node.exp.is_number and node.exp.is_negative)


def _where(condition: Any, a: Any, b: Any, like: Any) -> Any:
    """Choose; ``like`` gives two numbers a dtype."""
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, float) and isinstance(b, float):
        a, b = like.new_tensor(a), like.new_tensor(b)
    return torch.where(condition, a, b)


def _clamp(bound: str, of_tensors: Operation, a: Any, b: Any) -> Any:
    """Take the larger or the smaller of two values, of which one may be a number."""
    if isinstance(a, float):
        a, b = b, a
    limit: dict[str, Any] = {bound: b}
    return torch.clamp(a, **limit) if isinstance(b, float) else of_tensors(a, b)


def _heaviside(x: Any, middle: Any = 0.5) -> Any:
    return (x > 0).to(x.dtype) + (x == 0).to(x.dtype) * middle


def _not(x: Any) -> Any:
    return not x if isinstance(x, bool) else ~x


_OF_NUMBERS: dict[str, Operation] = {
    "maximum": partial(_clamp, "min", torch.maximum),
    "minimum": partial(_clamp, "max", torch.minimum),
    "heaviside": _heaviside,
}
"""Operations of torch that take no plain numbers, written so that they do."""
_OPERATIONS: dict[Any, tuple[Operation, bool]] = {
    **{
        symbolic: (_OF_NUMBERS.get(row.torch) or getattr(torch, row.torch), row.variadic)
        for symbolic, row in BY_SYMBOL.items()
    },
    **{symbolic: (row.operation, False) for symbolic, row in RELATIONS.items()},
    sympy.Eq: (operator.eq, False),
    sympy.Ne: (operator.ne, False),
    sympy.Not: (_not, False),
    sympy.And: (operator.and_, True),
    sympy.Or: (operator.or_, True),
}
"""Class in SymPy → operation on tensors, and whether it takes its arguments pair by pair."""
