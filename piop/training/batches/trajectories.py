"""Prepared trajectories of a data set, in memory or read from a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from piop.datasets import AnyDataset, Dataset
from piop.fields import FunctionSamples, InputFunction

AHEAD = 3
"""Batches that are read while others are learnt from."""


@dataclass(frozen=True)
class PreparedTrajectories:
    """Trajectories as tensors.

    Attributes:
        functions: Interpolants of the inputs that something is built from.
        inputs: What the operator sees of the inputs.
        points: Where the values are ``[1 or n, P, D]``.
        values: Values ``[n, P, C]``, NaN for channels without data.
        size: Mean square of each trajectory's channels ``[n, C]``.
        lift: What hard constraints add ``[1 or n, ..., C]``, where known on the grid of the values.
    """

    functions: Mapping[str, InputFunction]
    inputs: Mapping[str, FunctionSamples]
    points: Tensor
    values: Tensor
    size: Tensor
    lift: Tensor | None = None


def mean_square(values: Tensor) -> Tensor:
    """Mean square of each channel of ``[n, P, C]`` where it has values: ``[n, C]``."""
    found = values.square().mean(1)  # nanmean takes eight times as long
    return found if bool(found.isfinite().all()) else values.square().nanmean(1)


class Trajectories(ABC):
    """Gives the trajectories of a step."""

    @abstractmethod
    def find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        """Give trajectories, and which of them are those of the step ``[B]``."""

    @abstractmethod
    def known(self, chosen: Tensor, at: Tensor) -> Tensor:
        """Count the values that trajectories ``[F]`` have at points ``[F or 1, Q]`` of them."""


@final
class InMemoryTrajectories(Trajectories):
    """All trajectories at once.

    Args:
        held: They.
        plan: Which trajectories a step takes.
    """

    def __init__(self, held: PreparedTrajectories, plan: Callable[[int], Tensor]) -> None:
        self.held, self.plan = held, plan

    def find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        """Give all."""
        return self.held, self.plan(step)

    def known(self, chosen: Tensor, at: Tensor) -> Tensor:
        """Count them."""
        return self.held.values[chosen[:, None], at].isfinite().sum()


@final
class StreamedTrajectories(Trajectories):
    """Reads the trajectories of each step, and those of the next ones ahead of time.

    What a step takes follows from its number alone, so that nothing depends on when it is read.

    Args:
        read: Reads trajectories.
        plan: Which trajectories a step takes.
        channels: Channels that the data have; their values are finite.
    """

    def __init__(
        self,
        read: Callable[[Tensor], PreparedTrajectories],
        plan: Callable[[int], Tensor],
        channels: int,
    ) -> None:
        self.read, self.plan = read, plan
        self.channels = channels
        self.reader = ThreadPoolExecutor(1, "piop-data")
        self.coming: dict[int, Future[tuple[PreparedTrajectories, Tensor]]] = {}

    def find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        """Read those of the step, unless they were read ahead."""
        self.coming = {s: f for s, f in self.coming.items() if s >= step or not f.cancel()}
        for s in range(step, step + 1 + AHEAD):
            if s not in self.coming:
                self.coming[s] = self.reader.submit(self._find, s)
        return self.coming.pop(step).result()

    def known(self, chosen: Tensor, at: Tensor) -> Tensor:
        """Count them: whoever read the file has seen that all are finite."""
        return torch.tensor(len(chosen) * at.shape[1] * self.channels, device=chosen.device)

    @torch.no_grad()
    def _find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        chosen = self.plan(step)
        return self.read(chosen), torch.arange(len(chosen), device=chosen.device)


def trajectories(
    data: AnyDataset,
    hold: Callable[[Dataset], PreparedTrajectories],
    plan: Callable[[int], Tensor],
) -> Trajectories:
    """Keep a data set in memory, or read of it what each step takes.

    Args:
        data: In memory, or in a file.
        hold: Prepares trajectories.
        plan: Which trajectories a step takes.
    """
    if isinstance(data, Dataset):
        return InMemoryTrajectories(hold(data), plan)
    return StreamedTrajectories(lambda chosen: hold(data.take(chosen)), plan, len(data.channels))
