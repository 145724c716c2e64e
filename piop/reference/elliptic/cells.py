"""Grids of cells, interpolation between them, and matrices of finite-volume schemes.

Row i of a matrix is Σⱼ Tᵢⱼ (uᵢ − uⱼ) + (Σ_walls Wᵢ + mᵢ) uᵢ: links T to neighbouring cells, W
through walls to a given value, and m, the reaction over the cell. Merging pairs of cells is
arithmetic of resistors: one after the other along the axis, side by side across it. So coarse
matrices keep the five-point form, are symmetric, and contain the jumps between cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.fields import grid_axis
from piop.problem import Problem
from piop.spec.distributions import PiecewiseConstant

if TYPE_CHECKING:
    from piop.problem import Coordinate


def centres(axis: Coordinate, count: int, device: torch.device) -> Tensor:
    """Centres of equal cells ``[count]``."""
    steps = torch.arange(count, dtype=torch.float64, device=device) + 0.5
    return axis.low + axis.length / count * steps


def cell_edges(axis: Coordinate, count: int, device: torch.device) -> Tensor:
    """Ends of equal cells ``[count + 1]``."""
    return torch.linspace(axis.low, axis.high, count + 1, dtype=torch.float64, device=device)


def half_steps(axis: Coordinate, count: int, device: torch.device) -> Tensor:
    """Centres and faces in turn: ``[2·count + 1]`` from wall to wall.

    On a periodic axis ``[2·count]``, from the first centre to the last cell's high face.
    """
    first, points = (1, 2 * count) if axis.periodic else (0, 2 * count + 1)
    steps = torch.arange(first, first + points, dtype=torch.float64, device=device)
    return axis.low + 0.5 * axis.length / count * steps


def between(values: Tensor, dim: int, periodic: bool) -> Tensor:
    """Values at half steps from those at centres: means at faces, the nearest at walls."""
    n = values.shape[dim]
    following = values.roll(-1, dim)
    if periodic:
        return torch.stack([values, 0.5 * (values + following)], dim + 1).flatten(dim, dim + 1)
    faces = 0.5 * (values + following).narrow(dim, 0, n - 1)
    ends = values.narrow(dim, 0, 1), values.narrow(dim, n - 1, 1)
    return interleave(values, torch.cat([ends[0], faces, ends[1]], dim), dim)


def interleave(inner: Tensor, outer: Tensor, dim: int) -> Tensor:
    """Put n inner entries between n + 1 outer ones: o, i, o, …, o."""
    n = inner.shape[dim]
    pairs = torch.stack([outer.narrow(dim, 0, n), inner], dim + 1).flatten(dim, dim + 1)
    return torch.cat([pairs, outer.narrow(dim, n, 1)], dim)


def every_other(values: Tensor, dim: int, first: int) -> Tensor:
    """Entries first, first + 2, … along a dimension, as a view."""
    index: list[slice] = [slice(None)] * values.ndim
    index[dim] = slice(first, None, 2)
    return values[tuple(index)]


def at_nodes(values: Tensor, space: Sequence[Coordinate], shape: Sequence[int]) -> Tensor:
    """Interpolate values at half steps linearly at the nodes of an output ``[B, *shape]``."""
    for dim, (axis, count) in enumerate(zip(space, shape, strict=True), 1):
        points = values.shape[dim]
        cells = points // 2
        where = grid_axis(axis.low, axis.high, count, axis.periodic).to(values.device) - axis.low
        position = where / (0.5 * axis.length / cells) - (1.0 if axis.periodic else 0.0)
        near = position.round()
        position = torch.where((position - near).abs() < 1e-9 * points, near, position)
        left = position.floor()
        weight = (position - left).reshape(-1, *[1] * (values.ndim - dim - 1))
        index = left.long() % points if axis.periodic else left.long().clamp(0, points - 1)
        following = (index + 1) % points if axis.periodic else (index + 1).clamp(max=points - 1)
        low, high = values.index_select(dim, index), values.index_select(dim, following)
        values = torch.lerp(low, high, weight.to(values).expand_as(low))
    return values


_FEWEST = (32, 24, 8)  # cells along an axis, by dimension
_ODD = (1024, 48, 10)  # most cells of a periodic axis that no longer halves


def first_grid(problem: Problem, shape: Sequence[int], cap: int) -> tuple[tuple[int, ...], bool]:
    """Choose the coarsest grid.

    Args:
        problem: The ``Problem``; cells of piecewise constant inputs keep their faces.
        shape: Points of the output along each axis.
        cap: Most cells along an axis; three levels must fit under it.

    Returns:
        Cells along each axis, and whether cells meet at the nodes of the output.
    """
    rank = len(shape)
    shortest = min(c.length for c in problem.space)
    most = 2 ** math.floor(math.log2(max(cap / 4, 1)))
    found, aligned = [], True
    for axis, n in zip(problem.space, shape, strict=True):
        wanted, own = n if axis.periodic else max(n - 1, 1), _pieces(problem, axis.name)
        fewest = min(_FEWEST[rank - 1] * 2 ** round(math.log2(axis.length / shortest)), most)
        both = _fit(math.lcm(wanted, own), own, fewest)
        odd = both // (both & -both)
        fits = 4 * both <= cap and not (axis.periodic and odd > _ODD[rank - 1])
        aligned &= fits
        found.append(both if fits else _fit(own, own, min(2 * fewest, most)))
    return tuple(found), aligned


def _fit(count: int, keep: int, fewest: int) -> int:
    """Halve or double a count towards the fewest, as long as it stays a multiple of ``keep``."""
    while count % (2 * keep) == 0 and count // 2 >= fewest:
        count //= 2
    while count < fewest:
        count *= 2
    return count


def _pieces(problem: Problem, axis: str) -> int:
    """Cells of piecewise constant inputs along an axis: their least common multiple."""
    counts = [
        i.distribution.per_axis(len(i.of))[i.of.index(axis)]
        for i in problem.inputs
        if isinstance(i.distribution, PiecewiseConstant) and axis in i.of
    ]
    return math.lcm(1, *counts)


@final
@dataclass(frozen=True)
class StencilOperator:
    """A batch of matrices on one grid of cells.

    Attributes:
        links: Per axis ``[B, *sizes]``: from cell k to cell k + 1 along it; the last from the last
            cell to the first where the axis is periodic, else 0.
        walls: Per axis, low and high, size 1 along it; None where it is periodic.
        mass: Reaction times volume ``[B, *sizes]``.
    """

    links: tuple[Tensor, ...]
    walls: tuple[Sequence[Tensor] | None, ...]
    mass: Tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(self.mass.shape[1:])

    @cached_property
    def ground(self) -> Tensor:
        """Coefficient of a cell's own value from walls and reaction ``[B, *sizes]``."""
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
        walls = (None if pair is None else [change(w) for w in pair] for pair in self.walls)
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
        half = self._half(axis)
        ends = [half.narrow(axis + 1, k, 1) for k in (0, half.shape[axis + 1] - 1)]
        walls = []
        for i, pair in enumerate(self.walls):
            if pair is not None and i == axis:
                pair = [w / (1 + w * h) for w, h in zip(pair, ends, strict=True)]
            elif pair is not None:
                pair = [add_pairs(w, axis + 1) for w in pair]
            walls.append(pair)
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


def dense(operator: StencilOperator) -> Tensor:
    """The matrix itself ``[B, N, N]``, of small grids."""
    count = operator.mass[0].numel()
    rows = torch.eye(count, dtype=operator.mass.dtype, device=operator.mass.device)
    batch = len(operator.mass)
    whole = (batch, *operator.sizes)
    columns = [operator.apply(row.reshape(1, *operator.sizes).expand(whole)) for row in rows]
    return torch.stack([c.reshape(batch, count) for c in columns], -1)
