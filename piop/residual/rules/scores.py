"""Products of queries that carry streams with keys that carry none, written out only if need be.

``softmax(q @ k + mask) @ v`` needs no row of scores as a whole; everything else does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from piop.residual.attention.online import online_totals
from piop.residual.attention.program import AttentionProgram, Operands
from piop.residual.rows import rows_times_matrix
from piop.residual.rules.kernels import shifted
from piop.residual.streams import Stream

HELD = {"cpu": 2**24, "cuda": 2**28}
"""Scores, all rows counted, up to which a device writes them out: 64 MiB and 1 GiB in float32."""


class Scores(Stream):
    """Rows of queries times keys, plus a mask.

    Args:
        query: Queries ``[*batch, N, d]``.
        key: Keys ``[*batch, d, M]``, with as many dimensions.
        mask: Added to the value ``[*batch, 1, M]``, or None.
    """

    __slots__ = ("_data", "key", "mask", "query")

    def __init__(self, query: Stream, key: Tensor, mask: Tensor | None = None) -> None:
        self.query, self.key, self.mask, self.layout = query, key, mask, query.layout
        self._data: Tensor | None = None

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The rows, written out."""
        if self._data is None:
            rows = rows_times_matrix(self.query.data, self.key)
            if self.mask is not None:
                rows = shifted(Stream(rows, self.layout, self.weights), self.mask).data
            self._data = rows
        return self._data

    @property
    def weights(self) -> Tensor | None:  # type: ignore[override]
        """Coefficients of the points."""
        return fitted(self.query, self.shape)

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        batch = torch.broadcast_shapes(self.query.shape[:-2], self.key.shape[:-2])
        return torch.Size((*batch, self.query.shape[-2], self.key.shape[-1]))

    @property
    def ndim(self) -> int:
        """Number of dimensions of the value."""
        return self.query.ndim

    def plus(self, constant: Any) -> Stream:
        """Add a constant: a first mask of the sensors is kept apart, anything else written out."""
        if self.mask is None and isinstance(constant, Tensor) and constant.ndim == self.ndim:
            wide = torch.broadcast_shapes(self.shape, constant.shape) == self.shape
            if wide and constant.shape[-2] == 1 and constant.dtype == self.query.dtype:
                return Scores(self.query, self.key, constant)
        return shifted(Stream(self.data, self.layout, self.weights), constant)


def summed(scores: Scores, values: Tensor) -> Tensor | None:
    """Sum the rows of e^z [v | 1] without scores: ``[S, *batch, N, e + 1]``.

    Args:
        scores: The scores z.
        values: v, ``[*batch, M, e]``.

    Returns:
        The sums; None where scores had better be written out.
    """
    kernel = scores.layout.kernel
    size = scores.layout.count * scores.shape.numel()
    held = HELD.get(values.device.type, HELD["cpu"])
    if not _fits(scores, values) or (kernel is None and size <= held):
        return None
    batch, (n, m) = scores.shape[:-2], scores.shape[-2:]
    query, mask, weights = scores.query, scores.mask, scores.query.weights
    operands = Operands(
        query.data.expand(-1, *batch, *query.shape[-2:]),
        scores.key.mT.expand(*batch, -1, -1),
        values.expand(*batch, -1, -1),
        None if mask is None else mask.expand(*batch, 1, m),
        None if weights is None else weights[..., 0].expand(-1, *batch, n),
    )
    return (kernel or online_totals)(operands, AttentionProgram.of(scores.layout))


def _fits(scores: Scores, values: Tensor) -> bool:
    """Tell whether the kernels serve: one precision, gradients to rows, keys and values alone."""
    mask, weights = scores.mask, scores.query.weights
    batch = scores.shape[:-2]
    return (
        scores.query.dtype in (torch.float32, torch.float64)
        and scores.key.dtype == values.dtype == scores.query.dtype
        and values.ndim == scores.ndim
        and torch.broadcast_shapes(batch, values.shape[:-2]) == batch
        and not (mask is not None and mask.requires_grad)
        and not (weights is not None and weights.requires_grad)
    )


def fitted(a: Stream, shape: torch.Size) -> Tensor | None:
    """Fit the coefficients of a stream to a product of it with a matrix."""
    return None if a.weights is None else a.weights[..., :1].expand(-1, *shape)
