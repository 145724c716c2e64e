"""A lattice of cells over time and space on which weights live, since the points do not stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bins:
    """Equal bins of one coordinate.

    Attributes:
        column: Its column of the queries.
        low: Where it begins, its units.
        length: How long it is, its units.
        count: How many bins.
    """

    column: int
    low: float
    length: float
    count: int


@final
class Cells:
    """The products of the bins of some coordinates; over the others a cell extends all the way.

    Args:
        axes: The bins of each; none gives one cell.

    Attributes:
        count: Number of cells.
    """

    def __init__(self, axes: Sequence[Bins]) -> None:
        self.axes = tuple(axes)
        self.count = 1
        for axis in self.axes:
            self.count *= axis.count

    def of(self, queries: Tensor) -> Tensor:
        """Number the cell of each of ``queries [B, N, D]``: int64 ``[B, N]``."""
        number = torch.zeros_like(queries[..., 0], dtype=torch.int64)
        for axis in self.axes:
            place = (queries.detach()[..., axis.column] - axis.low) / axis.length
            own = (place * axis.count).long().clamp(0, axis.count - 1)
            number = number * axis.count + own
        return number

    def sums(self, values: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Sum values ``[B, N]`` over each cell, and count its points: ``[count]`` each.

        By comparisons rather than by scattering, so that a GPU adds in the same order every time.
        """
        every = torch.arange(self.count, device=values.device)
        member = (self.of(queries)[..., None] == every).to(values)
        return (values[..., None] * member).sum((0, 1)), member.sum((0, 1))
