"""Gradients of a batch as those of its microbatches: in turn, or on a thread each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import final

import torch
from torch import nn

from piop.training.batches.batch import Batch
from piop.training.batches.split import split_batch
from piop.training.loop.gradients import CompiledGradients, separate_gradients
from piop.training.loop.phases import Gradients
from piop.training.loss.weighting.base import Outcome

COMPILED_ROWS, EAGER_ROWS = 1536, 4096
"""Rows of features (streams × functions × queries) at a time; 128 features of 1536 fill 0.8 MB.

Without compilation each operation has a price of its own, so microbatches are larger.
"""
LEAST_ROWS, MOST_ROWS = 900, 1920
"""Rows of a microbatch that is worth a thread of its own. The shorter operations are, the longer do
threads wait for Python: of 960 rows a step takes no more time so (``gray_scott``), of 512 it does
(``lotka_volterra``)."""
BUSY = 0.8
"""Part of the time in which all threads must have a microbatch: two take longer for three of them,
one each, than for each in turn (``allen_cahn``)."""


def microbatched(
    gradients: Gradients, parameters: Sequence[nn.Parameter], streams: int, rows: int
) -> Gradients:
    """Make the gradients of a batch as the mean of those of its microbatches.

    Args:
        gradients: Computes one microbatch and adds its gradients.
        parameters: To which gradients are added.
        streams: S of the equations.
        rows: Largest number of rows of features at a time.

    Returns:
        Batch → parts (means over microbatches) and statistics (sums), having added the gradients.
    """

    def whole(batch: Batch) -> Outcome:
        count = microbatch_count(batch, streams, rows)
        if count == 1:
            return gradients(batch)
        with separate_gradients(parameters):
            outcomes = [gradients(microbatch) for microbatch in split_batch(batch, count)]
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad / count
        return _joined(outcomes)

    return whole


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the mean of the parts of microbatches and the sum of their statistics."""
    parts, statistics = outcomes[0]
    return (
        {name: torch.stack([p[name] for p, _ in outcomes]).mean(0) for name in parts},
        {name: torch.stack([s[name] for _, s in outcomes]).sum(0) for name in statistics},
    )


@final
class ConcurrentMicrobatches:
    """Compiled gradients of a batch, whose microbatches are computed by a thread each.

    Threads that share every operation wait for each other after each of them: where another program
    takes one of their cores, a step takes several times as long (docs/training.md). While there are
    threads here, torch's own operations have fewer, until :meth:`close`.

    Args:
        step: Computes one microbatch.
        streams: S of the equations.
        rows: Largest number of rows of features at a time.
    """

    def __init__(self, step: CompiledGradients, streams: int, rows: int) -> None:
        self.step, self.streams, self.rows = step, streams, rows
        self._threads: int | None = None
        self._pool: ThreadPoolExecutor | None = None

    def first(self, batch: Batch) -> Batch:
        """Return the first microbatch of a batch."""
        return split_batch(batch, self._plan(batch)[0])[0]

    def use_threads(self, batch: Batch) -> None:
        """Compile for the threads that each microbatch of such a batch will have."""
        self.step.use_threads(self._all_threads() // self._plan(batch)[1])

    def __call__(self, batch: Batch) -> Outcome:
        """Compute parts and statistics and add the gradients."""
        count, workers = self._plan(batch)
        microbatches = split_batch(batch, count)
        if workers > 1 and self.step.prepare(microbatches[0]) and self.step.concurrent:
            found = list(self._pool_of(workers).map(self.step.compute, microbatches))
        else:
            found = [self.step.compute(microbatch) for microbatch in microbatches]
        (outcome, gradients), *others = found
        if others:
            for _, further in others:  # not in place: compiled graphs may give one tensor twice
                gradients = torch._foreach_add(gradients, further)  # pyright: ignore[reportPrivateImportUsage]
            torch._foreach_div_(gradients, count)  # pyright: ignore[reportPrivateImportUsage]
            outcome = _joined([own for own, _ in found])
        self.step.add(gradients)
        return outcome

    def close(self) -> None:
        """End the threads and give torch its own back."""
        if self._pool is not None:
            self._pool.shutdown()
            torch.set_num_threads(self._all_threads())
        self._pool = self._threads = None

    def _pool_of(self, workers: int) -> ThreadPoolExecutor:
        if self._pool is None:
            torch.set_num_threads(self._all_threads() // workers)  # a new thread takes that number
            self._pool = ThreadPoolExecutor(workers)
        return self._pool

    def _all_threads(self) -> int:
        if self._threads is None:
            self._threads = torch.get_num_threads()
        return self._threads

    def _plan(self, batch: Batch) -> tuple[int, int]:
        """Return the number of microbatches, and of threads that take one each."""
        threads = self._all_threads()
        count = concurrent_count(batch, self.streams, threads)
        if count is None:
            return microbatch_count(batch, self.streams, self.rows), 1
        return count, min(count, threads)


def microbatch_count(batch: Batch, streams: int, rows: int) -> int:
    """Return the number of equal microbatches to split a batch into.

    A GPU wants large ones; data are averaged over the points that were measured, not over
    functions; and points that all functions share are computed once: there the number is one.

    Args:
        batch: The batch.
        streams: S of the equations.
        rows: Rows of features to have at a time, at most, unless one function has more.
    """
    splits = _splits(batch, streams)
    return next((n for n, each in splits if each <= rows), splits[-1][0])


def concurrent_count(batch: Batch, streams: int, threads: int) -> int | None:
    """Return the number of equal microbatches that are worth a thread each.

    Args:
        batch: The batch.
        streams: S of the equations.
        threads: The threads that there are.

    Returns:
        The number; None where all threads do better on one microbatch after another.
    """
    splits = _splits(batch, streams)
    busy = {n: n / (threads * ceil(n / threads)) for n, _ in splits}
    found = [
        (busy[n], each <= COMPILED_ROWS, -n)
        for n, each in splits
        if n > 1
        and each >= LEAST_ROWS
        and (each <= MOST_ROWS or n == splits[-1][0])
        and (n <= threads or busy[n] >= BUSY)
    ]
    return -max(found)[-1] if found and threads > 1 else None


def _splits(batch: Batch, streams: int) -> list[tuple[int, float]]:
    """Return the numbers of microbatches that a batch may have, with the rows of each of them."""
    if batch.equations is None or batch.observations is not None or not batch.inputs:
        return [(1, 0.0)]
    queries = batch.equations.queries
    functions = max(len(samples.values) for samples in batch.inputs.values())
    if queries.is_cuda or len(queries) != functions:
        return [(1, 0.0)]
    rows = streams * functions * queries.shape[1]
    return [(n, rows / n) for n in range(1, functions + 1) if functions % n == 0]
