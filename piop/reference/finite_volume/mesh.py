"""A box cut into equal cells, and the values of coordinates, time and inputs at its points."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.forms.terms import argument_order, name_of, outermost_atoms
from piop.problem import Problem
from piop.reference.input_values import SamplingGrid, Sources


class CellMesh:
    """Equal cells of a box.

    Attributes:
        lows: Left end of each axis (physical).
        lengths: Length of each axis (physical).
        sizes: Cells along each axis.
        widths: Width of a cell along each axis.
        centres: Middles of the cells.
        faces: For each axis, middles of the faces across it, both ends among them.
        ends: For each axis, middles of the faces of the box at its low and its high end.
    """

    def __init__(
        self,
        lows: tuple[float, ...],
        lengths: tuple[float, ...],
        sizes: tuple[int, ...],
        device: torch.device,
    ) -> None:
        self.lows, self.lengths, self.sizes, self.device = lows, lengths, sizes, device
        self.widths = tuple(length / n for length, n in zip(lengths, sizes, strict=True))
        edges = [self._along(i, torch.arange(n + 1)) for i, n in enumerate(sizes)]
        middles = [self._along(i, torch.arange(n) + 0.5) for i, n in enumerate(sizes)]
        self.centres = SamplingGrid(tuple(middles))
        axes = range(len(sizes))
        self.faces = tuple(
            SamplingGrid(tuple(edges[j] if j == i else middles[j] for j in axes)) for i in axes
        )
        self.ends = tuple(
            tuple(
                SamplingGrid(tuple(edges[j][end] if j == i else middles[j] for j in axes))
                for end in (slice(0, 1), slice(-1, None))
            )
            for i in axes
        )

    def _along(self, axis: int, cells: Tensor) -> Tensor:
        positions = cells.to(self.device, torch.float64)
        return self.lows[axis] + self.lengths[axis] * (positions / self.sizes[axis])

    def quadrature(self, offsets: Tensor) -> SamplingGrid:
        """Points at fractions ``offsets [q]`` of every cell, cell after cell."""
        return SamplingGrid(
            tuple(
                self._along(i, (torch.arange(n)[:, None] + offsets).reshape(-1))
                for i, n in enumerate(self.sizes)
            )
        )

    def averages(self, values: Tensor, weights: Tensor) -> Tensor:
        """Cell means ``[B, *sizes]`` of values ``[B, n1 q, …]`` at quadrature points."""
        q, rank = len(weights), len(self.sizes)
        split = values.reshape(len(values), *(m for n in self.sizes for m in (n, q)))
        total = torch.zeros(len(values), *self.sizes, dtype=values.dtype, device=values.device)
        for index in product(range(q), repeat=rank):
            picked = split
            for axis in reversed(range(rank)):
                picked = picked.select(2 + 2 * axis, index[axis])
            total += picked * weights[list(index)].prod()
        return total


class CoefficientValues:
    """Evaluates the coefficients in some expressions: everything in them besides the state.

    Each sample has a time of its own. What does not depend on it is evaluated once per nodes.

    Args:
        problem: The ``Problem``.
        sources: Its inputs, of batch B.
        expressions: Fluxes, speeds, sources, boundary values.
    """

    def __init__(self, problem: Problem, sources: Sources, expressions: Iterable[Expr]) -> None:
        self.problem, self.sources = problem, sources
        self.time, *axes = problem.coordinates
        self.space = [c.name for c in axes]
        names = {i.name for i in problem.inputs}
        symbols: set[Any] = set()
        functions: dict[Any, None] = {}
        for expression in expressions:
            atoms = outermost_atoms(expression)
            functions |= dict.fromkeys(a for a in atoms if name_of(a) in names)
            # Symbols of its own: those that are arguments of an input alone are not needed.
            symbols |= (
                sympy.sympify(expression).xreplace({a: sympy.Dummy() for a in atoms}).free_symbols
            )
        self.scalars = [s for s in sources.scalars if s in symbols]
        self.axes = [c for c in problem.space if c.symbol in symbols]
        self.clock = [self.time.symbol] if self.time.symbol in symbols else []
        self.functions = list(functions)
        self.atoms: tuple[Any, ...] = (
            *self.scalars,
            *(c.symbol for c in self.axes),
            *self.clock,
            *self.functions,
        )
        self._kept: dict[SamplingGrid, dict[Any, Tensor]] = {}

    def at(self, nodes: SamplingGrid, t: Tensor) -> list[Tensor]:
        """Values in the order of ``atoms``, each broadcastable to ``[B, *nodes.sizes]``.

        Args:
            nodes: Where.
            t: Time of each sample ``[B]``.
        """
        kept = self._kept.setdefault(nodes, {})
        for atom in self.atoms:
            if atom not in kept and not self._moves(atom):
                kept[atom] = self._fixed(atom, nodes)
        pad = (1,) * len(nodes.sizes)
        return [
            kept[a]
            if a in kept
            else (t.reshape(-1, *pad) if a in self.clock else self._moving(a, nodes, t))
            for a in self.atoms
        ]

    def _moves(self, atom: Any) -> bool:
        return atom in self.clock or (
            atom in self.functions and self.time.name in self._arguments(atom)
        )

    def _arguments(self, atom: Any) -> tuple[str, ...]:
        return self.sources.arguments[name_of(atom)]

    def _fixed(self, atom: Any, nodes: SamplingGrid) -> Tensor:
        if atom in self.functions:
            return self.sources.on_grid(atom, argument_order(atom), nodes, self.sources.start)
        if atom in self.scalars:
            return torch.as_tensor(self.sources.scalar(atom)).reshape(-1, *[1] * len(nodes.sizes))
        axis = next(i for i, c in enumerate(self.problem.space) if c.symbol == atom)
        return self.sources.coordinate(axis, nodes)

    def _moving(self, atom: Any, nodes: SamplingGrid, t: Tensor) -> Tensor:
        """An input that depends on time, each sample at its own time."""
        names = self._arguments(atom)
        axes = dict(zip(self.space, nodes.axes(), strict=True))
        own = [n for n in self.space if n in names]
        mesh = torch.meshgrid(*(axes[n] for n in own), indexing="ij") if own else ()
        columns = dict(zip(own, (m.reshape(1, -1) for m in mesh), strict=True))
        count = mesh[0].numel() if mesh else 1
        columns[self.time.name] = t[:, None]
        points = torch.stack([columns[n].expand(len(t), count) for n in names], -1)
        function = self.sources.functions[name_of(atom)]
        if function.batch != len(t):
            function = function.take(torch.zeros(len(t), dtype=torch.int64, device=t.device))
        values = function.derivative(points, argument_order(atom))
        sizes = [n if c in own else 1 for c, n in zip(self.space, nodes.sizes, strict=True)]
        return values.reshape(len(t), *sizes)
