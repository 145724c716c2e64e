"""The two phases of training: stochastic steps, then L-BFGS on batches that stay the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn

from piop.training.batches.batch import Batch
from piop.training.config import OptimiserConfig
from piop.training.loss.weighting import Outcome, Weightings
from piop.training.optimisers.build import (
    ITERATIONS,
    WeightAverage,
    build_lbfgs,
    build_optimiser,
    clip_gradients,
    learning_rate_share,
)

Gradients = Callable[[Batch], Outcome]
Draw = Callable[[int, float], Batch]
FROZEN_BATCHES = 8
"""Batches that the L-BFGS finish sums over, where the budget has as many gradients left."""


class Phase(ABC):
    """A way of bringing the loss down.

    Args:
        module: Whose parameters are trained in place.
        gradients: Batch → parts of the loss and statistics, leaving gradients in the parameters.
        draw: Step and share of the budget that is spent → batch.
        config: The optimiser's choices.
        weightings: Adaptive weights.
    """

    def __init__(
        self,
        module: nn.Module,
        gradients: Gradients,
        draw: Draw,
        config: OptimiserConfig,
        weightings: Weightings,
    ) -> None:
        self.module = module
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.gradients = gradients
        self.draw = draw
        self.config = config
        self.weightings = weightings
        self.seen: Outcome = ({}, {})
        """What the last gradients came with, also where the step after them failed."""

    @abstractmethod
    def step(self, index: int, share: float, left: int | None = None) -> tuple[dict[str, Any], int]:
        """Take one step.

        Args:
            index: Gradients computed so far in the run, which keys the batch.
            share: Share of the budget that is spent, in [0, 1).
            left: Gradients left in the budget; None for a budget in time.

        Returns:
            What to note down, and how many gradients it took.
        """

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Give the weights that predict."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Give what a resume needs besides the module's weights."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave."""


@final
class Stochastic(Phase):
    """AdamW, Muon or SOAP on a fresh batch each step, with a running mean of the weights."""

    def __init__(
        self,
        module: nn.Module,
        gradients: Gradients,
        draw: Draw,
        config: OptimiserConfig,
        weightings: Weightings,
    ) -> None:
        super().__init__(module, gradients, draw, config, weightings)
        self.optimiser = build_optimiser(self.parameters, config)
        self.average = WeightAverage(module, config.average)

    def step(self, index: int, share: float, left: int | None = None) -> tuple[dict[str, Any], int]:
        """Take one step at the scheduled step size."""
        rate = self.config.learning_rate * learning_rate_share(share, self.config)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        batch = self.weightings.prepare(
            self.draw(index, share), index, self.gradients, self.parameters
        )
        self.optimiser.zero_grad(set_to_none=True)
        self.seen = self.gradients(batch)
        parts, statistics = self.seen
        self.weightings.update(statistics)
        norm = clip_gradients(self.parameters, self.config.clip)
        self.optimiser.step()
        self.average.update()
        return {**parts, "gradient": norm, "learning_rate": rate}, 1

    def weights(self) -> dict[str, Tensor]:
        """Give the running mean, or the present weights where none is kept."""
        return self.average.weights()

    def state_dict(self) -> dict[str, Any]:
        """Give the optimiser's state and the mean."""
        return {"optimiser": self.optimiser.state_dict(), "average": self.average.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the optimiser's state and the mean."""
        self.optimiser.load_state_dict(state["optimiser"])
        self.average.load_state_dict(state["average"])


@final
class QuasiNewton(Phase):
    """L-BFGS on the sum over a few batches that stay the same to the end, weights included.

    Args:
        start: Step whose batch, with those after it, is frozen.
        share: Share of the budget that was spent then.
        count: Batches to sum over.
    """

    def __init__(
        self,
        module: nn.Module,
        gradients: Gradients,
        draw: Draw,
        config: OptimiserConfig,
        weightings: Weightings,
        start: int,
        share: float,
        count: int = FROZEN_BATCHES,
    ) -> None:
        super().__init__(module, gradients, draw, config, weightings)
        self.optimiser = build_lbfgs(self.parameters)
        self.start, self.share = start, share
        # A batch may depend on the weights at its time: a resume draws the same ones from these.
        self.origin = {name: value.clone() for name, value in module.state_dict().items()}
        self.frozen = [weightings.attach(draw(start + i, share)) for i in range(count)]

    def step(self, index: int, share: float, left: int | None = None) -> tuple[dict[str, Any], int]:
        """Take ten iterations with their line searches, fewer where the budget ends before."""
        if left is not None:
            rounds = max(1, left // len(self.frozen))
            for group in self.optimiser.param_groups:
                group["max_iter"] = min(ITERATIONS, max(1, rounds // 2))
                group["max_eval"] = rounds
        parts: dict[str, Tensor] = {}
        first: dict[str, Tensor] = {}
        count = 0

        def closure() -> Tensor:
            nonlocal count
            self.optimiser.zero_grad(set_to_none=True)
            parts.clear()
            for batch in self.frozen:
                self.seen = self.gradients(batch)
                for name, value in self.seen[0].items():
                    parts[name] = parts.get(name, 0.0) + value / len(self.frozen)
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad /= len(self.frozen)
            count += len(self.frozen)
            if not first:
                first.update(parts)
            return parts["loss"]

        self.optimiser.step(closure)  # type: ignore[arg-type]
        return dict(first), count

    def weights(self) -> dict[str, Tensor]:
        """Give the present weights."""
        return self.module.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Give the curvature pairs and which batches are frozen."""
        return {
            "optimiser": self.optimiser.state_dict(),
            "start": self.start,
            "share": self.share,
            "count": len(self.frozen),
            "origin": self.origin,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the curvature pairs."""
        self.optimiser.load_state_dict(state["optimiser"])
