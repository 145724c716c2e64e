"""The parameters that are learned beside the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

RATE = 3.0
"""How many steps of a weight one step of θ is: a parameter has further to go than a weight."""


@final
class Inferred(nn.Module):
    """Parameters to infer, p = p0·exp(3θ); where p0 is zero, p = 3θ.

    So a parameter that starts from a number keeps its sign, and a step of the optimiser, which is
    about as large for every weight, changes it by the same share whatever its unit.

    Args:
        start: Name → p0, its units.

    Attributes:
        names: Of the parameters, in the order of ``theta``.
        theta: What is trained ``[P]``, dimensionless where p0 is not zero.
    """

    start: Tensor

    def __init__(self, start: Mapping[str, float]) -> None:
        super().__init__()
        self.names = tuple(start)
        self.theta = nn.Parameter(torch.zeros(len(start), dtype=torch.float64))
        values = torch.tensor(list(start.values()), dtype=torch.float64)
        self.register_buffer("start", values, persistent=False)

    def forward(self) -> tuple[Tensor, ...]:
        """Give the value ``[]`` of each parameter, with its gradient."""
        moved = RATE * self.theta
        return torch.where(self.start == 0, moved, self.start * moved.exp()).unbind()

    @torch.no_grad()
    def values(self) -> dict[str, float]:
        """Give the present values by name."""
        return {name: float(value) for name, value in zip(self.names, self(), strict=True)}
