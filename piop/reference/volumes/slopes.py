"""Limited slopes of cell means."""

from __future__ import annotations

import torch
from torch import Tensor


def limited_slopes(values: Tensor, dim: int) -> Tensor:
    """Slopes per cell of all cells but the first and the last along ``dim``.

    The monotonised central limiter: half the difference of the neighbours, at most twice either
    one-sided difference, zero at extrema (B. van Leer, J. Comput. Phys. 23 (1977),
    doi:10.1016/0021-9991(77)90095-X).
    """
    steps = values.diff(dim=dim)
    n = steps.shape[dim] - 1
    back, ahead = steps.narrow(dim, 0, n), steps.narrow(dim, 1, n)
    bound = 2 * torch.minimum(back.abs(), ahead.abs())
    slopes = (0.5 * (back + ahead)).clamp(-bound, bound)
    return slopes.masked_fill(back * ahead <= 0, 0.0)
