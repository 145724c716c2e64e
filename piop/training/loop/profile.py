"""Where the time of a training step goes, part by part, measured as it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch

from piop.training.batches.batch import Batch, CollocationPoints

P = ParamSpec("P")
R = TypeVar("R")
DRAW, NETWORK, LOSS, BACKWARD = "functions and points", "network", "loss", "backward"
COMPILED = "forward and backward, compiled"
COLLECTIVE, OPTIMISER = "processes", "optimiser"
METRICS, CHECKPOINT, REST = "metrics", "checkpoint", "rest"


@dataclass
class Profile:
    """A clock for the parts of a step, which may lie within each other.

    A part is given the time spent in it but not in parts within it, so that the parts add up to
    the whole. On a GPU the device is waited for at both ends of a part: what was queued counts
    where it was asked for, and a profiled run is somewhat slower than a plain one. The first step,
    which holds compilation and warm-up, is left out.

    Attributes:
        device: Where the step runs.
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
        """Give the time of a block to a part."""
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
        """Give the time of all calls of a function to a part."""
        if not self.on:
            return function

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.part(name):
                found = function(*args, **kwargs)
            if isinstance(found, Batch):
                self.points += count_points(found)
            return found

        return call

    def forget(self) -> None:
        """Begin anew, as after the first step."""
        self.seconds.clear()
        self.points = 0

    def report(self, steps: int) -> dict[str, Any]:
        """Give times per step.

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


def count_points(batch: Batch) -> int:
    """Count the points of a batch over all of its functions and terms."""
    functions = 1 if batch.size is None else len(batch.size)
    terms = [*batch.conditions.values(), *([] if batch.equations is None else [batch.equations])]
    count = sum(_points(term, functions) for term in terms)
    if batch.observations is not None:
        count += batch.observations.targets.shape[:2].numel()
    return count


def _points(term: CollocationPoints, functions: int) -> int:
    """Points shared by all functions count for each of them."""
    return max(len(term.queries), functions) * term.queries.shape[1]
