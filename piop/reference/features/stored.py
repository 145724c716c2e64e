"""Data between the points of a file: boxes of the cells that the points make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from piop.forms.terms import argument_order, name_of
from piop.reference.features.boxes import Boxes, KnownValues
from piop.reference.features.support import Support
from piop.reference.input_values import Sources

_WAVE = 2.56
"""Square of a gap of four points a wave, (π/2)² = 2.47, times the second derivative relative to the
largest value."""
_MOST_KNOTS = 2**15
"""Points up to which an integral along a line is cut at all of them; beyond, at ends of boxes."""


@final
class StoredValues(KnownValues):
    """Values of an interpolant between points.

    It varies no faster than from point to point, so that cells between points are as small as boxes
    get. Cells are joined where second differences and derivatives show that they hide nothing.

    Args:
        sources: The problem with its inputs.
        atom: The interpolant, or a derivative of it.
        initial: As for the base class.
        support: As for the base class.
    """

    smooth_inside = True

    def __init__(
        self, sources: Sources, atom: Any, initial: bool = False, support: Support | None = None
    ) -> None:
        super().__init__(sources, atom, initial, support=support)
        function = sources.functions[name_of(atom)]
        of = sources.arguments[name_of(atom)]
        at = {c.name: function.given_at[of.index(c.name)] for c in self.axes if c.name in of}
        nothing = torch.empty(0, dtype=torch.float64, device=self.device)
        self.points = [
            torch.cat([at.get(c.name, nothing), nothing.new_tensor([c.low, c.high])]).unique()
            for c in self.axes
        ]
        along = dict(zip((c.name for c in self.axes), self.points, strict=True))
        if len(self.points) == 1 and len(self.points[0]) <= _MOST_KNOTS:
            self.knots = self.points[0]
        order = argument_order(atom)

        def at_points(order: Sequence[int]) -> Tensor:
            values = function.on_grid([along[n] for n in of], order)
            values = values.permute(0, *(1 + of.index(n) for n in along if n in of))
            for i, name in enumerate(along):
                if name not in of:
                    values = values.unsqueeze(1 + i)
            return values.expand(self.batch, *map(len, self.points))

        self.values = at_points(order)
        self.seconds = [
            at_points([n + 2 * (name == own) for name, n in zip(of, order, strict=True)])
            if own in of
            else torch.zeros_like(self.values)
            for own in along
        ]

    def boxes(self) -> Boxes:
        """See the base class."""
        largest = self.values.abs().flatten(1).amax(1)
        levels = [(self.points, _bends(self.values, self.points, self.seconds))]
        while max(map(len, levels[-1][0])) > 2:
            points, bends = levels[-1]
            halved = [torch.cat([x[:-1:2], x[-1:]]) for x in points]
            levels.append((halved, _halve(bends)))
        found = []
        shape = [len(x) - 1 for x in levels[-1][0]]
        waiting = torch.ones(self.batch, *shape, dtype=torch.bool, device=self.device)
        for level, (points, bends) in reversed([*enumerate(levels)]):
            sample, *cells = waiting.nonzero(as_tuple=True)
            pairs = [*zip(points, cells, strict=True)]
            low, high = (torch.stack([x[c + e] for x, c in pairs], 1) for e in (0, 1))
            size, height = high - low, largest[sample, None]
            bend = bends.movedim(1, -1)[(sample, *cells)]
            hidden = (size.square() / 8 * bend).sum(1)
            shown = hidden <= self.detail * height[:, 0]
            wave = (_WAVE * height / bend.clamp_min(1e-300)).sqrt()
            reach = torch.where(shown[:, None], self.resolved * size, wave.maximum(size))
            kept = shown | (level == 0)
            reach = (1 + 1e-9) * reach  # as long as a gap of the points, up to rounding
            found.append(Boxes(sample[kept], low[kept], high[kept], reach[kept]))
            waiting[(sample[kept], *(c[kept] for c in cells))] = False
            if level:
                waiting = _double(waiting, [len(x) - 1 for x in levels[level - 1][0]])
        boxes = Boxes.join(found)
        return boxes.take((self.locate(boxes)[0] > 0).nonzero()[:, 0])


def _bends(values: Tensor, points: Sequence[Tensor], seconds: Sequence[Tensor]) -> Tensor:
    """Largest second differences, or derivatives, along each axis at corners of cells.

    A broken line has no second derivatives. A spline, or a sum of waves, oscillates between points
    beside a spike, where differences of the values at points show nothing.

    Args:
        values: At points ``[B, *points]``.
        points: Along each axis.
        seconds: Second derivatives along each axis at the same points.

    Returns:
        ``[B, k, *cells]``.
    """
    found = []
    for axis, (x, derivative) in enumerate(zip(points, seconds, strict=True)):
        along = values.movedim(axis + 1, -1)
        slope = along.diff(dim=-1) / x.diff()
        second = (slope.diff(dim=-1) / (0.5 * (x[2:] - x[:-2]))).abs()
        if len(x) == 2:
            second = torch.zeros_like(slope)
        second = torch.cat([second[..., :1], second, second[..., -1:]], -1)[..., : len(x)]
        found.append(torch.maximum(second.movedim(-1, axis + 1), derivative.abs()))
    bends = torch.stack(found, 1)
    for dim in range(2, bends.ndim):
        count = bends.shape[dim] - 1
        bends = torch.maximum(bends.narrow(dim, 0, count), bends.narrow(dim, 1, count))
    return bends


def _halve(cells: Tensor) -> Tensor:
    """Largest values ``[B, k, …]`` of each two cells, along each axis in turn."""
    for dim in (d for d in range(2, cells.ndim) if cells.shape[d] > 1):
        pair = cells.unfold(dim, 2, 2).amax(-1)
        last = cells.narrow(dim, cells.shape[dim] - 1, cells.shape[dim] % 2)
        cells = torch.cat([pair, last], dim)
    return cells


def _double(cells: Tensor, shape: Sequence[int]) -> Tensor:
    """Cells ``[B, …]`` for each of which there were two along each axis ``[B, *shape]``."""
    for dim, count in enumerate(shape, start=1):
        cells = cells.repeat_interleave(2, dim).narrow(dim, 0, count)
    return cells
