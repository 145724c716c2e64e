"""A profile of the training step: seconds of each part, measured as it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar, final

import torch

from piop.training.batches.batch import Batch, BatchSource

P = ParamSpec("P")
R = TypeVar("R")
DRAW, NETWORK, LOSS, BACKWARD = "functions and points", "network", "loss", "backward"
COMPILED = "forward and backward, compiled"
COLLECTIVE, OPTIMISER = "processes", "optimiser"
METRICS, CHECKPOINT, REST = "metrics", "checkpoint", "rest"


@dataclass
class Profile:
    """Timer of the parts of a step, which may be nested.

    A part counts the time spent in it but not in parts within it, so that the parts add up to
    the whole. On a GPU the device is synchronised at both ends of a part: queued work counts
    where it was queued, and a profiled run is somewhat slower than a plain one. The first step,
    which holds compilation and warm-up, is left out.

    Attributes:
        device: The device of the step.
        on: Whether to measure; off, nothing is done.
        seconds: Part → seconds so far.
        points: Points the loss was evaluated at so far.
    """

    device: str = "cpu"
    on: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    points: int = 0
    _inner: list[float] = field(default_factory=list)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of a block as a part."""
        if not self.on:
            yield
            return
        begun = self._now()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = self._now() - begun
            own = whole - self._inner.pop()
            self.seconds[name] = self.seconds.get(name, 0.0) + own
            if self._inner:
                self._inner[-1] += whole

    def timed(self, name: str, function: Callable[P, R]) -> Callable[P, R]:
        """Count the time of all calls of a function as a part."""
        return self.part(name)(function) if self.on else function

    def timed_draw(self, draw: Callable[P, Batch]) -> Callable[P, Batch]:
        """Count the time of all draws of a batch, and the points of the batches."""
        timed = self.timed(DRAW, draw)

        def call(*args: P.args, **kwargs: P.kwargs) -> Batch:
            batch = timed(*args, **kwargs)
            self.points += count_points(batch)
            return batch

        return call if self.on else draw

    def forget(self) -> None:
        """Reset all times, as after the first step."""
        self.seconds.clear()
        self.points = 0

    def report(self, steps: int) -> dict[str, Any]:
        """Return times per step.

        Args:
            steps: Gradients computed since the beginning.

        Returns:
            ``steps``, ``seconds_per_step``, ``points_per_step``, ``points_per_second``, and
            ``parts``: name → ``seconds`` per step and ``share``, the longest first.
        """
        count, total = max(steps, 1), sum(self.seconds.values())
        longest = sorted(self.seconds.items(), key=lambda item: -item[1])
        return {
            "steps": steps,
            "seconds_per_step": total / count,
            "points_per_step": self.points // count,
            "points_per_second": self.points / total if total else 0.0,
            "parts": {
                name: {"seconds": value / count, "share": value / total} for name, value in longest
            },
        }

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


@final
class TimedSource(BatchSource):
    """A source whose draws are a part of a profile.

    Args:
        source: The source.
        profile: The profile.
    """

    def __init__(self, source: BatchSource, profile: Profile) -> None:
        self.inner, self._draw = source, profile.timed_draw(source)

    def __call__(self, step: int, fraction: float) -> Batch:
        """Draw the batch of a step."""
        return self._draw(step, fraction)


def count_points(batch: Batch) -> int:
    """Count the points of a batch over all of its functions and terms."""
    functions = 1 if batch.size is None else len(batch.size)
    terms = [*batch.conditions.values(), *([batch.equations] if batch.equations else [])]
    # points that all functions share count for each of them
    count = sum(max(len(t.queries), functions) * t.queries.shape[1] for t in terms)
    if batch.observations is not None:
        count += batch.observations.targets.shape[:2].numel()
    return count
