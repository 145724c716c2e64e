"""Inputs given by an expression of other inputs and of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import sympy
import torch
from sympy import Derivative, Expr, Symbol
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.fields import Device, InputFunction
from piop.forms.terms import applied, argument_order, name_of
from piop.lowering import compile_expression

Evaluate = Callable[[str, tuple[int, ...], tuple[int, ...]], Tensor]
"""Name of a part, its columns, its derivative's order → values."""


@final
class CompiledExpression:
    """An expression and its derivatives, each compiled when first needed.

    Args:
        expression: Of the symbols, of ``Function(name)(...)`` and of ``Symbol(name)`` for scalars.
        symbols: One per coordinate, in the order of the points' columns.
    """

    def __init__(self, expression: Expr, symbols: Sequence[Symbol]) -> None:
        self.expression, self.symbols = expression, tuple(symbols)
        self._compiled: dict[tuple[int, ...], tuple[list[Expr], Callable[..., Tensor]]] = {}

    def __call__(
        self, order: tuple[int, ...], coordinates: Sequence[Tensor], evaluate: Evaluate
    ) -> Tensor:
        """Evaluate a derivative.

        Args:
            order: How often to differentiate along each coordinate.
            coordinates: Values of the symbols.
            evaluate: Gives the values of the parts.
        """
        if order not in self._compiled:
            expression = self.expression
            for symbol, times in zip(self.symbols, order, strict=True):
                for _ in range(times):
                    expression = sympy.diff(expression, symbol).doit()
            leaves = _leaves(expression)
            self._compiled[order] = leaves, compile_expression(expression, tuple(leaves))
        leaves, run = self._compiled[order]
        return torch.as_tensor(run([self._leaf(leaf, coordinates, evaluate) for leaf in leaves]))

    def _leaf(self, leaf: Expr, coordinates: Sequence[Tensor], evaluate: Evaluate) -> Tensor:
        if leaf in self.symbols:
            return coordinates[self.symbols.index(leaf)]
        if leaf.is_Symbol:
            return evaluate(str(leaf), (), ())
        columns = tuple(self.symbols.index(s) for s in applied(leaf).args)
        return evaluate(name_of(leaf), columns, argument_order(leaf))


@final
@dataclass(frozen=True)
class ExpressionFunction(InputFunction):
    """An expression of coordinates and of other input functions, its parts.

    Derivatives are those of the expression, found symbolically; where it jumps (``where``,
    ``sign``) they are those on either side.

    Attributes:
        expression: The expression.
        parts: Functions by name; all of one batch.
        count: B, the number of functions.
        device: Of the values; None for that of the parts.
        dtype: Of the values.
    """

    expression: CompiledExpression
    parts: Mapping[str, InputFunction]
    count: int
    device: torch.device | None = None
    dtype: torch.dtype = torch.float64

    @property
    def batch(self) -> int:
        """B, the number of functions."""
        return self.count

    @property
    def dimension(self) -> int:
        """d, the number of coordinates."""
        return len(self.expression.symbols)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``points [B or 1, N, d]``: ``[B, N]``."""
        points = points.to(self.device, self.dtype)

        def evaluate(name: str, columns: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
            return self.parts[name].derivative(points[..., list(columns)], order)

        values = self.expression(tuple(order), points.unbind(-1), evaluate)
        return values.to(self.device, self.dtype).expand(self.count, points.shape[1])

    def on_grid(self, axes: Sequence[Tensor], order: Sequence[int] | None = None) -> Tensor:
        """Evaluate on a tensor grid, each part on its own axes: ``[B, n1, …, nd]``."""
        d = self.dimension
        axes = [axis.to(self.device, self.dtype) for axis in axes]
        spread = [a.reshape(*[1] * (i + 1), -1, *[1] * (d - 1 - i)) for i, a in enumerate(axes)]

        def evaluate(name: str, columns: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
            values = self.parts[name].on_grid([axes[c] for c in columns], order)
            rank = sorted(range(len(columns)), key=columns.__getitem__)
            sizes = [len(axes[c]) if c in columns else 1 for c in range(d)]
            return values.permute(0, *(1 + i for i in rank)).reshape(-1, *sizes)

        values = self.expression(tuple(order or (0,) * d), spread, evaluate)
        return values.to(self.device, self.dtype).expand(self.count, *map(len, axes))

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        parts = {name: part.take(index) for name, part in self.parts.items()}
        return replace(self, parts=parts, count=len(index))

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device or dtype."""
        return replace(
            self,
            parts={name: part.to(device, dtype) for name, part in self.parts.items()},
            device=self.device if device is None else torch.device(device),
            dtype=dtype or self.dtype,
        )


def names_in(expression: Expr) -> frozenset[str]:
    """Names of the functions and symbols in an expression."""
    leaves = expression.atoms(AppliedUndef, Symbol)
    return frozenset(str(leaf) if leaf.is_Symbol else name_of(leaf) for leaf in leaves)


def _leaves(expression: Expr) -> list[Expr]:
    """Symbols, applied functions and derivatives that values must be given for."""
    found: dict[Expr, None] = {}
    nodes = sympy.preorder_traversal(expression)
    for node in nodes:
        if isinstance(node, Symbol | AppliedUndef | Derivative):
            found[node] = None
            nodes.skip()
    return list(found)
