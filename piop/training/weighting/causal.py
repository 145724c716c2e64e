"""Causal weights: later times count only once earlier ones are solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.operator import Clock
from piop.training.weighting.base import Weighting


@final
class CausalWeighting(Weighting):
    """w_i = exp(−ε Σ_{k<i} L_k), with L_k the mean squared residual of time bin k.

    L_k is a running mean over steps, since a step's own points are few and, split over processes,
    unknown to each other. A bin that no point has ever met counts as solved.

    Args:
        clock: The time axis.
        bins: Number of equal time bins.
        strength: ε, dimensionless.
        memory: Share of the running mean that a step keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Sankaran & Perdikaris 2022, sec. 3 (2203.07404), with bins for their time grid
        and a running mean for their single evaluation.
    """

    name: ClassVar[str] = "causal"

    def __init__(
        self, clock: Clock, bins: int, strength: float, memory: float, like: Tensor
    ) -> None:
        self.clock, self.bins, self.strength, self.memory = clock, bins, strength, memory
        self.losses = like.new_zeros(bins)
        self.seen = torch.zeros_like(self.losses)

    def entering(self) -> dict[str, Tensor]:
        """Give the weight of each bin."""
        before = torch.cumsum(self.losses, 0) - self.losses
        return {"causal": torch.exp(-self.strength * before)}

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor:
        """Look up the weight of each point's bin."""
        return weights["causal"][self._bin(queries)]

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum squares and points over each bin."""
        member = (
            self._bin(queries)[..., None] == torch.arange(self.bins, device=squares.device)
        ).to(squares)
        return {
            "causal/squares": (squares[..., None] * member).sum((0, 1)),
            "causal/points": member.sum((0, 1)),
        }

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Move the running means of the bins that were met; the first mean is taken as it is."""
        points = statistics["causal/points"]
        means = statistics["causal/squares"] / points.clamp(min=1)
        moved = torch.lerp(means, self.losses, self.memory * self.seen)
        self.losses = torch.where(points > 0, moved, self.losses)
        self.seen = torch.where(points > 0, 1.0, self.seen).to(self.losses)

    def state_dict(self) -> dict[str, Tensor]:
        """Give the running means and which of them have begun."""
        return {"losses": self.losses, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the running means."""
        self.losses, self.seen = state["losses"], state["seen"]

    def _bin(self, queries: Tensor) -> Tensor:
        """Number of each point's bin ``[B, N]``."""
        phase = (queries.detach()[..., 0] - self.clock.low) / self.clock.length
        return (phase * self.bins).long().clamp(0, self.bins - 1)
