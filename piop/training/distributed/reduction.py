"""One step over several processes: gradients, parts and statistics travel in one message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from piop.training.batches.batch import Batch
from piop.training.distributed import Processes
from piop.training.loop.microbatches import set_aside
from piop.training.loop.phases import Gradients
from piop.training.loop.profile import COLLECTIVE, Profile
from piop.training.loss.objective import Outcome


@dataclass(frozen=True)
class ControlFlags:
    """What processes tell each other beside the gradients, so that all decide alike.

    Attributes:
        spent: Seconds of the budget that are spent, by the first process's clock.
        stop: Whether one of them was asked to stop.
        save: Whether the first wants a checkpoint.
    """

    spent: float = 0.0
    stop: bool = False
    save: bool = False


class SharedGradients:
    """Batch → the outcome of the whole batch, leaving its gradients in the parameters.

    Args:
        gradients: The step on this process's part of the batch.
        module: Whose gradients are summed.
        processes: Those that share the batch.
        tell: Gives the news of this process.
        profile: Takes the time of the message, in which slower processes are waited for.

    Attributes:
        heard: The news of all, the same on each, as of the last step.
    """

    def __init__(
        self,
        gradients: Gradients,
        module: nn.Module,
        processes: Processes,
        tell: Callable[[], ControlFlags],
        profile: Profile | None = None,
    ) -> None:
        self.gradients, self.processes, self.tell = gradients, processes, tell
        self.profile = profile or Profile()
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.heard = ControlFlags()

    def __call__(self, batch: Batch) -> Outcome:
        """Compute the own part, then sum over the processes."""
        with set_aside(self.parameters):
            parts, statistics = self.gradients(batch)
            own = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
            news, first = self.tell(), self.processes.leads
            row = [news.spent if first else 0.0, float(news.stop), float(news.save and first)]
            told = own[0].new_tensor(row)
            with self.profile.part(COLLECTIVE):
                found = self.processes.add([*own, *parts.values(), *statistics.values(), told])
            for parameter, gradient in zip(self.parameters, found, strict=False):
                parameter.grad = gradient
        rest = found[len(own) :]
        parts = dict(zip(parts, rest, strict=False))
        statistics = dict(zip(statistics, rest[len(parts) :], strict=False))
        spent, stop, save = found[-1].tolist()
        self.heard = ControlFlags(spent, stop > 0, save > 0)
        return parts, statistics
