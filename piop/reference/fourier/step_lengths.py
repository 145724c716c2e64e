"""Levels of grids and steps, and steps that are halved where something varies faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from piop.reference.levels import Level

Bound = Callable[[float, float], float]
"""Start and end of an interval of time → longest step in it."""
RESOLVING = 4
"""Steps of order four per longest step that resolves what varies."""


@final
@dataclass(frozen=True)
class SpectralLevel(Level):
    """A grid and the lengths of steps.

    Attributes:
        sizes: Points along each space axis.
        base: Longest step of the coarsest level (units of time).
        multiple: Steps per step of the coarsest level.
        padded: Whether products are dealiased by padding.
    """

    sizes: tuple[int, ...]
    base: float
    multiple: int
    padded: bool

    @property
    def step(self) -> float:
        """Longest step (units of time)."""
        return self.base / self.multiple

    @property
    def cost(self) -> float:
        """Points times steps per unit of time."""
        return math.prod(self.sizes) * self.multiple / self.base

    def steps(self, interval: float) -> int:
        """Steps in an interval between save times."""
        return max(1, math.ceil(interval / self.base * (1 - 1e-9))) * self.multiple


def steps_between(
    start: float, end: float, level: SpectralLevel, longest: Bound | None
) -> Iterator[tuple[float, float]]:
    """Starts and lengths of even steps between two times, halved where data vary faster."""
    count = level.steps(end - start)
    length = (end - start) / count
    fine = longest is None or RESOLVING * length * level.multiple <= longest(start, end)
    for j in range(count):
        moment = start + j * (end - start) / count
        if fine or longest is None:
            yield moment, length
        else:
            yield from halved(moment, length, level.multiple, longest)


def halved(
    start: float, length: float, multiple: int, longest: Bound
) -> Iterator[tuple[float, float]]:
    """Starts and lengths of the parts of a step, each halved as a bound requires.

    Args:
        start: Of the step.
        length: Of the step.
        multiple: Steps per step of the coarsest level.
        longest: The bound on the coarsest level.
    """
    if RESOLVING * length * multiple <= longest(start, start + length):
        yield start, length
    else:
        yield from halved(start, length / 2, multiple, longest)
        yield from halved(start + length / 2, length / 2, multiple, longest)
