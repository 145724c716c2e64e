"""One training step up to the gradients: eager, or traced and compiled as one graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from piop.residual import GridResidual
from piop.residual.trace import TracedStep, compile_step
from piop.training.batches.batch import Batch, flatten
from piop.training.loop.microbatches import COMPILED_ROWS, EAGER_ROWS, Microbatched
from piop.training.loop.phases import Gradients
from piop.training.loop.profile import BACKWARD, COMPILED, DRAW, LOSS, NETWORK, Profile
from piop.training.loss.objective import ResidualLoss
from piop.training.weighting import Outcome


def make_gradients(
    loss: ResidualLoss, compiled: bool, profile: Profile | None = None, graphs: bool = False
) -> Gradients:
    """Make the function that computes the loss and adds its gradients to the parameters.

    Args:
        loss: The objective.
        compiled: Trace and compile on the first batch, for whose shapes it then holds.
        profile: Takes the time of network, loss and backward, or of the compiled step as a whole.
        graphs: Record CUDA graphs of the compiled step.

    Returns:
        Batch → the parts of the loss and the statistics, detached.
    """
    profile = profile or Profile()
    if compiled:
        step = CompiledGradients(loss, graphs)
        return profile.timed(COMPILED, _in_pieces(step, loss, COMPILED_ROWS))
    return _in_pieces(eager_gradients(loss, profile), loss, EAGER_ROWS)


def _in_pieces(gradients: Gradients, loss: ResidualLoss, rows: int) -> Gradients:
    if loss.residual is None or isinstance(loss.residual, GridResidual):
        return gradients  # a grid is answered for all functions together
    trained = [p for p in loss.parameters() if p.requires_grad]
    return Microbatched(gradients, trained, loss.residual.plan.count, rows)


def eager_gradients(loss: ResidualLoss, profile: Profile) -> Gradients:
    """Make the plain step: the loss, then ``backward``."""
    network = loss.operator.backbone

    def forward(batch: Batch) -> Outcome:
        if not profile.on:
            return loss(batch)
        with profile.part(LOSS), _called(network, partial(profile.part, NETWORK)):
            return loss(batch)

    def gradients(batch: Batch) -> Outcome:
        parts, statistics = forward(batch)
        with profile.part(BACKWARD):
            parts["loss"].backward()
        return {name: value.detach() for name, value in parts.items()}, statistics

    return gradients


def split_gradients(
    loss: ResidualLoss, draw: Callable[[int], Batch], device: str, steps: int = 3
) -> dict[str, Any]:
    """Time a few eager steps apart, to split up what a compiled step does as a whole.

    Args:
        loss: The objective; its gradients are lost.
        draw: Step → batch.
        device: Where it runs.
        steps: How many, after one that is not counted.

    Returns:
        As :meth:`Profile.report`.
    """
    profile = Profile(device, on=True)
    gradients = eager_gradients(loss, profile)
    draw = profile.timed(DRAW, draw)
    for step in range(steps + 1):
        gradients(draw(step))
        loss.zero_grad(set_to_none=True)
        if step == 0:
            profile.forget()
    return profile.report(steps)


@contextmanager
def _called(module: nn.Module, part: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Run a block in which the calls of a module are within a part."""
    with ExitStack() as stack:
        before = module.register_forward_pre_hook(lambda *_: stack.enter_context(part()))
        after = module.register_forward_hook(lambda *_: stack.close(), always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()


class CompiledGradients:
    """The step as one compiled graph from the tensors of a batch to the gradients.

    Args:
        loss: The objective.
        graphs: Record CUDA graphs.

    Attributes:
        step: The compiled step; None before the first batch.
    """

    def __init__(self, loss: ResidualLoss, graphs: bool = False) -> None:
        self.loss, self.graphs = loss, graphs
        trained = {n: p for n, p in loss.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(trained), list(trained.values())
        self.step: TracedStep | None = None
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

            self.step = compile_step(flat_loss, self.parameters, tensors, graphs=self.graphs)
        found, gradients = self.step(self.parameters, tensors)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            before = parameter.grad
            parameter.grad = gradient if before is None else before + gradient
        count = len(self._parts)
        parts = dict(zip(self._parts, found[:count], strict=True))
        return parts, dict(zip(self._statistics, found[count:], strict=True))
