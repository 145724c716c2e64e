"""Balance of the loss's terms by the norms of their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.batches.batch import Batch
from piop.training.weighting.base import Measure, RunningMean, Weighting, balanced, only


@final
class GradientNormWeighting(Weighting):
    """λ_k = mean_j ‖∇L_j‖ / ‖∇L_k‖ over the terms L_k of the loss, as a running mean.

    Args:
        fixed: The fixed weight of each part of the loss, by name; those of weight zero, which are
            switched off, take no part.
        every: Steps between measurements; each takes one gradient per part.
        memory: Share of the running mean that a measurement keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Teng & Perdikaris 2021, Algorithm 1 (2001.04536): gradients and their running
        mean; norms in place of largest and mean entries, for all terms alike, as in Wang, Sankaran,
        Wang & Perdikaris 2023, Algorithm 1 (2308.08468), with the mean over the terms for their
        sum, which is a constant factor.
    """

    name: ClassVar[str] = "gradient_norm"

    def __init__(self, fixed: Mapping[str, float], every: int, memory: float, like: Tensor) -> None:
        self.fixed = {part: weight for part, weight in fixed.items() if weight > 0}
        self.parts = tuple(self.fixed)
        self.every, self.like = every, like
        self.mean = RunningMean(len(self.parts), memory, like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Give λ of each part; one until something was measured."""
        return {"parts": torch.where(self.mean.seen > 0, self.mean.values, 1.0)}

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Look up λ of a part."""
        return weights["parts"][self.parts.index(part)] if part in self.parts else 1.0

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Take the gradient of each part alone, every so many steps."""
        if step % self.every:
            return
        squares = []
        for k, part in enumerate(self.parts):
            alone = only(k, len(self.parts), self.like) / self.fixed[part]
            squares.append(gradient({"parts": alone})[0])
        new = balanced(torch.stack(squares).sqrt()).to(self.like)
        self.mean.update(new, torch.ones_like(new, dtype=torch.bool))

    def state_dict(self) -> dict[str, Tensor]:
        """Give the running means."""
        return self.mean.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the running means."""
        self.mean.load_state_dict(state)
