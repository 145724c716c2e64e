"""Weights of collocation points: causal in time, and residual-based attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from piop.training.loss.weighting.base import RunningMean, WeightedRun, Weighting, extent

if TYPE_CHECKING:
    from piop.training.batches.batch import Batch
    from piop.training.config import AdaptiveConfig


@final
class CausalWeighting(Weighting):
    """w_i = exp(−ε Σ_{k<i} L_k), with L_k the mean squared residual of time bin k.

    L_k is a running mean over steps, since a step's own points are few and, split over processes,
    unknown to each other. A bin that no point has ever fallen into counts as solved.

    Attributes:
        cells: The time bins, in order.
        strength: ε, dimensionless: one unless the setting ``causal`` says otherwise.

    Source: Wang, Sankaran & Perdikaris 2022, sec. 3 (2203.07404), with bins for their time grid
        and a running mean for their single evaluation.
    """

    name: ClassVar[str] = "causal"
    settings: ClassVar[tuple[str, ...]] = ("bins", "memory")
    in_time: ClassVar[bool] = True

    @classmethod
    def request(cls, config: AdaptiveConfig) -> str | None:
        """Return the setting that requests the weights: a strength alone does as well."""
        return super().request(config) or (f"causal: {config.causal:g}" if config.causal else None)

    def __init__(self, run: WeightedRun) -> None:
        super().__init__(run)
        self.cells, self.strength = run.cells(), self.config.causal or 1.0
        self.mean = RunningMean(self.cells.count, self.config.memory, self.like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weight of each bin."""
        return {"causal": self._weights()}

    def _weights(self) -> Tensor:
        losses = self.mean.values
        return torch.exp(-self.strength * (torch.cumsum(losses, 0) - losses))

    def in_metrics(self) -> dict[str, Tensor]:
        """Return the extent of the weights of the bins."""
        return extent(self.name, self._weights())

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor:
        """Look up the weight of each point's bin."""
        return weights["causal"][self.cells.of(queries)]

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum squares and points over each bin."""
        sums, points = self.cells.sums(squares, queries)
        return {"causal/squares": sums, "causal/points": points}

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Update the running means of the bins that hold a point."""
        points = statistics["causal/points"]
        self.mean.update(statistics["causal/squares"] / points.clamp(min=1), points > 0)


@final
class ResidualAttention(Weighting):
    """λ ← γ·λ + η·|r|/max|r|, and the residual is multiplied by λ.

    The points of every step are new, so λ belongs to cells over time and space, |r| is the mean
    over a cell of the residual's size with its fixed weights, and the maximum is over the cells
    that hold a point; a cell without a point keeps its λ. λ starts at one, which is no weight, and
    stays in (0, η/(1 − γ)] once it is there.

    γ, in [0, 1), is the setting ``attention_decay``, and η, dimensionless, ``attention_rate``.

    Attributes:
        cells: Bins of time, and of the axes along which the equations are not all the same.

    Source: Anagnostopoulos, Toscano, Stergiopulos & Karniadakis 2024 (10.1016/j.cma.2024.116805,
        2307.00379), the rule for λ, there at points that stay.
    """

    name: ClassVar[str] = "residual_attention"
    settings: ClassVar[tuple[str, ...]] = (
        "bins",
        "space_bins",
        "attention_decay",
        "attention_rate",
    )

    def __init__(self, run: WeightedRun) -> None:
        super().__init__(run)
        self.cells = run.cells([a for a in run.problem.space if a.name not in run.homogeneous])
        self.multipliers = self.like.new_ones(self.cells.count)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return λ of each cell."""
        return {"attention": self.multipliers}

    def in_metrics(self) -> dict[str, Tensor]:
        """Return the extent of λ."""
        return extent(self.name, self.multipliers)

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor:
        """Look up λ² of each point's cell, since it multiplies the residual itself."""
        return weights["attention"][self.cells.of(queries)].square()

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum the residual's size and the points over each cell."""
        sums, points = self.cells.sums(squares.sqrt(), queries)
        return {"attention/sizes": sums, "attention/points": points}

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Let λ decay and grow in the cells that hold a point."""
        points = statistics["attention/points"]
        sizes = statistics["attention/sizes"] / points.clamp(min=1)
        smallest = torch.finfo(sizes.dtype).tiny
        kept = self.config.attention_decay * self.multipliers
        moved = kept + self.config.attention_rate * sizes / sizes.max().clamp(min=smallest)
        self.multipliers = torch.where(points > 0, moved, self.multipliers)

    def state_dict(self) -> dict[str, Tensor]:
        """Return λ."""
        return {"multipliers": self.multipliers}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore λ."""
        self.multipliers = state["multipliers"]
