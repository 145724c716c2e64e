"""What is asked of a solver, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from piop.reference.ladder import Limits


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
