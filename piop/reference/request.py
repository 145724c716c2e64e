"""What is asked of a solver, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.fields import grid_axis
from piop.reference.ladder import Limits

if TYPE_CHECKING:
    from piop.problem import Coordinate


@dataclass(frozen=True)
class Request:
    """Where, how well and on what to solve.

    Attributes:
        times: Save times, ascending, inside the problem's interval; empty for a steady problem.
        shape: Points per space axis of the output: both ends of an axis among them, the right end
            of a periodic one left out.
        tolerance: Largest error estimate accepted (relative, see ``Solution.error_estimate``).
        device: Where to compute.
        limits: Where to stop refining.
    """

    times: tuple[float, ...]
    shape: tuple[int, ...]
    tolerance: float
    device: torch.device
    limits: Limits

    def axes(self, space: Sequence[Coordinate]) -> tuple[Tensor, ...]:
        """Points of the output along each axis of space, ``[n]`` each."""
        return tuple(
            grid_axis(c.low, c.high, n, c.periodic).to(self.device)
            for c, n in zip(space, self.shape, strict=True)
        )
