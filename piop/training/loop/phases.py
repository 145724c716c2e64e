"""The two phases of training: stochastic steps, then L-BFGS on frozen batches."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from piop.denormals import flush_denormals
from piop.training.batches.batch import Batch, BatchSource
from piop.training.config import OptimiserConfig
from piop.training.loss.weighting.base import WEIGHT, Outcome, Weightings
from piop.training.operator import Inferred
from piop.training.optimisers.build import (
    ITERATIONS,
    Muon,
    WeightAverage,
    build_lbfgs,
    build_optimiser,
    clip_gradients,
    decay_weights,
    learning_rate_factor,
)

Gradients = Callable[[Batch], Outcome]
FROZEN_BATCHES = 8
"""Batches that the L-BFGS finish sums over, where the budget has as many gradients left."""


@dataclass(frozen=True)
class TrainingTask:
    """What both phases of training work on.

    Attributes:
        module: The module whose parameters are trained in place.
        gradients: Batch → parts of the loss and statistics, leaving gradients in the parameters.
        draw: Step and fraction of the budget that is spent → batch.
        config: The optimiser's choices.
        weightings: Adaptive weights.
    """

    module: nn.Module
    gradients: Gradients
    draw: BatchSource
    config: OptimiserConfig
    weightings: Weightings


StepResult = tuple[dict[str, Any], int]
"""The row of metrics of a step, and how many gradients it took."""


class Phase(ABC):
    """A phase of training: an optimiser and the batches that it takes.

    Args:
        task: What is trained.

    Attributes:
        finish: Whether this is the last phase.
        parameters: The parameters that are trained.
        optimiser: What moves them.
        outcome: Parts and statistics of the last gradients, also where the step after them failed.
    """

    finish: ClassVar[bool]
    optimiser: torch.optim.Optimizer | Muon

    def __init__(self, task: TrainingTask) -> None:
        self.task = task
        self.parameters = [p for p in task.module.parameters() if p.requires_grad]
        self.outcome: Outcome = ({}, {})

    @abstractmethod
    def step(self, index: int, fraction: float, left: int | None = None) -> StepResult:
        """Take one step.

        Args:
            index: Gradients computed so far in the run, which keys the batch.
            fraction: Fraction of the budget that is spent, in [0, 1).
            left: Gradients left in the budget; None for a budget in time.

        Returns:
            The row of metrics, and how many gradients it took.
        """

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that predict: by default the present ones."""
        return self.task.module.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return what a resume needs besides the module's weights."""
        return {"optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.optimiser.load_state_dict(state["optimiser"])


@final
class Stochastic(Phase):
    """AdamW, Muon or SOAP on a fresh batch each step, with a running mean of the weights."""

    finish: ClassVar[bool] = False

    def __init__(self, task: TrainingTask) -> None:
        super().__init__(task)
        self.optimiser = build_optimiser(self.parameters, task.config)
        inferred = {
            id(p) for m in task.module.modules() if isinstance(m, Inferred) for p in m.parameters()
        }
        self._decaying = [p for p in self.parameters if id(p) not in inferred]
        self.average = WeightAverage(task.module, task.config.average)

    @flush_denormals()
    def step(self, index: int, fraction: float, left: int | None = None) -> StepResult:
        """Take one step at the scheduled step size."""
        config = self.task.config
        rate = config.learning_rate * learning_rate_factor(fraction, index, config)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        weightings, batch = self.task.weightings, self.task.draw(index, fraction)
        batch = weightings.prepare(batch, index, self.task.gradients, self.parameters)
        self.optimiser.zero_grad(set_to_none=True)
        self.outcome = parts, statistics = self.task.gradients(batch)
        weightings.update(statistics)
        norm = clip_gradients(self.parameters, config.clip)
        self.optimiser.step()
        decay_weights(self._decaying, rate * config.weight_decay)
        self.average.update()
        factors = weightings.of_parts(batch, parts.keys() - {"loss"})
        weights = {WEIGHT + part: factors[part] for part in parts if part in factors}
        return {**parts, **weights, "gradient": norm, "learning_rate": rate}, 1

    def weights(self) -> dict[str, Tensor]:
        """Return the running mean, or the present weights where none is kept."""
        return self.average.weights()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the optimiser, the mean and the source of batches."""
        own = {"average": self.average.state_dict(), "source": self.task.draw.state_dict()}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore these states; runs of older versions have none of the source."""
        super().load_state_dict(state)
        self.average.load_state_dict(state["average"])
        self.task.draw.load_state_dict(state.get("source", {}))


class _NotFiniteError(Exception):
    """The loss that a step starts from is not finite: the monitor refuses it."""


@final
class QuasiNewton(Phase):
    """L-BFGS on the sum over a few batches that stay the same to the end, weights included.

    Args:
        start: Step whose batch, with those after it, is frozen.
        fraction: Fraction of the budget that was spent then.
        count: Batches to sum over.
    """

    finish: ClassVar[bool] = True

    def __init__(
        self, task: TrainingTask, start: int, fraction: float, count: int = FROZEN_BATCHES
    ) -> None:
        super().__init__(task)
        self.optimiser = self.lbfgs = build_lbfgs(self.parameters)
        self.start, self.fraction = start, fraction
        # Batches may depend on weights and states at their time: a resume draws them from these.
        self.source = task.draw.state_dict()
        self.origin = {name: value.clone() for name, value in task.module.state_dict().items()}
        self.frozen = [task.weightings.attach(task.draw(start + i, fraction)) for i in range(count)]

    @flush_denormals()
    def step(self, index: int, fraction: float, left: int | None = None) -> StepResult:
        """Take ten iterations with their line searches, fewer where the budget ends before."""
        if left is not None:
            rounds = max(1, left // len(self.frozen))
            for group in self.optimiser.param_groups:
                group["max_iter"] = min(ITERATIONS, max(1, rounds // 2))
                group["max_eval"] = rounds
        evaluations: list[dict[str, Tensor]] = []

        def closure() -> float:
            self.optimiser.zero_grad(set_to_none=True)
            parts: dict[str, Tensor] = {}
            for batch in self.frozen:
                self.outcome = self.task.gradients(batch)
                for name, value in self.outcome[0].items():
                    parts[name] = parts.get(name, 0.0) + value / len(self.frozen)
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad /= len(self.frozen)
            evaluations.append(parts)
            loss = float(parts["loss"])
            if len(evaluations) == 1 and not math.isfinite(loss):
                raise _NotFiniteError
            return loss

        # The line search of PyTorch raises IndexError where it starts from NaN with finite slopes.
        with contextlib.suppress(_NotFiniteError):
            self.lbfgs.step(closure)
        return evaluations[0], len(evaluations) * len(self.frozen)

    def state_dict(self) -> dict[str, Any]:
        """Return the curvature pairs and which batches are frozen."""
        own: dict[str, Any] = {
            "start": self.start,
            "share": self.fraction,
            "count": len(self.frozen),
        }
        own |= {"source": self.source, "origin": self.origin}
        return {**super().state_dict(), **own}
