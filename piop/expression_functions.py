"""Functions given by an expression of input functions and of coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, final

import sympy
import torch
from sympy import Add, Derivative, Expr, Symbol
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.expression.functions import JUMPS
from piop.fields import Device, InputFunction
from piop.forms.terms import applied, argument_order, name_of
from piop.intervals import Interval, enclose
from piop.lowering import compile_expression

Evaluate = Callable[[str, tuple[int, ...], tuple[int, ...]], Any]
"""Name of a part, its columns, its derivative's order → values, or enclosures of them."""


@final
class CompiledExpression:
    """An expression and its derivatives, each compiled when first needed.

    Args:
        expression: Of the symbols, of ``Function(name)(...)`` and of ``Symbol(name)`` for scalars.
        symbols: One per coordinate, in the order of the points' columns.
    """

    def __init__(self, expression: Expr, symbols: Sequence[Symbol]) -> None:
        self.expression, self.symbols = expression, tuple(symbols)
        self._derivatives: dict[tuple[int, ...], CompiledExpression] = {}

    def __call__(
        self, order: tuple[int, ...], coordinates: Sequence[Any], evaluate: Evaluate
    ) -> Any:
        """Evaluate a derivative.

        Args:
            order: How often to differentiate along each coordinate.
            coordinates: Values of the symbols.
            evaluate: Gives the values of the parts.
        """
        leaves, run = self.derivative(order)._compiled
        return run([self._leaf(leaf, coordinates, evaluate) for leaf in leaves])

    def derivative(self, order: tuple[int, ...]) -> CompiledExpression:
        """Differentiate so often along each coordinate."""
        if not any(order):
            return self
        if order not in self._derivatives:
            expression = self.expression
            for symbol, times in zip(self.symbols, order, strict=True):
                for _ in range(times):
                    expression = sympy.diff(expression, symbol).doit()
            self._derivatives[order] = CompiledExpression(expression, self.symbols)
        return self._derivatives[order]

    @property
    def jumps(self) -> bool:
        """Whether a function in it may jump."""
        return self.expression.has(*JUMPS)

    @cached_property
    def _compiled(self) -> tuple[list[Expr], Callable[..., Tensor]]:
        leaves = _leaves(self.expression)
        return leaves, compile_expression(self.expression, tuple(leaves))

    @cached_property
    def smooth_and_rough(self) -> tuple[CompiledExpression | None, CompiledExpression | None]:
        """The sum of its terms without jumps, and that of the others; None for no terms."""
        rough = Add(*(t for t in Add.make_args(self.expression) if t.has(*JUMPS)))
        smooth = self.expression - rough

        def compiled(terms: Expr) -> CompiledExpression | None:
            return CompiledExpression(terms, self.symbols) if terms else None

        return compiled(smooth), compiled(rough)

    def _leaf(self, leaf: Expr, coordinates: Sequence[Any], evaluate: Evaluate) -> Any:
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
            at = points if columns else points[:, :1]  # a scalar has one value at all points
            return self.parts[name].derivative(at[..., list(columns)], order)

        values = self.expression(tuple(order), points.unbind(-1), evaluate)
        return values.to(self.device, self.dtype).expand(self.count, points.shape[1])

    def enclosure(self, box: Sequence[Interval], order: Sequence[int]) -> Interval:
        """Enclose a derivative on boxes ``[B or 1, N]``: ``[B, N]``.

        By interval arithmetic, and, of the terms without jumps, also by the value at the centre and
        the slopes on the box (R. E. Moore, Interval Analysis, 1966, ch. 6): that exceeds what the
        values really are by the square of the box's size.
        """
        shape = (self.count, *box[0].low.shape[1:])
        zero = torch.zeros(shape, dtype=self.dtype, device=box[0].low.device)
        first = next((i for i, n in enumerate(order) if n), None)
        if first is not None:
            lower = tuple(n - (i == first) for i, n in enumerate(order))
            if self.expression.derivative(lower).jumps:  # slopes say nothing of a jump
                return Interval(zero - math.inf, zero + math.inf)
        smooth, rough = self.expression.derivative(tuple(order)).smooth_and_rough
        found = Interval(zero, zero)
        if rough:
            found += self._enclose(rough, box)
        if smooth:
            found += self._enclose(smooth, box) & self._around_centre(smooth, box)
        return found

    def _around_centre(self, smooth: CompiledExpression, box: Sequence[Interval]) -> Interval:
        centre = torch.stack([own.centre for own in box], -1)
        middle = replace(self, expression=smooth).derivative(centre, (0,) * len(box))
        reach = torch.zeros_like(middle)
        for i, own in enumerate(box):
            slope = smooth.derivative(tuple(int(i == k) for k in range(len(box))))
            most = 0.5 * own.width * self._enclose(slope, box).size
            reach = reach + torch.where(own.width > 0, most, 0.0)  # slopes may be infinite
        return Interval(middle - reach, middle + reach)

    def _enclose(self, expression: CompiledExpression, box: Sequence[Interval]) -> Interval:
        def evaluate(name: str, columns: tuple[int, ...], order: tuple[int, ...]) -> Any:
            part = self.parts[name]
            if not columns:
                return part.on_grid(()).reshape(-1, 1)
            return part.enclosure([box[c] for c in columns], order)

        return enclose(expression((0,) * len(box), box, evaluate), box[0])

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
