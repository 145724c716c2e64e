"""Batches of several steps, drawn at once."""

from __future__ import annotations

from typing import final

from piop.training.batches.batch import Batch, BatchSource
from piop.training.batches.equations import EquationSource
from piop.training.batches.split import split_batch

AHEAD = {"cpu": 32, "cuda": 512}
"""Functions that are drawn at once, at most, on a device.

Each operation has a fixed cost beside that of its size. On a CPU 8 functions of ``burgers`` take
1.9 ms, 32 take 2.6, and more gain little; on a GPU 8 take 9.1 ms and 512 as much. More take more
memory.
"""


@final
class BatchesAhead(BatchSource):
    """Draws the batches of several steps at once; every batch has the numbers that it has alone.

    Args:
        equations: Source of the batches, which depend on their step alone.
        steps: Steps at once. The first of them is a multiple of it, so that a resume draws the same
            ones together.
    """

    def __init__(self, equations: EquationSource, steps: int) -> None:
        if not equations.depends_on_step_alone:
            raise ValueError("batches that depend on more than their step are not drawn ahead")
        self.equations, self.steps = equations, steps
        self._first, self._batches = -1, list[Batch]()

    @classmethod
    def where_possible(cls, equations: EquationSource) -> BatchSource:
        """Draw ahead where batches are small and depend on their step alone."""
        functions = AHEAD.get(equations.like.device.type, AHEAD["cpu"])
        steps = functions // len(equations.part)
        return cls(equations, steps) if steps > 1 and equations.depends_on_step_alone else equations

    def __call__(self, step: int, fraction: float) -> Batch:
        """See the base class."""
        first = step - step % self.steps
        if first != self._first:
            together = self.equations.of_steps(range(first, first + self.steps), fraction)
            self._first, self._batches = first, split_batch(together, self.steps)
        return self._batches[step - first]
