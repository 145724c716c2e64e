"""One training step up to the gradients: eager, or traced and compiled as one graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.func import functional_call

from piop.residual.trace import Step, compile_step
from piop.training.batch import Batch, flatten
from piop.training.objective import Outcome, ResidualLoss
from piop.training.phases import Gradients


def make_gradients(loss: ResidualLoss, compiled: bool) -> Gradients:
    """Make the function that computes the loss and adds its gradients to the parameters.

    Args:
        loss: The objective.
        compiled: Trace and compile on the first batch, for whose shapes it then holds.

    Returns:
        Batch → the parts of the loss and the statistics, detached.
    """
    return CompiledGradients(loss) if compiled else eager_gradients(loss)


def eager_gradients(loss: ResidualLoss) -> Gradients:
    """Make the plain step: the loss, then ``backward``."""

    def gradients(batch: Batch) -> Outcome:
        parts, statistics = loss(batch)
        parts["loss"].backward()
        return {name: value.detach() for name, value in parts.items()}, statistics

    return gradients


class CompiledGradients:
    """The step as one compiled graph from the tensors of a batch to the gradients.

    Args:
        loss: The objective.

    Attributes:
        step: The compiled step; None before the first batch.
    """

    def __init__(self, loss: ResidualLoss) -> None:
        self.loss = loss
        trained = {n: p for n, p in loss.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(trained), list(trained.values())
        self.step: Step | None = None
        self._parts: list[str] = []
        self._statistics: list[str] = []

    def __call__(self, batch: Batch) -> Outcome:
        """Compute parts and statistics and add the gradients."""
        tensors, rebuild = flatten(batch)
        if self.step is None:

            def flat_loss(values: list[Tensor], inputs: list[Tensor]) -> Any:
                weights = dict(zip(self.names, values, strict=True))
                parts, statistics = functional_call(self.loss, weights, (rebuild(inputs),))
                self._parts, self._statistics = list(parts), list(statistics)
                return (*parts.values(), *statistics.values())

            self.step = compile_step(flat_loss, self.parameters, tensors)
        found, gradients = self.step(self.parameters, tensors)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            before = parameter.grad
            parameter.grad = gradient if before is None else before + gradient
        count = len(self._parts)
        parts = dict(zip(self._parts, found[:count], strict=True))
        return parts, dict(zip(self._statistics, found[count:], strict=True))
