"""Optimisers, step-size schedules and the running mean of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError

if TYPE_CHECKING:
    from piop.training.config import OptimiserConfig


@final
class Muon:
    """Moves each matrix along the nearest orthogonal one to its momentum, the rest as AdamW does.

    A matrix W of shape m × n follows W ← W − η·0.2·√max(m, n)·O, where O is the polar factor of
    the Nesterov momentum of its gradient, by five Newton–Schulz iterations, which leave singular
    values between 0.7 and 1.2. The factor gives such a step the size of one of AdamW, so one step
    size η serves both. torch runs the iterations in bfloat16: they choose a direction, in which an
    error of a hundredth is no harm; the gradient itself stays as precise as the weights.

    Parameters with other than two axes, and matrices of a single row or column, for which the
    polar factor is just the direction, follow AdamW.

    Args:
        parameters: The parameters to train.
        learning_rate: η, dimensionless; that of AdamW.

    Attributes:
        param_groups: The groups of both, whose ``lr`` a schedule sets.

    Source: Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon/), with the step size of
    Liu et al. 2025, eq. 4 (2502.16982); ``torch.optim.Muon``.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> None:
        matrices = [p for p in parameters if is_matrix(p)]
        rest = [p for p in parameters if not is_matrix(p)]
        steps: dict[str, Any] = {"lr": learning_rate, "weight_decay": 0.0}
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            self.parts.append(torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **steps))
        if rest:
            self.parts.append(torch.optim.AdamW(rest, **steps))

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both."""
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none)

    def step(self) -> None:
        """Move all parameters by their gradients."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the momenta of both."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for part, own in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(own)


def is_matrix(parameter: nn.Parameter) -> bool:
    """Return whether a parameter has a polar factor worth computing.

    Example:
        >>> is_matrix(nn.Parameter(torch.ones(3, 2))), is_matrix(nn.Parameter(torch.ones(1, 2)))
        (True, False)
    """
    return parameter.ndim == 2 and min(parameter.shape) > 1 and not parameter.is_complex()


def learning_rate_factor(progress: float, step: int, config: OptimiserConfig) -> float:
    """Return the step size as a fraction of its peak.

    It is a linear warm-up, then half a cosine; of long trainings times the inverse square root of
    the step. At the peak for thousands of steps the weights grow, and networks lose what they can
    represent: diffusion_reaction ends at its linear solution (docs/training.md).

    Args:
        progress: Fraction of the budget that is spent, in [0, 1].
        step: Steps that were taken before.
        config: ``warmup``, ``final`` and ``decay_after``.

    Source: Loshchilov & Hutter 2017, eq. 5 (1608.03983), one period, with a warm-up; the inverse
    square root as in Vaswani et al. 2017, eq. 3 (1706.03762).
    """
    if progress < config.warmup:
        return progress / config.warmup
    rest = (min(progress, 1.0) - config.warmup) / (1 - config.warmup)
    cosine = config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * rest))
    if not 0 < config.decay_after < step:
        return cosine
    return cosine * math.sqrt(config.decay_after / step)


def _adamw(parameters: list[nn.Parameter], config: OptimiserConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=0.0)


def _muon(parameters: list[nn.Parameter], config: OptimiserConfig) -> Muon:
    return Muon(parameters, config.learning_rate)


def _soap(parameters: list[nn.Parameter], config: OptimiserConfig) -> torch.optim.Optimizer:
    """Build SOAP, in float64 with eigenbases that do not depend on rounding.

    Source: Vyas et al. 2024 (2409.11321).
    """
    if any(p.is_complex() for p in parameters):
        raise UsageError(
            "optimiser: soap cannot train complex weights; store them as pairs of real numbers, "
            "or use --set optimiser=adamw"
        )
    from piop.training.optimisers.soap import SOAP

    return SOAP(
        parameters,
        lr=config.learning_rate,
        weight_decay=0.0,
        precondition_frequency=config.precondition,
    )


def decay_weights(parameters: Sequence[Tensor], amount: float) -> None:
    """Shrink weights in place by a fraction, apart from any gradient.

    Source: Loshchilov & Hutter 2019, algorithm 2 (1711.05101).
    """
    if parameters and amount > 0:
        with torch.no_grad():
            torch._foreach_mul_(list(parameters), 1 - amount)  # pyright: ignore[reportPrivateImportUsage]


@dataclass(frozen=True)
class OptimiserKind:
    """An optimiser that a run may choose by its name.

    Attributes:
        build: Trained parameters and settings → the optimiser.
        usual_rate: Peak step size that usually suits it.
    """

    build: Callable[[list[nn.Parameter], OptimiserConfig], torch.optim.Optimizer | Muon]
    usual_rate: float


OPTIMISERS = {
    "soap": OptimiserKind(_soap, 1e-2),
    "muon": OptimiserKind(_muon, 1e-2),
    "adamw": OptimiserKind(_adamw, 1e-3),
}
"""Every optimiser, by the value of the setting ``optimiser``."""


def build_optimiser(
    parameters: Iterable[nn.Parameter], config: OptimiserConfig
) -> torch.optim.Optimizer | Muon:
    """Build the optimiser that a config chooses, for the parameters that are trained.

    Raises:
        UsageError: If SOAP is requested for complex weights.
    """
    return OPTIMISERS[config.optimiser].build([p for p in parameters if p.requires_grad], config)


ITERATIONS = 10
"""Iterations of a step of L-BFGS."""


def build_lbfgs(parameters: Iterable[nn.Parameter]) -> torch.optim.LBFGS:
    """Build L-BFGS for the finish, with strong Wolfe line search.

    Source: Liu & Nocedal 1989 (doi:10.1007/BF01589116), from ``torch.optim``.
    """
    return torch.optim.LBFGS(
        [p for p in parameters if p.requires_grad],
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
    return nn.utils.clip_grad_norm_(parameters, limit if limit > 0 else math.inf)


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
        """Update the mean by the present weights."""
        if not self.decay:
            return
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        present = self.module.state_dict()
        for name, mean in self.mean.items():
            mean.lerp_(present[name], 1 - decay)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that predict: the mean, or the present ones where none is kept."""
        return {**self.module.state_dict(), **(self.mean if self.count else {})}

    def state_dict(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return {"count": self.count, "mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.count = int(state["count"])
        for name, value in state["mean"].items():
            self.mean[name].copy_(value)
