"""Equal parts of a batch, along its functions."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from piop.training.batches.batch import Batch, CollocationPoints, map_tensors
from piop.training.loss.weighting.tangent_kernel import PROBE


def split_batch(batch: Batch, count: int) -> list[Batch]:
    """Split a batch along its functions; what all functions share stays whole.

    Args:
        batch: The batch, without data unless it stays whole.
        count: A divisor of the number of functions.

    Returns:
        As many batches, in order.
    """
    if count == 1:
        return [batch]

    def part(piece: int) -> Batch:
        def cut(tensor: Tensor, axis: int = 0) -> Tensor:
            return tensor if tensor.shape[axis] == 1 else tensor.chunk(count, axis)[piece]

        def points(at: CollocationPoints) -> CollocationPoints:
            lift = None if at.lift is None else cut(at.lift, axis=1).contiguous()
            return replace(map_tensors(cut, replace(at, lift=None)), lift=lift)

        signs = {k: cut(v) for k, v in batch.weights.items() if k.startswith(PROBE)}
        return replace(
            batch,
            inputs=map_tensors(cut, batch.inputs),
            size=map_tensors(cut, batch.size),
            equations=None if batch.equations is None else points(batch.equations),
            conditions={name: points(at) for name, at in batch.conditions.items()},
            weights={**batch.weights, **signs},
        )

    return [part(piece) for piece in range(count)]
