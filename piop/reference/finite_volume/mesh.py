"""A box cut into equal cells, and the values of coordinates, time and inputs at its points."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.forms.terms import name_of, outermost_atoms
from piop.problem import Problem
from piop.reference.input_values import Axes, Sources, moves


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
        self.centres = tuple(middles)
        axes = range(len(sizes))
        self.faces = tuple(tuple(edges[j] if j == i else middles[j] for j in axes) for i in axes)
        self.ends = tuple(
            tuple(
                tuple(edges[j][end] if j == i else middles[j] for j in axes)
                for end in (slice(0, 1), slice(-1, None))
            )
            for i in axes
        )

    def _along(self, axis: int, cells: Tensor) -> Tensor:
        positions = cells.to(self.device, torch.float64)
        return self.lows[axis] + self.lengths[axis] * (positions / self.sizes[axis])

    def quadrature(self, offsets: Tensor) -> Axes:
        """Points at fractions ``offsets [q]`` of every cell, cell after cell."""
        return [
            self._along(i, (torch.arange(n)[:, None] + offsets).reshape(-1))
            for i, n in enumerate(self.sizes)
        ]

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
        coordinates = [c.symbol for c in problem.coordinates if c.symbol in symbols]
        self.atoms: tuple[Any, ...] = (*self.scalars, *coordinates, *functions)
        self._kept: dict[tuple[Tensor, ...], dict[Any, Tensor]] = {}

    def at(self, nodes: tuple[Tensor, ...], t: Tensor) -> list[Tensor]:
        """Values in the order of ``atoms``, each broadcastable to ``[B, *sizes]``.

        Args:
            nodes: Where.
            t: Time of each sample ``[B]``.
        """
        if nodes not in self._kept:
            fixed = [a for a in self.atoms if not moves(self.problem, a)]
            self._kept[nodes] = {a: self.sources.value(a, nodes, self.sources.start) for a in fixed}
        kept = self._kept[nodes]
        return [kept[a] if a in kept else self._moving(a, nodes, t) for a in self.atoms]

    def _moving(self, atom: Any, nodes: tuple[Tensor, ...], t: Tensor) -> Tensor:
        """Time, or an input that depends on it, each sample at its own time."""
        if atom.is_Symbol:
            return self.sources.value(atom, nodes, t)
        of = self.sources.arguments[name_of(atom)]
        space = zip(self.problem.space, nodes, strict=True)
        axes = {c.name: points if c.name in of else points[:1] for c, points in space}
        mesh = torch.meshgrid(*axes.values(), indexing="ij")
        columns = {n: m.reshape(1, -1) for n, m in zip(axes, mesh, strict=True)}
        columns[self.problem.coordinates[0].name] = t[:, None]
        count = (len(t), mesh[0].numel())
        values = self.sources.at_points(atom, {n: columns[n].expand(count) for n in of})
        return values.reshape(len(t), *mesh[0].shape)
