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
    atoms = tuple(atoms)  # the list of a caller may change
    tape = _Tape(len(atoms), {sympy.sympify(a): i for i, a in enumerate(atoms)})
    outputs = [tape.visit(sympy.sympify(e)) for e in expressions]
    steps = tuple(tape.steps)

    def run(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if len(values) != len(atoms):
            raise ValueError(f"{len(values)} tensors for {len(atoms)} atoms")
        slots: list[Any] = list(values)
        for operation, arguments in steps:
            slots.append(operation(*(a if k is None else slots[k] for k, a in arguments)))
        like = next((v for v in values if hasattr(v, "new_tensor")), _FLOAT64)
        return tuple(like.new_tensor(a) if k is None else slots[k] for k, a in outputs)

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
        if node.is_Boolean and not node.free_symbols:
            return None, bool(node.simplify())
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
        if node.func in _EXTREMES:
            extreme = partial(self._extreme, *_EXTREMES[node.func])
            return reduce(extreme, map(self.visit, node.args))
        if node.func in _FOLDED:
            return self._fold(_FOLDED[node.func], node.args)
        if node.func in _OPERATIONS:
            return self.emit(_OPERATIONS[node.func], *map(self.visit, node.args))
        if node.func is sympy.DiracDelta:
            return None, 0.0
        if node.is_Symbol or node.is_Derivative or node.is_Function:
            raise NotSupportedError(
                f"{node} has no value here and no translation to torch; known are "
                f"{sorted(str(a) for a, v in self.known.items() if v[0] in range(self.count))}"
            )
        raise NotSupportedError(f"{node.func.__name__} in {node} has no translation to torch")

    def _fold(self, operation: Operation, nodes: Sequence[Any], *first: Argument) -> Argument:
        return reduce(partial(self.emit, operation), map(self.visit, nodes), *first)

    def _extreme(self, bound: str, of_tensors: Operation, a: Argument, b: Argument) -> Argument:
        """Take the larger or the smaller of two values, of which one may be a number."""
        if a[0] is None:
            a, b = b, a
        if b[0] is None:
            return self.emit(partial(torch.clamp, **{bound: b[1]}), a)
        return self.emit(of_tensors, a, b)

    def _sum(self, node: Any) -> Argument:
        plus = [a for a in node.args if not a.could_extract_minus_sign()]
        minus = [-a for a in node.args if a.could_extract_minus_sign()]
        if not plus:
            return self.emit(operator.neg, self.visit(-node))  # type: ignore[operator]
        return self._fold(operator.sub, minus, self._fold(operator.add, plus))

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
        total = self._fold(operator.mul, [a for a in node.args if not a.is_number])
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
        out: Argument = (None, float("nan"))
        for value, condition in reversed(node.args):
            out = self._where(self.visit(condition), self.visit(value), out)
        return out

    def _where(self, condition: Argument, a: Argument, b: Argument) -> Argument:
        if condition[0] is None:
            return a if condition[1] else b
        if a[0] is None and b[0] is None:  # two numbers need a dtype
            a = self.emit(operator.methodcaller("new_tensor", a[1]), (0, None))
        return self.emit(torch.where, condition, a, b)


def _number(node: Expr) -> float:
    value = sympy.N(node, 30)
    if not value.is_real:
        raise NotSupportedError(f"{node} is no real number")
    return float(value)


def _is_denominator(node: Any) -> bool:
    if not node.is_Pow or node.base.is_number:
        return False
    return bool(node.exp.is_number and node.exp.is_negative)


def _heaviside(x: Any, middle: Any = 0.5) -> Any:
    return torch.heaviside(x, x.new_tensor(middle))  # torch's takes no plain number


_FLOAT64 = torch.empty(0, dtype=torch.float64)
_EXTREMES: dict[Any, tuple[str, Operation]] = {
    sympy.Max: ("min", torch.maximum),
    sympy.Min: ("max", torch.minimum),
}
"""Class in SymPy → argument of ``torch.clamp`` for a number, and the operation on two tensors."""
_FOLDED = {sympy.And: operator.and_, sympy.Or: operator.or_}
"""Class in SymPy → operation that takes its arguments pair by pair."""
_OPERATIONS: dict[Any, Operation] = {
    **{symbolic: getattr(torch, row.torch) for symbolic, row in BY_SYMBOL.items()},
    **{symbolic: row.operation for symbolic, row in RELATIONS.items()},
    sympy.Heaviside: _heaviside,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Not: operator.invert,
}
"""Class in SymPy → operation on tensors."""
