"""Residual-based attention: places whose residual stays large come to count more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.batches.batch import Batch
from piop.training.weighting.base import Weighting
from piop.training.weighting.cells import Cells


@final
class ResidualAttention(Weighting):
    """λ ← γ·λ + η·|r|/max|r|, and the residual is multiplied by λ.

    The points of every step are new, so λ belongs to the cells of a lattice, |r| is the mean over
    a cell of the residual's size with its fixed weights, and the maximum is over the cells that
    were met; a cell without a point keeps its λ. λ starts at one, which is no weight, and stays
    in (0, η/(1 − γ)] once it is there.

    Args:
        cells: Bins of time, and of the axes along which the equations are not all the same.
        decay: γ, in [0, 1).
        rate: η, dimensionless.
        like: A tensor of the device and precision of the step.

    Source: Anagnostopoulos, Toscano, Stergiopulos & Karniadakis 2024 (10.1016/j.cma.2024.116805,
        2307.00379), the rule for λ, there at points that stay.
    """

    name: ClassVar[str] = "residual_attention"

    def __init__(self, cells: Cells, decay: float, rate: float, like: Tensor) -> None:
        self.cells, self.decay, self.rate = cells, decay, rate
        self.multipliers = like.new_ones(cells.count)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Give λ of each cell."""
        return {"attention": self.multipliers}

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor:
        """Look up λ² of each point's cell, since it multiplies the residual itself."""
        return weights["attention"][self.cells.of(queries)].square()

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum the residual's size and the points over each cell."""
        sums, points = self.cells.sums(squares.sqrt(), queries)
        return {"attention/sizes": sums, "attention/points": points}

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Let λ decay and grow where cells were met."""
        points = statistics["attention/points"]
        sizes = statistics["attention/sizes"] / points.clamp(min=1)
        smallest = torch.finfo(sizes.dtype).tiny
        moved = self.decay * self.multipliers + self.rate * sizes / sizes.max().clamp(min=smallest)
        self.multipliers = torch.where(points > 0, moved, self.multipliers)

    def state_dict(self) -> dict[str, Tensor]:
        """Give λ."""
        return {"multipliers": self.multipliers}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up λ."""
        self.multipliers = state["multipliers"]
