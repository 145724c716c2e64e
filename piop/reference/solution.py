"""A reference solution with its error estimate, and what is requested of a solver."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.fields import grid_axis

if TYPE_CHECKING:
    from piop.problem import Coordinate

logger = logging.getLogger(__name__)
_EVERY = 10.0  # seconds between messages


@dataclass(frozen=True)
class Solution:
    """Solutions of a batch of problem instances on a grid, with error estimates.

    A steady problem has no times, and T is left out of all shapes. On a shape values are at P
    scattered points: there are no axes, and P takes the place of the sizes of the grid.

    Attributes:
        times: Save times ``[T]`` (units of the time coordinate).
        axes: Coordinates along each space axis; right ends of periodic axes excluded.
        values: Unknowns and auxiliary unknowns by name, each ``[B, T, *shape]``.
        time_derivatives: ∂/∂t of each unknown by name ``[B, T, *shape]``, from the right side; for
            second order in time also that of ``"dt(u)"``.
        error_estimate: Upper bound of the error of each trajectory ``[B]`` (dimensionless): largest
            over unknowns and save times of ‖error‖₂ over space, relative to the root mean square
            over time of the unknown's ‖·‖₂. The relative L2 error over space and time is below it.
        modes: Points of the finest grid used, per trajectory ``[B, d]``.
        step: Longest step used, per trajectory ``[B]`` (units of time).
        tolerance: The error estimate requested.
        notes: What the finest level reached, for trajectories not accepted.
        points: Positions of the values on a shape ``[B, P, d]``; None for values on a grid.
        ended_by_time: Whether more time would have given a smaller error ``[B]``; values are NaN
            where none was left to find an error at all. None without a limit of time.
    """

    times: Tensor
    axes: tuple[Tensor, ...]
    values: dict[str, Tensor]
    time_derivatives: dict[str, Tensor]
    error_estimate: Tensor
    modes: Tensor
    step: Tensor
    tolerance: float
    notes: tuple[str, ...] = ()
    points: Tensor | None = None
    ended_by_time: Tensor | None = None

    @property
    def accepted(self) -> Tensor:
        """Whether the estimate met the tolerance ``[B]``."""
        return self.error_estimate <= self.tolerance

    def take(self, index: Tensor) -> Solution:
        """Give the samples with these indices of the batch, in their order ``[B']``."""
        return _along_batch([self], lambda own: own[0][index])


def concatenate(parts: Sequence[Solution]) -> Solution:
    """Concatenate solutions along the batch, all on one grid or at the same number of points."""
    notes = tuple(note for part in parts for note in part.notes)
    return replace(_along_batch(parts, torch.cat), notes=notes)


def _along_batch(parts: Sequence[Solution], combine: Callable[[list[Tensor]], Tensor]) -> Solution:
    """The first solution, with each tensor along the batch made from those of all."""
    first = parts[0]
    points = [p.points for p in parts if p.points is not None]
    ended = [p.ended_by_time for p in parts if p.ended_by_time is not None]
    return replace(
        first,
        values={n: combine([p.values[n] for p in parts]) for n in first.values},
        time_derivatives={
            n: combine([p.time_derivatives[n] for p in parts]) for n in first.time_derivatives
        },
        error_estimate=combine([p.error_estimate for p in parts]),
        modes=combine([p.modes for p in parts]),
        step=combine([p.step for p in parts]),
        points=combine(points) if points else None,
        ended_by_time=combine(ended) if ended else None,
    )


@dataclass(frozen=True)
class Limits:
    """Limits of adaptive refinement.

    Attributes:
        modes: Most points along an axis, for one, two and three space dimensions.
        steps: Most steps of a run from the first to the last save time.
        levels: Most levels that a sample is solved on.
        seconds: Time in which a batch is solved. A level that would take longer is not begun: its
            samples keep the solution of the level before. One sample is refined until its error is
            known, whatever it takes.
    """

    modes: tuple[int, int, int] = (8192, 1024, 192)
    steps: int = 400_000
    levels: int = 16
    seconds: float = math.inf


@final
class BatchProgress:
    """Says how far a batch is solved, as information in the log at most every ten seconds.

    Args:
        samples: Their number.
        show: Takes how many are finished, each time that some are.
    """

    def __init__(self, samples: int, show: Callable[[int], None] | None = None) -> None:
        self.samples, self.finished, self.show = samples, 0, show
        self._start = self._said = time.monotonic()

    def __call__(self, finished: int, level: str) -> None:
        """Take how many samples were finished on a level, and what the level is."""
        self.finished += finished
        if finished and self.show is not None:
            self.show(self.finished)
        self._say(level)

    def at_time(self, t: float) -> None:
        """Take how far a run on a level is (units of the problem's time)."""
        self._say(f"t = {t:.3g}")

    def _say(self, place: str) -> None:
        now = time.monotonic()
        if now - self._said >= _EVERY and self.finished < self.samples:
            self._said = now
            logger.info(
                "reference: %d of %d samples solved, now at %s  %.0f s",
                *(self.finished, self.samples, place, now - self._start),
            )


@dataclass(frozen=True)
class Request:
    """Output points, accuracy and device of a solution.

    Attributes:
        times: Save times, ascending, inside the problem's interval; empty for a steady problem.
        shape: Points per space axis of the output: both ends of an axis among them, the right end
            of a periodic one left out.
        tolerance: Largest error estimate accepted (relative, see ``Solution.error_estimate``).
        device: Where to compute.
        limits: Where to stop refining.
        progress: Takes how far the batch is.
        begun: When it was made, by the clock of :func:`time.monotonic`.
    """

    times: tuple[float, ...]
    shape: tuple[int, ...]
    tolerance: float
    device: torch.device
    limits: Limits
    progress: BatchProgress = field(default_factory=lambda: BatchProgress(1))
    begun: float = field(default_factory=lambda: time.monotonic())

    @property
    def seconds_left(self) -> float:
        """Seconds until the limit of time; infinite without one."""
        return self.limits.seconds - (time.monotonic() - self.begun)

    def axes(self, space: Sequence[Coordinate]) -> tuple[Tensor, ...]:
        """Points of the output along each axis of space, ``[n]`` each."""
        return tuple(
            grid_axis(c.low, c.high, n, c.periodic).to(self.device)
            for c, n in zip(space, self.shape, strict=True)
        )
