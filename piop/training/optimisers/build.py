"""Step sizes, optimisers and the running mean of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.training.config import OptimiserConfig
from piop.training.optimisers.muon import Muon


def learning_rate_share(progress: float, config: OptimiserConfig) -> float:
    """Give the step size as a share of its peak: linear warm-up, then half a cosine.

    Args:
        progress: Share of the budget that is spent, in [0, 1].
        config: ``warmup`` and ``final``.

    Source: Loshchilov & Hutter 2017, eq. 5 (1608.03983), one period, with a warm-up.
    """
    if progress < config.warmup:
        return progress / config.warmup
    rest = (min(progress, 1.0) - config.warmup) / (1 - config.warmup)
    return config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * rest))


def build_optimiser(
    parameters: Iterable[nn.Parameter], config: OptimiserConfig
) -> torch.optim.Optimizer | Muon:
    """Build AdamW, Muon or SOAP.

    Raises:
        UsageError: If SOAP is asked for weights that are complex numbers.

    Source: SOAP, Vyas et al. 2024 (2409.11321), from ``pytorch_optimizer``, whose weight decay of
    0.01 is turned off by default.
    """
    parameters = [p for p in parameters if p.requires_grad]
    if config.optimiser == "adamw":
        return torch.optim.AdamW(
            parameters, lr=config.learning_rate, weight_decay=config.weight_decay
        )
    if config.optimiser == "muon":
        return Muon(parameters, config.learning_rate, config.weight_decay)
    if any(p.is_complex() for p in parameters):
        raise UsageError(
            "optimiser: soap cannot train complex weights; store them as pairs of real numbers, "
            "or use --set optimiser=adamw"
        )
    from pytorch_optimizer import SOAP

    from piop.training.optimisers.soap import StableSOAP

    exact = any(p.dtype == torch.float64 for p in parameters)
    return (StableSOAP if exact else SOAP)(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        precondition_frequency=config.precondition,
    )


ITERATIONS = 10
"""Iterations of a step of L-BFGS."""


def build_lbfgs(parameters: Iterable[nn.Parameter]) -> torch.optim.LBFGS:
    """Build L-BFGS for the finish, with strong Wolfe line search.

    Source: Liu & Nocedal 1989 (doi:10.1007/BF01589116), from ``torch.optim``.
    """
    parameters = [p for p in parameters if p.requires_grad]
    return torch.optim.LBFGS(
        parameters,
        max_iter=ITERATIONS,
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
        history_size=50,
        line_search_fn="strong_wolfe",
    )


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients so that their joint norm is at most ``limit`` (0: leave them).

    Returns:
        The norm before, a scalar tensor.
    """
    limit = limit if limit > 0 else math.inf
    return torch.nn.utils.clip_grad_norm_([p for p in parameters if p.grad is not None], limit)


class WeightAverage:
    """Running mean of the weights: mean ← decay·mean + (1 − decay)·weights.

    The decay grows with the steps, min(decay, (1 + n)/(10 + n)), so that the start is forgotten.

    Args:
        module: Whose weights are averaged.
        decay: Per step, in [0, 1); 0 keeps the weights themselves.

    Source: Polyak & Juditsky 1992 (doi:10.1137/0330046), in its exponential form.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.count = 0
        floating = {k: v for k, v in module.state_dict().items() if v.is_floating_point()}
        self.mean = {k: v.detach().clone() for k, v in floating.items()} if decay else {}

    @torch.no_grad()
    def update(self) -> None:
        """Take the present weights into the mean."""
        if not self.decay:
            return
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        present = self.module.state_dict()
        for name, mean in self.mean.items():
            mean.lerp_(present[name], 1 - decay)

    def weights(self) -> dict[str, Tensor]:
        """Give the weights that predict: the mean, or the present ones where none is kept."""
        return {**self.module.state_dict(), **(self.mean if self.count else {})}

    def state_dict(self) -> dict[str, Any]:
        """Give what a resume needs."""
        return {"count": self.count, "mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave."""
        self.count = int(state["count"])
        for name, value in state["mean"].items():
            self.mean[name].copy_(value)
