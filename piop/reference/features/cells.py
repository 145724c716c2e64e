"""Cells of a grid of space that boxes of data overlap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import final

import torch
from torch import Tensor

from piop.problem import Coordinate
from piop.reference.features.boxes import Boxes, KnownValues

_GAUSS = (-(3**-0.5), 3**-0.5)
"""Nodes of Gauss's rule that integrates cubic polynomials over [−1, 1], of equal weights."""


@final
class Overlaps:
    """Boxes of some samples, and the cells of a grid of space that they overlap.

    Args:
        values: The data.
        boxes: Of all samples.
        space: The axes.
        edges: Ascending, of the cells along each axis ``[n_i + 1]``.
    """

    def __init__(
        self,
        values: KnownValues,
        boxes: Boxes,
        space: Sequence[Coordinate],
        edges: Sequence[Tensor],
    ) -> None:
        self.values, self.boxes, self.edges = values, boxes, edges
        self.columns = [values.axes.index(c) if c in values.axes else None for c in space]
        self.spans: list[tuple[Tensor, Tensor]] = []
        self.small = torch.zeros_like(boxes.sample, dtype=torch.bool)
        for i, own in zip(self.columns, edges, strict=True):
            if i is None:
                every = torch.zeros_like(boxes.sample)
                self.spans.append((every, every + len(own) - 1))
                continue
            first = torch.searchsorted(own, boxes.low[:, i].contiguous(), right=True) - 1
            last = torch.searchsorted(own, boxes.high[:, i].contiguous()).clamp(1, len(own) - 1)
            self.small |= boxes.reach[:, i] < own[first + 1] - own[first]
            self.spans.append((first, last - first))

    def pairs(self, which: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers of boxes, and of cells in the samples' grids one after the other."""
        box = which.nonzero()[:, 0]
        flat = self.boxes.sample[box]
        for (start, counts), own in zip(self.spans, self.edges, strict=True):
            count = counts[box]
            again = torch.repeat_interleave(torch.arange(len(box), device=box.device), count)
            offset = torch.arange(len(again), device=box.device)
            offset -= (count.cumsum(0) - count)[again]
            box, flat = box[again], flat[again] * (len(own) - 1)
            flat += start[box] + offset
        return box, flat

    @property
    def rough(self) -> Tensor:
        """Numbers of the cells that hold boxes much smaller than they are."""
        return self.pairs(self.small)[1].unique()

    def means(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Give the numbers of these cells, and the means over them, of samples in the batch."""
        rough = self.rough
        box, flat = self.pairs(torch.ones_like(self.small))
        kept = torch.isin(flat, rough)
        box, flat = box[kept], flat[kept]
        centre, part = self.boxes.centre[box], torch.ones_like(box, dtype=torch.float64)
        half, rest = torch.zeros_like(centre), flat
        for i, own in reversed([*zip(self.columns, self.edges, strict=True)]):
            cell, rest = rest % (len(own) - 1), rest // (len(own) - 1)
            below, above = own[cell], own[cell + 1]
            if i is None:
                low, high = below, above
            else:
                low = torch.maximum(self.boxes.low[box, i], below)
                high = torch.minimum(self.boxes.high[box, i], above)
                centre[:, i], half[:, i] = 0.5 * (low + high), 0.5 * (high - low)
            part = part * (high - low) / (above - below)
        nodes = _GAUSS if self.values.smooth_inside else (0.0,)
        points = [
            centre + half * half.new_tensor(own) for own in product(nodes, repeat=half.shape[1])
        ]
        sample = samples[self.boxes.sample[box]]
        seen = torch.stack([self.values(sample, own) for own in points]).mean(0)
        own = torch.searchsorted(rough, flat)
        return rough, torch.zeros_like(rough, dtype=seen.dtype).index_add_(0, own, part * seen)
