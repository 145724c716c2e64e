"""Adaptive weights: a state beside the network that enters a step and is updated by its outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.training.batches.batch import Batch


@final
class RunningMean:
    """m ← memory·m + (1 − memory)·new, for each of K numbers that may be missing from a step.

    The first value of a number is taken as it is.

    Args:
        count: K.
        memory: Share that a step keeps, in [0, 1).
        like: A tensor of the device and precision.

    Attributes:
        values: The means ``[K]``; zero where nothing was seen yet.
        seen: One where something was seen ``[K]``.
    """

    def __init__(self, count: int, memory: float, like: Tensor) -> None:
        self.memory = memory
        self.values = like.new_zeros(count)
        self.seen = like.new_zeros(count)

    def update(self, new: Tensor, present: Tensor) -> None:
        """Take up new values ``[K]`` where ``present [K]`` is true."""
        moved = torch.lerp(new, self.values, self.memory * self.seen)
        self.values = torch.where(present, moved, self.values)
        self.seen = torch.where(present, 1.0, self.seen).to(self.values)

    def state_dict(self) -> dict[str, Tensor]:
        """Give the means and which of them have begun."""
        return {"values": self.values, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the means."""
        self.values, self.seen = state["values"], state["seen"]


GUARD = 1e-5
"""Share of the mean below which a size counts as that, so that no factor exceeds its inverse."""


def balanced(sizes: Tensor) -> Tensor:
    """Give mean(sizes)/sizes ``[K]``; ones where all of them vanish.

    Example:
        >>> import torch
        >>> [round(float(f), 2) for f in balanced(torch.tensor([1.0, 3.0]))]
        [2.0, 0.67]
    """
    mean = sizes.mean()
    return (mean / (sizes + GUARD * mean)).nan_to_num(nan=1.0)


def only(index: int, count: int, like: Tensor) -> Tensor:
    """Give ``[count]`` zeros with a one at ``index``."""
    out = like.new_zeros(count)
    out[index] = 1.0
    return out


Outcome = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Parts of the loss, and statistics for adaptive weights."""

Measure = Callable[[Mapping[str, Tensor]], tuple[Tensor, Mapping[str, Tensor]]]
"""Weights to put in place of the present ones → squared norm of the loss's gradient over the
whole batch, float64 ``[]``, and the statistics."""


class Weighting(ABC):
    """One kind of adaptive weights.

    :meth:`of_points` and :meth:`observe` run inside the step, compiled or not, and must depend on
    nothing but their arguments; the other methods run between steps.
    """

    name: ClassVar[str]
    """Where its state is found in a checkpoint."""

    @abstractmethod
    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Give the present weights as they enter the next step, by keys of its own.

        Args:
            batch: That of the step, whose shapes and no values may matter.
        """

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor | float:
        """Weigh the squared residual of the equations at ``queries [B, N, D]``: ``[B, N]``."""
        return 1.0

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Weigh a part of the loss, such as ``initial``: ``[]``."""
        return 1.0

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum up what :meth:`update` needs.

        Args:
            squares: Squared residuals of the equations with their fixed weights ``[B, N]``.
            queries: Where ``[B, N, D]``.

        Returns:
            Detached **sums** over the samples, so that the sum over processes is that of the
            whole batch.
        """
        return {}

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:  # noqa: B027 - most don't
        """Take gradients of its own before a step, and learn from them.

        Args:
            batch: That of the step.
            step: Its number.
            gradient: Takes one.
        """

    def update(self, statistics: Mapping[str, Tensor]) -> None:  # noqa: B027 - as above
        """Learn from what :meth:`observe` gave, summed over the whole batch."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Give what a resume needs."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up what :meth:`state_dict` gave."""


@final
class Weightings:
    """All adaptive weights of a run, multiplied.

    Args:
        members: Each of them; none is the most common case.
    """

    def __init__(self, members: Sequence[Weighting] = ()) -> None:
        self.members = tuple(members)

    def attach(self, batch: Batch) -> Batch:
        """Put the present weights into a batch."""
        entering = [member.entering(batch).items() for member in self.members]
        return replace(batch, weights={key: value for items in entering for key, value in items})

    def prepare(
        self,
        batch: Batch,
        step: int,
        gradients: Callable[[Batch], Outcome],
        parameters: Sequence[Tensor],
    ) -> Batch:
        """Let all of them measure, then put the weights into the batch of a step.

        Args:
            batch: The batch.
            step: Its number.
            gradients: Adds the gradients of a batch to the parameters, summed over processes.
            parameters: What is trained; their gradients are gone afterwards.
        """
        batch = self.attach(batch)

        def gradient(changed: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
            _clear(parameters)
            _, statistics = gradients(replace(batch, weights={**batch.weights, **changed}))
            found = [p.grad.double().square().sum() for p in parameters if p.grad is not None]
            _clear(parameters)
            return torch.stack(found).sum(), statistics

        for member in self.members:
            member.measure(batch, step, gradient)
        return self.attach(batch)

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor | float:
        """Weigh the squared residual at ``queries [B, N, D]``.

        Args:
            weights: Those of the batch; without them everything counts the same.
            queries: Where.
        """
        total: Tensor | float = 1.0
        for member in self.members if weights else ():
            total = total * member.of_points(weights, queries)
        return total

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Weigh a part of the loss; without weights all count as the fixed ones say."""
        total: Tensor | float = 1.0
        for member in self.members if weights else ():
            total = total * member.of_part(weights, part)
        return total

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Sum up what all of them need."""
        found: dict[str, Tensor] = {}
        for member in self.members:
            found |= member.observe(squares.detach(), queries.detach())
        return found

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Let all of them learn."""
        for member in self.members:
            member.update(statistics)

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Give the states by name."""
        return {member.name: member.state_dict() for member in self.members}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take up the states.

        Raises:
            KeyError: If one is missing.
        """
        for member in self.members:
            member.load_state_dict(state[member.name])


def _clear(parameters: Sequence[Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None


@dataclass(frozen=True)
class Bins:
    """Equal bins of one coordinate.

    Attributes:
        column: Its column of the queries.
        low: Where it begins, its units.
        length: How long it is, its units.
        count: How many bins.
    """

    column: int
    low: float
    length: float
    count: int


@final
class Cells:
    """The products of the bins of some coordinates; over the others a cell extends all the way.

    Args:
        axes: The bins of each; none gives one cell.

    Attributes:
        count: Number of cells.
    """

    def __init__(self, axes: Sequence[Bins]) -> None:
        self.axes = tuple(axes)
        self.count = 1
        for axis in self.axes:
            self.count *= axis.count

    def of(self, queries: Tensor) -> Tensor:
        """Number the cell of each of ``queries [B, N, D]``: int64 ``[B, N]``."""
        number = torch.zeros_like(queries[..., 0], dtype=torch.int64)
        for axis in self.axes:
            place = (queries.detach()[..., axis.column] - axis.low) / axis.length
            own = (place * axis.count).long().clamp(0, axis.count - 1)
            number = number * axis.count + own
        return number

    def sums(self, values: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Sum values ``[B, N]`` over each cell, and count its points: ``[count]`` each.

        By comparisons rather than by scattering, so that a GPU adds in the same order every time.
        """
        every = torch.arange(self.count, device=values.device)
        member = (self.of(queries)[..., None] == every).to(values)
        return (values[..., None] * member).sum((0, 1)), member.sum((0, 1))
