"""Adaptive weights: a state beside the network that enters a step and learns from its outcome.

A compiled step freezes whatever is not an input, and a step split over processes sees only its
own functions. So the state lives outside: it enters as plain tensors in ``Batch.weights``; what
the step finds out leaves as sums over samples, which processes add up; and :meth:`Weighting.update`
turns those sums into the state of the next step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, final

from torch import Tensor

from piop.training.batch import Batch


class Weighting(ABC):
    """One kind of adaptive weights.

    :meth:`of_points` and :meth:`observe` run inside the step, compiled or not, and must depend on
    nothing but their arguments; the other methods run between steps.
    """

    name: ClassVar[str]
    """Where its state is found in a checkpoint."""

    @abstractmethod
    def entering(self) -> dict[str, Tensor]:
        """Give the present weights as they enter the next step, by keys of its own."""

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor | float:
        """Weigh the squared residual of the equations at ``queries [B, N, D]``: ``[B, N]``."""
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

    @abstractmethod
    def update(self, statistics: Mapping[str, Tensor]) -> None:
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
        return replace(batch, weights={k: v for m in self.members for k, v in m.entering().items()})

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
