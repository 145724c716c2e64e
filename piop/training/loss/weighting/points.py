"""Weights of collocation points: causal in time, and residual-based attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.batches.batch import Batch
from piop.training.loss.weighting.base import Cells, RunningMean, Weighting


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
