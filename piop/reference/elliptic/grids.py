"""Grids of cells: centres, faces and nodes, and the faces of the coarsest grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.fields import grid_axis
from piop.problem import Problem
from piop.spec.distributions import PiecewiseConstant

if TYPE_CHECKING:
    from piop.problem import Coordinate


@final
@dataclass(frozen=True)
class CellGrid:
    """A tensor grid of points along given axes."""

    along: tuple[Tensor, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(len(a) for a in self.along)

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis."""
        return self.along


def centres(axis: Coordinate, count: int, device: torch.device) -> Tensor:
    """Centres of equal cells ``[count]``."""
    steps = torch.arange(count, dtype=torch.float64, device=device) + 0.5
    return axis.low + axis.length / count * steps


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


def at_centres(values: Tensor, dim: int, periodic: bool) -> Tensor:
    """Keep the centres of values at half steps."""
    return every_other(values, dim, 0 if periodic else 1)


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
        place = where / (0.5 * axis.length / cells) - (1.0 if axis.periodic else 0.0)
        near = place.round()
        place = torch.where((place - near).abs() < 1e-9 * points, near, place)
        left = place.floor()
        weight = (place - left).reshape(-1, *[1] * (values.ndim - dim - 1))
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
    pieces = [_pieces(problem, c.name) for c in problem.space]
    intervals = [
        n if c.periodic else max(n - 1, 1) for c, n in zip(problem.space, shape, strict=True)
    ]
    shortest = min(c.length for c in problem.space)
    found, aligned = [], True
    for axis, wanted, own in zip(problem.space, intervals, pieces, strict=True):
        fewest = _FEWEST[rank - 1] * 2 ** round(math.log2(axis.length / shortest))
        both = _fit(math.lcm(wanted, own), own, fewest)
        odd = both // (both & -both)
        fits = 4 * both <= cap and not (axis.periodic and odd > _ODD[rank - 1])
        aligned &= fits
        found.append(both if fits else _fit(own, own, 2 * fewest))
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
    laws = [(i.law, i.of) for i in problem.inputs if isinstance(i.law, PiecewiseConstant)]
    counts = [law.per_axis(len(of))[of.index(axis)] for law, of in laws if axis in of]
    return math.lcm(1, *counts)
