"""Balance of the loss's terms by the traces of their neural tangent kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.batch import Batch
from piop.training.weighting.balance import balanced
from piop.training.weighting.base import Measure, Weighting
from piop.training.weighting.probes import Probes
from piop.training.weighting.running import RunningMean


@final
class NtkWeighting(Weighting):
    """λ_k = mean_j k̄_j / k̄_k, with k̄ the mean of the diagonal of a part's tangent kernel.

    The traces are running means of Hutchinson's estimate, which is unbiased; the weights are not
    averaged themselves, since the mean of 1/k̄ is not the inverse of the mean.

    Args:
        probes: The terms of the loss, and their signs.
        every: Steps between measurements; each takes one gradient per part.
        memory: Share of the running mean that a measurement keeps.
        like: A tensor of the device and precision of the step.

    Source: Wang, Yu & Perdikaris 2022, Algorithm 1 (2007.14527): λ_k = tr K / tr K_k, here per
        point, which is the same for parts with equally many points up to a common factor.
    """

    name: ClassVar[str] = "ntk"

    def __init__(self, probes: Probes, every: int, memory: float, like: Tensor) -> None:
        self.probes, self.every, self.like = probes, every, like
        self.parts = tuple(dict.fromkeys(term.part for term in probes.terms))
        self.traces = RunningMean(len(self.parts), memory, like)

    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Give λ of each part, one until something was measured, and signs that are zero."""
        known = bool(self.traces.seen.all())
        factors = balanced(self.traces.values) if known else torch.ones_like(self.traces.values)
        return {"parts": factors, **self.probes.zeros(batch)}

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor:
        """Look up λ of a part."""
        return weights["parts"][self.parts.index(part)]

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:
        """Estimate the trace of each part, every so many steps."""
        if step % self.every:
            return
        off = {"parts": torch.zeros_like(self.traces.values)}
        along = [self.probes.along(part, batch, step) for part in self.parts]
        found = [gradient({**off, **signs})[0] for signs in along]
        new = torch.stack(found).to(self.like)
        self.traces.update(new, torch.ones_like(new, dtype=torch.bool))

    def state_dict(self) -> dict[str, Tensor]:
        """Give the running means."""
        return self.traces.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the running means."""
        self.traces.load_state_dict(state)
