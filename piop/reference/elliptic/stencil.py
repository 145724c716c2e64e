"""Cells joined by conductances: the matrix of a finite-volume scheme, and its coarser versions.

Row i of the matrix is Σⱼ Tᵢⱼ (uᵢ − uⱼ) + (Σ_walls Wᵢ + mᵢ) uᵢ: links T to neighbouring cells, W
through walls to a given value, and m, the reaction over the cell. Merging pairs of cells is
arithmetic of resistors: one after the other along the axis, side by side across it. So coarse
matrices keep the five-point form, are symmetric, and know of jumps between cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from piop.reference.elliptic.grids import every_other


@final
@dataclass(frozen=True)
class StencilOperator:
    """A batch of networks on one grid of cells.

    Attributes:
        links: Per axis ``[B, *sizes]``: from cell k to cell k + 1 along it; the last from the last
            cell to the first where the axis is periodic, else 0.
        walls: Per axis, low and high, size 1 along it; None where it is periodic.
        mass: Reaction times volume ``[B, *sizes]``.
    """

    links: tuple[Tensor, ...]
    walls: tuple[tuple[Tensor, Tensor] | None, ...]
    mass: Tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(self.mass.shape[1:])

    @cached_property
    def ground(self) -> Tensor:
        """What pulls a cell to zero: walls and reaction ``[B, *sizes]``."""
        ground = self.mass.clone()
        for axis, pair in enumerate(self.walls, 1):
            if pair is not None:
                ground.narrow(axis, 0, 1).add_(pair[0])
                ground.narrow(axis, ground.shape[axis] - 1, 1).add_(pair[1])
        return ground

    @cached_property
    def diagonal(self) -> Tensor:
        """Of the matrix ``[B, *sizes]``."""
        total = self.ground.clone()
        for axis, link in enumerate(self.links, 1):
            total += link
            total += link.roll(1, axis)  # the last link of an axis with walls is zero
        return total

    @cached_property
    def inverse_diagonal(self) -> Tensor:
        """Reciprocals of the diagonal ``[B, *sizes]``."""
        return self.diagonal.reciprocal()

    @property
    def definite(self) -> Tensor:
        """Whether all signs are those of a (semi-)definite matrix ``[B]``."""
        grounded = self.ground.flatten(1).amin(1) >= 0
        return grounded & torch.stack([t.flatten(1).amin(1) >= 0 for t in self.links]).all(0)

    def apply(self, u: Tensor) -> Tensor:
        """Multiply the matrix with cell values ``[B, *sizes]``."""
        out = self.diagonal * u
        for axis, link in enumerate(self.links, 1):
            n = u.shape[axis] - 1
            inner = link.narrow(axis, 0, n)
            out.narrow(axis, 1, n).addcmul_(inner, u.narrow(axis, 0, n), value=-1)
            out.narrow(axis, 0, n).addcmul_(inner, u.narrow(axis, 1, n), value=-1)
            if self.walls[axis - 1] is None:
                last, wrap = u.narrow(axis, n, 1), link.narrow(axis, n, 1)
                out.narrow(axis, 0, 1).addcmul_(wrap, last, value=-1)
                out.narrow(axis, n, 1).addcmul_(wrap, u.narrow(axis, 0, 1), value=-1)
        return out

    def map(self, change: Callable[[Tensor], Tensor]) -> StencilOperator:
        """Apply a function to every tensor."""
        walls = (None if p is None else (change(p[0]), change(p[1])) for p in self.walls)
        return StencilOperator(tuple(map(change, self.links)), tuple(walls), change(self.mass))

    def to(self, dtype: torch.dtype) -> StencilOperator:
        """Change the precision."""
        return self.map(lambda part: part.to(dtype))

    def take(self, index: Tensor) -> StencilOperator:
        """Keep some of the batch."""
        return self.map(lambda part: part[index])

    def scale(self, factor: Tensor) -> StencilOperator:
        """Multiply each matrix by a number ``[B]``."""
        return self.map(lambda part: part * factor.reshape(-1, *[1] * (part.ndim - 1)))

    def merge(self, axis: int) -> StencilOperator:
        """Merge pairs of cells along an axis (from 0); a last one without partner stays alone."""
        links = [
            self._in_series(axis) if i == axis else add_pairs(link, axis + 1)
            for i, link in enumerate(self.links)
        ]
        walls: list[tuple[Tensor, Tensor] | None] = []
        for i, pair in enumerate(self.walls):
            if pair is None:
                walls.append(None)
            elif i != axis:
                walls.append((add_pairs(pair[0], axis + 1), add_pairs(pair[1], axis + 1)))
            else:
                half = self._half(axis)
                ends = (half.narrow(axis + 1, k, 1) for k in (0, half.shape[axis + 1] - 1))
                low, high = (w / (1 + w * h) for w, h in zip(pair, ends, strict=True))
                walls.append((low, high))
        return StencilOperator(tuple(links), tuple(walls), add_pairs(self.mass, axis + 1))

    def _half(self, axis: int) -> Tensor:
        """Resistance between the middle of a pair and its outer cells; 0 for a single cell."""
        n = self.sizes[axis]
        inner = every_other(self.links[axis], axis + 1, 0)
        if n % 2:
            half = 0.5 / inner.narrow(axis + 1, 0, n // 2)
            return torch.cat([half, torch.zeros_like(inner.narrow(axis + 1, 0, 1))], axis + 1)
        return 0.5 / inner

    def _in_series(self, axis: int) -> Tensor:
        dim, half = axis + 1, self._half(axis)
        if self.walls[axis] is None:
            outer = every_other(self.links[axis], dim, 1)
            return 1 / (half + 1 / outer + half.roll(-1, dim))
        m = half.shape[dim] - 1
        outer = every_other(self.links[axis], dim, 1).narrow(dim, 0, m)
        inside = 1 / (half.narrow(dim, 0, m) + 1 / outer + half.narrow(dim, 1, m))
        return torch.cat([inside, torch.zeros_like(half.narrow(dim, 0, 1))], dim)


def add_pairs(values: Tensor, dim: int) -> Tensor:
    """Sums of entries 0 and 1, 2 and 3, … along a dimension; of one that is broadcast, twice it."""
    n = values.shape[dim]
    pairs = every_other(values, dim, 0).clone()
    pairs.narrow(dim, 0, n // 2).add_(every_other(values, dim, 1))
    return pairs


def dense(network: StencilOperator) -> Tensor:
    """The matrix itself ``[B, N, N]``, of small networks."""
    count = network.mass[0].numel()
    rows = torch.eye(count, dtype=network.mass.dtype, device=network.mass.device)
    batch = len(network.mass)
    columns = [
        network.apply(r.reshape(1, *network.sizes).expand(batch, *network.sizes)) for r in rows
    ]
    return torch.stack([c.reshape(batch, count) for c in columns], -1)


def mergeable(network: StencilOperator, smallest: int = 2) -> Sequence[int]:
    """Axes whose cells may be merged: long enough, and even where periodic."""
    return [
        i
        for i, (n, pair) in enumerate(zip(network.sizes, network.walls, strict=True))
        if n > smallest and (pair is not None or n % 2 == 0)
    ]
