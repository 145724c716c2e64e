"""Microbatches: few functions at a time, so that a processor keeps them in its cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from typing import final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.training.batches.batch import Batch, CollocationPoints
from piop.training.loop.phases import Gradients
from piop.training.weighting import Outcome
from piop.training.weighting.tangent_kernel import PROBE


@contextmanager
def set_aside(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Run a block with empty gradients, and add those from before to what it leaves.

    Args:
        parameters: Whose gradients they are.
    """
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    yield
    for parameter, earlier in zip(parameters, before, strict=True):
        if earlier is not None:
            parameter.grad = earlier if parameter.grad is None else earlier + parameter.grad


COMPILED_ROWS, EAGER_ROWS = 1536, 4096
"""Rows of features (streams × functions × queries) at a time; 128 features of 1536 fill 0.8 MB.

Without compilation each operation has a price of its own, so pieces are larger.
"""


@final
class Microbatched:
    """Gradients of a batch as the mean of those of its pieces.

    Args:
        gradients: Computes one piece and adds its gradients.
        parameters: To which gradients are added.
        streams: S of the equations.
        rows: How many rows of features to have at a time.
    """

    def __init__(
        self, gradients: Gradients, parameters: Sequence[nn.Parameter], streams: int, rows: int
    ) -> None:
        self.gradients, self.streams, self.rows = gradients, streams, rows
        self.parameters = list(parameters)

    def __call__(self, batch: Batch) -> Outcome:
        """Compute parts (means over the pieces) and statistics (sums), and add the gradients."""
        count = piece_count(batch, self.streams, self.rows)
        if count == 1:
            return self.gradients(batch)
        with set_aside(self.parameters):
            outcomes = [self.gradients(piece) for piece in split(batch, count)]
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad / count
        parts, statistics = outcomes[0]
        return (
            {name: torch.stack([p[name] for p, _ in outcomes]).mean(0) for name in parts},
            {name: torch.stack([s[name] for _, s in outcomes]).sum(0) for name in statistics},
        )


def piece_count(batch: Batch, streams: int, rows: int) -> int:
    """Choose into how many equal pieces to cut a batch.

    A GPU wants large pieces; data are averaged over the points that were measured, not over
    functions; and points that all functions share are computed once: there the answer is one.

    Args:
        batch: The batch.
        streams: S of the equations.
        rows: Rows of features to have at a time, at most, unless one function has more.
    """
    if batch.equations is None or batch.observations is not None or not batch.inputs:
        return 1
    queries = batch.equations.queries
    functions = max(len(samples.values) for samples in batch.inputs.values())
    if queries.is_cuda or len(queries) != functions:
        return 1
    wanted = min(functions, ceil(streams * functions * queries.shape[1] / rows))
    return next(n for n in range(wanted, functions + 1) if functions % n == 0)


def split(batch: Batch, count: int) -> list[Batch]:
    """Cut a batch along its functions; what all functions share stays whole.

    Args:
        batch: The batch, without data.
        count: A divisor of the number of functions.
    """

    def cut(tensor: Tensor, piece: int, axis: int = 0) -> Tensor:
        return tensor if tensor.shape[axis] == 1 else tensor.chunk(count, axis)[piece]

    def samples(seen: FunctionSamples, piece: int) -> FunctionSamples:
        mask = None if seen.mask is None else cut(seen.mask, piece)
        return FunctionSamples(cut(seen.points, piece), cut(seen.values, piece), mask)

    def points(at: CollocationPoints, piece: int) -> CollocationPoints:
        known = tuple(cut(value, piece) for value in at.input_values)
        lift = None if at.lift is None else cut(at.lift, piece, axis=1).contiguous()
        return CollocationPoints(cut(at.queries, piece), known, lift)

    return [
        replace(
            batch,
            inputs={name: samples(seen, piece) for name, seen in batch.inputs.items()},
            size=None if batch.size is None else cut(batch.size, piece),
            equations=None if batch.equations is None else points(batch.equations, piece),
            conditions={name: points(at, piece) for name, at in batch.conditions.items()},
            weights={
                key: cut(value, piece) if key.startswith(PROBE) else value
                for key, value in batch.weights.items()
            },
        )
        for piece in range(count)
    ]
