"""Causal weights: later times count only once earlier ones are solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.batches.batch import Batch
from piop.training.weighting.base import RunningMean, Weighting
from piop.training.weighting.cells import Cells


@final
class CausalWeighting(Weighting):
    """w_i = exp(−ε Σ_{k<i} L_k), with L_k the mean squared residual of time bin k.

    L_k is a running mean over steps, since a step's own points are few and, split over processes,
    unknown to each other. A bin that no point has ever met counts as solved.

    Args:
        cells: The time bins, in order.
        strength: ε, dimensionless.
        memory: Share of the running mean that a step keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Sankaran & Perdikaris 2022, sec. 3 (2203.07404), with bins for their time grid
        and a running mean for their single evaluation.
    """

    name: ClassVar[str] = "causal"

    def __init__(self, cells: Cells, strength: float, memory: float, like: Tensor) -> None:
        self.cells, self.strength = cells, strength
        self.losses = RunningMean(cells.count, memory, like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Give the weight of each bin."""
        losses = self.losses.values
        return {"causal": torch.exp(-self.strength * (torch.cumsum(losses, 0) - losses))}

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor:
        """Look up the weight of each point's bin."""
        return weights["causal"][self.cells.of(queries)]

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum squares and points over each bin."""
        sums, points = self.cells.sums(squares, queries)
        return {"causal/squares": sums, "causal/points": points}

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Move the running means of the bins that were met."""
        points = statistics["causal/points"]
        self.losses.update(statistics["causal/squares"] / points.clamp(min=1), points > 0)

    def state_dict(self) -> dict[str, Tensor]:
        """Give the running means."""
        return self.losses.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the running means."""
        self.losses.load_state_dict(state)
