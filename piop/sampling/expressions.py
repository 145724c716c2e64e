"""Inputs stated by an expression of other inputs and of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self, final

import sympy
import torch
from sympy import Expr, Symbol
from sympy.core.function import AppliedUndef
from torch import Tensor

from piop.fields import InputFunction
from piop.lowering import compile_expression

Evaluate = Callable[[str, tuple[int, ...], tuple[int, ...]], Tensor]
"""Name of a part, its columns, its derivative's order → values."""


@final
@dataclass(frozen=True)
class ExpressionFunction(InputFunction):
    """An expression of coordinates and of other input functions, its parts.

    Derivatives are those of the expression, found symbolically; where it jumps (``where``,
    ``sign``) they are those on either side.

    Attributes:
        expression: Of the symbols, of ``Function(name)(...)`` and of ``Symbol(name)`` for scalars.
        symbols: One per coordinate, in the order of the points' columns.
        parts: Functions by name; all of one batch.
    """

    expression: Expr
    symbols: tuple[Symbol, ...]
    parts: Mapping[str, InputFunction]
    count: int
    device: torch.device | None = None
    dtype: torch.dtype = torch.float64

    @property
    def batch(self) -> int:  # type: ignore[override]
        """B, the number of functions."""
        return self.count

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """d, the number of coordinates."""
        return len(self.symbols)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``points [B or 1, N, d]``: ``[B, N]``."""
        points = points.to(self.device, self.dtype)

        def evaluate(name: str, columns: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
            return self.parts[name].derivative(points[..., list(columns)], order)

        values = self._evaluate(tuple(order), points.unbind(-1), evaluate)
        return values.expand(self.count, points.shape[1])

    def on_grid(self, axes: Sequence[Tensor], order: Sequence[int] | None = None) -> Tensor:
        """Evaluate on a tensor grid, each part on its own axes: ``[B, n1, …, nd]``."""
        d = self.dimension
        axes = [axis.to(self.device, self.dtype) for axis in axes]
        spread = [a.reshape(*[1] * (i + 1), -1, *[1] * (d - 1 - i)) for i, a in enumerate(axes)]

        def evaluate(name: str, columns: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
            values = self.parts[name].on_grid([axes[c] for c in columns], order)
            rank = sorted(range(len(columns)), key=lambda i: columns[i])
            values = values.permute(0, *(1 + i for i in rank))
            sizes = [len(axes[c]) if c in columns else 1 for c in range(d)]
            return values.reshape(-1, *sizes)

        values = self._evaluate(tuple(order or (0,) * d), spread, evaluate)
        return values.expand(self.count, *map(len, axes))

    def _evaluate(
        self, order: tuple[int, ...], coordinates: Sequence[Tensor], evaluate: Evaluate
    ) -> Tensor:
        atoms, run = _compiled(self.expression, self.symbols, order)
        values = [self._atom(atom, coordinates, evaluate) for atom in atoms]
        return torch.as_tensor(run(values)).to(self.device, self.dtype)

    def _atom(self, atom: Expr, coordinates: Sequence[Tensor], evaluate: Evaluate) -> Tensor:
        if atom in self.symbols:
            return coordinates[self.symbols.index(atom)]
        if isinstance(atom, Symbol):
            return evaluate(atom.name, (), ())
        function, counts = atom, {}
        if isinstance(atom, sympy.Derivative):
            function = atom.expr
            counts = {symbol: int(times) for symbol, times in atom.variable_count}  # type: ignore[misc]
        columns = tuple(self.symbols.index(s) for s in function.args)
        order = tuple(counts.get(s, 0) for s in function.args)
        return evaluate(function.func.__name__, columns, order)

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        parts = {name: part.take(index) for name, part in self.parts.items()}
        return replace(self, parts=parts, count=len(index))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move to a device or dtype."""
        return replace(
            self,
            parts={name: part.to(device, dtype) for name, part in self.parts.items()},
            device=self.device if device is None else torch.device(device),
            dtype=dtype or self.dtype,
        )


@lru_cache(maxsize=256)
def _compiled(
    expression: Expr, symbols: tuple[Symbol, ...], order: tuple[int, ...]
) -> tuple[tuple[Expr, ...], Callable[[Sequence[Tensor]], Tensor]]:
    """Differentiate, and walk the result once; a pure function of its arguments."""
    for symbol, times in zip(symbols, order, strict=True):
        for _ in range(times):
            expression = sympy.diff(expression, symbol).doit()
    atoms = (*_leaves(expression),)
    return atoms, compile_expression(expression, atoms)


def _leaves(expression: Expr) -> list[Expr]:
    """Symbols, applied functions and derivatives that values must be given for."""
    found: dict[Expr, None] = {}
    stack: list[sympy.Basic] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Symbol | AppliedUndef | sympy.Derivative):
            found[node] = None
        else:
            stack.extend(node.args)
    return list(found)
