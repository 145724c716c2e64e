"""The one loop that trains every network, and what it leaves on the test samples."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from piop.metrics import relative_l2

from .networks import Entrant
from .problems import Samples

AT_ONCE = 50


@dataclass(frozen=True)
class Recipe:
    """How every network is trained; the peak rate alone is its own.

    AdamW; the rate rises to its peak and falls to nothing once (Smith & Topin 2017,
    arXiv:1708.07120); the loss is the mean relative L2 error of whole solutions.

    Attributes:
        epochs: Passes over the training data.
        batch: Samples of a step.
        weight_decay: Of AdamW.
        rise: Share of the steps in which the rate rises.
        clip: Norm that gradients are cut to.
    """

    epochs: int = 10
    batch: int = 16
    weight_decay: float = 1e-4
    rise: float = 0.2
    clip: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """Give it as a plain dict."""
        return asdict(self)


class Diverged(ArithmeticError):
    """A loss was not finite."""


def train(entrant: Entrant, samples: Samples, recipe: Recipe, rate: float, seed: int) -> float:
    """Train an entrant; the order of the samples follows from the seed alone.

    Returns:
        Seconds of processor time.

    Raises:
        Diverged: At the first loss that is not finite.
    """
    start = time.process_time()
    generator = torch.Generator().manual_seed(seed)
    batches = -(-len(samples) // recipe.batch)
    optimiser = torch.optim.AdamW(entrant.parameters(), lr=rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=rate, total_steps=recipe.epochs * batches, pct_start=recipe.rise,
        cycle_momentum=False,
    )  # fmt: skip
    entrant.train()
    for _ in range(recipe.epochs):
        for index in torch.randperm(len(samples), generator=generator).split(recipe.batch):
            part = samples.take(index)
            loss = relative_l2(entrant(part), part.values).mean()
            if not torch.isfinite(loss):
                raise Diverged
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(entrant.parameters(), recipe.clip)
            optimiser.step()
            schedule.step()
    return time.process_time() - start


@torch.no_grad()
def judge(entrant: Entrant, samples: Samples) -> Tensor:
    """Relative L2 error of each sample ``[n]``."""
    entrant.eval()
    parts = [samples.take(index) for index in torch.arange(len(samples)).split(AT_ONCE)]
    return torch.cat([relative_l2(entrant(part), part.values) for part in parts])
