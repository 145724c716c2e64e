"""Loss and gradients of a batch: eager or compiled, summed over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_map

from piop.residual.compiled_step import TracedStep
from piop.training.batches.batch import Batch, flatten
from piop.training.distributed import Processes
from piop.training.loop.phases import Gradients
from piop.training.loop.profile import BACKWARD, COLLECTIVE, LOSS, NETWORK, Profile
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.weighting.base import Outcome


@contextmanager
def separate_gradients(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Run a block with empty gradients, and add the earlier ones to its own at the end.

    Args:
        parameters: The parameters that have the gradients.
    """
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    yield
    for parameter, earlier in zip(parameters, before, strict=True):
        if earlier is not None:
            parameter.grad = earlier if parameter.grad is None else earlier + parameter.grad


def eager_gradients(loss: ResidualLoss, profile: Profile) -> Gradients:
    """Make the plain step: the loss, then ``backward``."""

    def gradients(batch: Batch) -> Outcome:
        with profile.part(LOSS), _timed(loss.operator.backbone, profile):
            parts, statistics = loss(batch)
        with profile.part(BACKWARD):
            parts["loss"].backward()
        return {name: value.detach() for name, value in parts.items()}, statistics

    return gradients


def profile_eager(
    loss: ResidualLoss, draw: Callable[[int], Batch], device: str, steps: int = 3
) -> dict[str, Any]:
    """Profile a few eager steps, whose parts a compiled step does not show.

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
    draw = profile.timed_draw(draw)
    for step in range(steps + 1):
        gradients(draw(step))
        loss.zero_grad(set_to_none=True)
        if step == 0:
            profile.forget()
    return profile.report(steps)


@contextmanager
def _timed(network: nn.Module, profile: Profile) -> Iterator[None]:
    """Run a block in which the calls of the network are a part of the profile."""
    if not profile.on:
        yield
        return
    with ExitStack() as stack:
        part = partial(profile.part, NETWORK)
        before = network.register_forward_pre_hook(lambda *_: stack.enter_context(part()))
        after = network.register_forward_hook(lambda *_: stack.close(), always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()


class CompiledGradients:
    """The step as one compiled graph from the tensors of a batch to the gradients.

    Buffers are inputs of the graph, so that it is the same for every seed.

    Args:
        loss: The objective.
        graphs: Record CUDA graphs.

    Attributes:
        parameters: Those that are trained.
    """

    def __init__(self, loss: ResidualLoss, graphs: bool = False) -> None:
        self.loss = loss
        trained = {n: p for n, p in loss.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(trained), list(trained.values())
        self._step = TracedStep(self._flat_loss, graphs=graphs)
        self._rebuild: Callable[[list[Tensor]], Any] | None = None

    def use_threads(self, threads: int) -> None:
        """Compile for so many threads in each operation, on a CPU; before compiling."""
        self._step.threads = threads

    @property
    def concurrent(self) -> bool:
        """Whether several threads may compute at a time, once it is compiled."""
        return self._step.concurrent

    def _flat_loss(self, values: list[Tensor], inputs: list[Tensor]) -> Outcome:
        if self._rebuild is None:
            raise ValueError("a step is traced on a batch")
        buffers, batch = self._rebuild(inputs)
        state = {**dict(zip(self.names, values, strict=True)), **buffers}
        return functional_call(self.loss, state, (batch,))

    def _tensors(self, batch: Batch) -> list[Tensor]:
        tensors, rebuild = flatten((dict(self.loss.named_buffers()), batch))
        self._rebuild = self._rebuild or rebuild
        return tensors

    def foresee(self, batch: Batch) -> float | None:
        """Trace the step; return the seconds that compiling will take, None if it stays eager."""
        return self._step.foresee(self.parameters, self._tensors(batch))

    @property
    def may_use_background(self) -> bool:
        """Whether the step can be compiled in the background."""
        return self._step.may_use_background(self.parameters[0].device)

    def start_background(self, batch: Batch, limit: float) -> bool:
        """Trace and compile in the background; return whether that has begun."""
        return self._step.start_background(self.parameters, self._tensors(batch), limit)

    def extend_background(self, limit: float) -> None:
        """Let the background compile for so many seconds from now."""
        self._step.extend_background(limit)

    def background_runs(self) -> bool:
        """Whether the background is at work, where :meth:`prepare` would do it again."""
        return self._step.background_runs()

    @property
    def background_foresees(self) -> float | None:
        """Seconds that compiling in the background takes; None until it has traced."""
        return self._step.background_foresees

    def close(self) -> None:
        """End compiling in the background."""
        self._step.close()

    def prepare(self, batch: Batch) -> bool:
        """Trace and compile for the shapes of a batch; return whether the step is compiled."""
        return self._step.prepare(self.parameters, self._tensors(batch)) is not None

    def stop(self) -> None:
        """End tracing and compiling, as :meth:`TracedStep.stop` does."""
        self._step.stop()

    def compute(self, batch: Batch) -> tuple[Outcome, tuple[Tensor, ...]]:
        """Return parts and statistics, and the gradient of each parameter, which is not added."""
        found, gradients = self._step(self.parameters, self._tensors(batch))
        return tree_map(found.__getitem__, self._step.structure), gradients

    def add(self, gradients: Sequence[Tensor]) -> None:
        """Add gradients to those of the parameters."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            before = parameter.grad
            parameter.grad = gradient if before is None else before + gradient

    def __call__(self, batch: Batch) -> Outcome:
        """Compute parts and statistics and add the gradients."""
        outcome, gradients = self.compute(batch)
        self.add(gradients)
        return outcome


@dataclass(frozen=True)
class ControlFlags:
    """Flags that processes exchange with the gradients, so that all take the same decisions.

    Attributes:
        spent: Seconds of the budget that are spent, by the first process's clock.
        stop: Whether one of them has a request to stop.
        save: Whether the first wants a checkpoint.
    """

    spent: float = 0.0
    stop: bool = False
    save: bool = False


@dataclass
class SharedGradients:
    """Batch → the outcome of the whole batch, leaving its gradients in the parameters.

    Attributes:
        gradients: The step on this process's part of the batch.
        module: Whose gradients are summed.
        processes: Those that share the batch.
        own_flags: Returns the control flags of this process.
        profile: Takes the time of the message, in which slower processes are waited for.
        flags: The combined flags of all processes, as of the last step.
    """

    gradients: Gradients
    module: nn.Module
    processes: Processes
    own_flags: Callable[[], ControlFlags]
    profile: Profile = field(default_factory=Profile)
    flags: ControlFlags = ControlFlags()

    def __post_init__(self) -> None:
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]

    def __call__(self, batch: Batch) -> Outcome:
        """Compute the own part, then sum over the processes."""
        with separate_gradients(self.parameters):
            parts, statistics = self.gradients(batch)
            own = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
            mine, first = self.own_flags(), self.processes.leads
            flags = own[0].new_tensor([mine.spent * first, mine.stop, mine.save and first])
            tensors, rebuild = flatten((parts, statistics, flags))
            with self.profile.part(COLLECTIVE):
                found = self.processes.add([*own, *tensors])
            for parameter, gradient in zip(self.parameters, found, strict=False):
                parameter.grad = gradient
        parts, statistics, flags = rebuild(found[len(own) :])
        spent, stop, save = flags.tolist()
        self.flags = ControlFlags(spent, stop > 0, save > 0)
        return parts, statistics
