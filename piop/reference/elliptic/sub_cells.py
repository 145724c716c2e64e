"""Data over half cells: interfaces and narrow sources between the points of a grid count.

Along a line all half cells are cut where the boxes of `piop.reference.features` end, so that
interfaces are met to ten digits; in more dimensions data are taken at even points inside the half
cells that hold small boxes, at the middle of the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.polynomial import legendre
from sympy import Expr
from torch import Tensor

from piop.domain import Coordinate
from piop.reference.elliptic.cells import cell_edges, centres
from piop.reference.features import Features, KnownValues
from piop.reference.input_values import Sources

_ALONG = 4
"""Points of Gauss's rule in a piece of a half cell."""
_NODES, _WEIGHTS = legendre.leggauss(_ALONG)
_UP_TO_NODES = np.linalg.inv(legendre.legvander(_NODES, _ALONG - 1)).T @ legendre.legval(
    _NODES, legendre.legint(np.eye(_ALONG), lbnd=-1)
)
"""Values at the nodes → integrals from −1 to each of them, of the polynomial through them."""
_POINTS = (4, 3)
"""Points along each axis inside a half cell, in two and three dimensions."""
_AT_A_TIME = 2**21


class SubCells(ABC):
    """The half cells of a grid, and data of a batch over them ``[B, *halves]``.

    Args:
        sources: The problem with its inputs, of these samples.
        features: Of the data of the whole batch.
        samples: Positions in the whole batch.
        sizes: Cells along each axis.
    """

    def __init__(
        self, sources: Sources, features: Features, samples: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self.sources, self.space = sources, sources.problem.space
        counts = [(c, 2 * n) for c, n in zip(self.space, sizes, strict=True)]
        self.edges = [cell_edges(c, n, sources.device) for c, n in counts]
        self.middles = [centres(c, n, sources.device) for c, n in counts]

    @abstractmethod
    def mean(self, expression: Expr) -> Tensor:
        """Return means of values."""

    @abstractmethod
    def in_series(self, expression: Expr, middles: Tensor, axis: int) -> Tensor:
        """Return means as fluxes along an axis meet them: harmonic along it, of those across.

        Args:
            expression: A coefficient, no number.
            middles: Its values at the middles of half cells.
            axis: Along which.
        """

    def bends(self, diffusion: Expr, source: Expr) -> Tensor | None:
        """What sources inside half cells add to differences along them; None where it is left out.

        The flux through a half cell is not the one through its face where a source lies between:
        u(face) − u(centre) is the flux through the face times the resistance, and this.
        """
        return None


@final
class LineSubCells(SubCells):
    """Half cells of one axis, by Gauss's rule in pieces that end where boxes do."""

    def __init__(
        self, sources: Sources, features: Features, samples: Sequence[int], sizes: Sequence[int]
    ) -> None:
        super().__init__(sources, features, samples, sizes)
        (edges,) = self.edges
        self.count = count = len(edges) - 1
        self.length = edges.diff().repeat(sources.batch)
        number = torch.arange(len(self.length), device=edges.device)
        sample, at = features.cuts(samples)
        inside = (torch.searchsorted(edges, at, right=True) - 1).clamp(0, count - 1)
        at = torch.cat([at, edges[number % count], edges[number % count + 1]])
        own = torch.cat([sample * count + inside, number, number])
        order = torch.argsort(at)
        order = order[torch.argsort(own[order], stable=True)]
        own, at = own[order], at[order]
        inner = (own[1:] == own[:-1]) & (at.diff() > 1e-13 * self.space[0].length)
        self.piece, low, high = _graded(own[1:][inner], at[:-1][inner], at[1:][inner], count)
        self.half = 0.5 * (high - low)[:, None]
        nodes, weights = (torch.tensor(rule).to(at) for rule in (_NODES, _WEIGHTS))
        self.own = self.piece.repeat_interleave(_ALONG)
        self.at = (low[:, None] + self.half * (1 + nodes)).flatten()
        self.width = (self.half * weights).flatten()

    def mean(self, expression: Expr) -> Tensor:
        """See the base class."""
        return self._of_samples(self._sum(self.width * self._values(expression)) / self.length)

    def in_series(self, expression: Expr, middles: Tensor, axis: int) -> Tensor:
        """See the base class."""
        return self._of_samples(self.length / self._sum(self.width / self._values(expression)))

    def bends(self, diffusion: Expr, source: Expr) -> Tensor:
        """∫ (1/a) ∫ f over half cells, the inner integral from there to the face."""
        values = self._values(source)
        content = (self.width * values).reshape(-1, _ALONG).sum(1)
        count = torch.bincount(self.piece, minlength=len(self.length))
        before = content.cumsum(0) - content
        before -= before[count.cumsum(0) - count][self.piece]
        inside = values.reshape(-1, _ALONG) @ torch.tensor(_UP_TO_NODES).to(values)
        from_start = (before[:, None] + self.half * inside).flatten()
        upper = self.own % self.count % 2 == 1
        whole = self._sum(self.width * values)[self.own]
        to_face = torch.where(upper, whole - from_start, from_start)
        return self._of_samples(self._sum(self.width / self._values(diffusion) * to_face))

    def _values(self, expression: Expr) -> Tensor:
        values = KnownValues(self.sources, expression)
        points = self.at[:, None].expand(-1, len(values.axes))
        return values(self.own // self.count, points)

    def _sum(self, values: Tensor) -> Tensor:
        return torch.zeros_like(self.length).index_add_(0, self.own, values)

    def _of_samples(self, values: Tensor) -> Tensor:
        return values.reshape(self.sources.batch, self.count)


def _graded(own: Tensor, low: Tensor, high: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Halve pieces ``[n]`` until none is over twice as long as the next of its sample.

    The tails of a pulse, lower than what boxes show, lie in the pieces beside it.

    Args:
        own: Ascending numbers of the half cells they lie in.
        low: Their low ends.
        high: Their high ends.
        count: Half cells of a sample.
    """
    while True:
        length, nothing = high - low, low.new_full((1,), torch.inf)
        inner = own[1:] // count == own[:-1] // count
        below = torch.cat([nothing, torch.where(inner, length[:-1], torch.inf)])
        above = torch.cat([torch.where(inner, length[1:], torch.inf), nothing])
        long = length > 2.01 * torch.minimum(below, above)[: len(own)]
        if not bool(long.any()):
            return own, low, high
        middle = 0.5 * (low + high)
        upper = own[long], middle[long], high[long]
        lower = own, low, torch.where(long, middle, high)
        own, low, high = (torch.cat(pair) for pair in zip(lower, upper, strict=True))
        order = torch.argsort(low)
        order = order[torch.argsort(own[order], stable=True)]
        own, low, high = own[order], low[order], high[order]


@final
class BoxSubCells(SubCells):
    """Half cells of two or three axes, those with small boxes by values at even points inside."""

    def __init__(
        self, sources: Sources, features: Features, samples: Sequence[int], sizes: Sequence[int]
    ) -> None:
        super().__init__(sources, features, samples, sizes)
        self.features, self.samples = features, samples
        self.index = features.rough_cells(samples, self.edges)
        self.count = _POINTS[len(self.space) - 2]

    def mean(self, expression: Expr) -> Tensor:
        """See the base class."""
        found = self.sources.field(expression, self.middles)
        index, means = self.features.means(expression, self.samples, self.edges)
        rough = torch.zeros_like(found, dtype=torch.bool)
        rough[self.index], rough[index] = True, False
        if bool(rough.any()):
            rest = rough.nonzero(as_tuple=True)
            found[rest] = _mean_inside(self._values(expression, rest))
        found[index] = means
        return found

    def in_series(self, expression: Expr, middles: Tensor, axis: int) -> Tensor:
        """See the base class."""
        if not len(self.index[0]):
            return middles
        along = [1 / (1 / v).mean(axis + 1) for v in self._values(expression, self.index)]
        return middles.index_put(self.index, _mean_inside(along))

    def _values(self, expression: Expr, index: Sequence[Tensor]) -> list[Tensor]:
        """Values at the points inside half cells ``[R, m, …]``, in portions."""
        values = KnownValues(self.sources, expression)
        size = max(1, _AT_A_TIME // self.count ** len(self.space))
        portions = zip(*(own.split(size) for own in index), strict=True)
        return [self._inside(values, row, cells) for row, *cells in portions]

    def _inside(self, values: KnownValues, row: Tensor, cells: Sequence[Tensor]) -> Tensor:
        rank, m = len(self.space), self.count
        part = (torch.arange(m, dtype=torch.float64, device=row.device) + 0.5) / m
        points = part.new_empty(len(row) * m**rank, len(values.axes))
        for i, (c, own, edges) in enumerate(zip(self.space, cells, self.edges, strict=True)):
            if c in values.axes:
                at = edges[own][:, None] + (edges[own + 1] - edges[own])[:, None] * part
                spread = at.reshape(len(own), *(1,) * i, m, *(1,) * (rank - 1 - i))
                points[:, values.axes.index(c)] = spread.expand(-1, *(m,) * rank).flatten()
        return values(row.repeat_interleave(m**rank), points).reshape(-1, *(m,) * rank)


def _mean_inside(portions: Sequence[Tensor]) -> Tensor:
    return torch.cat([v.flatten(1).mean(1) for v in portions])


def points_inside(
    space: Sequence[Coordinate], sizes: Sequence[int], device: torch.device
) -> dict[str, Tensor]:
    """Points at which half cells may take their data, along each axis; none where they are cut.

    Args:
        space: The axes.
        sizes: Cells along each axis.
        device: Where tensors live.
    """
    if len(space) == 1:
        return {}
    count = 2 * _POINTS[len(space) - 2]
    return {c.name: cell_edges(c, n * count, device) for c, n in zip(space, sizes, strict=True)}


def sub_cells(
    sources: Sources, features: Features, samples: Sequence[int], sizes: Sequence[int]
) -> SubCells:
    """Give the half cells of a grid; arguments as for :class:`SubCells`."""
    kind = LineSubCells if len(sizes) == 1 else BoxSubCells
    return kind(sources, features, samples, sizes)
