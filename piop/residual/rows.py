"""Products of stacked rows with one matrix, as one large product."""

from __future__ import annotations

import torch
from torch import Tensor


def tall(rows: Tensor) -> Tensor:
    """Set the rows ``[S, *batch, N, c]`` below each other: ``[*batch, S N, c]``."""
    return rows.movedim(0, -3).flatten(-3, -2)


def rows_times_matrix(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply ``[S, *batch, N, K]`` by ``[*batch, K, M]`` without copying the matrix S times."""
    if matrix.ndim == 2:
        return torch.matmul(rows, matrix)
    count, n = rows.shape[0], rows.shape[-2]
    return torch.matmul(tall(rows), matrix).unflatten(-2, (count, n)).movedim(-3, 0)
