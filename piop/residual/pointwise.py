"""A check that a field's output at a query depends on that query alone, as streams assume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def is_pointwise(
    field: Callable[[Any], Tensor], queries: Tensor, *, shift: float = 0.25, tolerance: float = 16
) -> bool:
    """Perturb one query; no other output may move.

    Args:
        field: Callable on queries ``[B, N, D]`` that gives ``[B, N, C]``.
        queries: At least two per function.
        shift: How far the query is moved inwards, as a fraction of the spread of the queries.
        tolerance: How far another output may move, in units of rounding of the largest output.

    Returns:
        Whether the field is point-wise.

    Raises:
        ValueError: If there are fewer than two queries.
    """
    if queries.shape[1] < 2:
        raise ValueError(f"{queries.shape[1]} query per function cannot show a coupling; give two")
    middle = queries.shape[1] // 2
    low, high = queries.amin((0, 1)), queries.amax((0, 1))
    step = shift * torch.where(high > low, high - low, 1.0)
    moved = queries.clone()
    moved[:, middle] += torch.where(queries[:, middle] < (low + high) / 2, step, -step)
    with torch.no_grad():
        change = (field(moved) - field(queries)).abs()
        scale = field(queries).abs().max()
    others = torch.arange(queries.shape[1], device=queries.device) != middle
    return bool(change[:, others].max() <= tolerance * torch.finfo(change.dtype).eps * scale)
