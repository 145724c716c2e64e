"""A box cut into equal cells, and the places where a law is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class QuadratureNodes:
    """A tensor grid of points.

    Attributes:
        coordinates: Along each axis ``[n_i]``.
    """

    coordinates: tuple[Tensor, ...]

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis."""
        return self.coordinates

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(len(c) for c in self.coordinates)


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
        self.centres = QuadratureNodes(tuple(middles))
        axes = range(len(sizes))
        self.faces = tuple(
            QuadratureNodes(tuple(edges[j] if j == i else middles[j] for j in axes)) for i in axes
        )
        self.ends = tuple(
            tuple(
                QuadratureNodes(tuple(edges[j][end] if j == i else middles[j] for j in axes))
                for end in (slice(0, 1), slice(-1, None))
            )
            for i in axes
        )

    def _along(self, axis: int, cells: Tensor) -> Tensor:
        places = cells.to(self.device, torch.float64)
        return self.lows[axis] + self.lengths[axis] * (places / self.sizes[axis])

    def quadrature(self, offsets: Tensor) -> QuadratureNodes:
        """Points at fractions ``offsets [q]`` of every cell, cell after cell."""
        return QuadratureNodes(
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
