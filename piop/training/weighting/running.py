"""A mean over steps that forgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor


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
