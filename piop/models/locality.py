"""Local position-attention: who is near, exactly for meshes and smoothly for physics."""

from __future__ import annotations

import torch
from torch import Tensor

TIES = 8.0
"""Distances are ties within this many roundings of a coordinate: an even grid stays symmetric."""

STEEPNESS = 4
"""Power of the smooth window."""


def nearest_share(squares: Tensor, quantile: float, there: Tensor | None = None) -> Tensor:
    """Tell which points lie within the quantile of their row.

    Chen & Wu 2024, sec. 2.2: the radius is a quantile of the row, read as the linearly interpolated
    percentile with "≤" kept, so of n points ⌊q(n − 1)⌋ + 1 stay (and what ties with the last).
    Multiplying by λ > 0 changes nothing: the answer depends on the meshes alone.

    Args:
        squares: Squared distances ``[B, N, M]``.
        quantile: q, 0 < q ≤ 1.
        there: Which points exist ``[B, M]``; all if None.

    Returns:
        ``[B, N, M]``, booleans.
    """
    count = squares.shape[-1]
    if there is None:
        bound = _smallest(squares, _rank(quantile, count))
    else:
        far = squares.detach().masked_fill(~there[:, None], torch.inf).sort(-1).values
        ranks = [_rank(quantile, n) - 1 for n in range(1, count + 1)]
        last = torch.tensor([0, *ranks], device=squares.device)[there.sum(-1)]
        bound = far.gather(-1, last[:, None, None].expand(*far.shape[:2], 1))
    slack = TIES * torch.finfo(squares.dtype).eps * bound.sqrt()
    near = squares <= bound + slack
    return near if there is None else near & there[:, None]


def _smallest(squares: Tensor, rank: int) -> Tensor:
    """The ``rank``-th smallest of each row ``[B, N, 1]``."""
    return squares.detach().topk(rank, -1, largest=False).values[..., -1:]


def _rank(quantile: float, count: int) -> int:
    """⌊q(n − 1)⌋ + 1; the small number undoes the rounding of a product such as 0.29 · 100."""
    return int(quantile * (count - 1) + 1e-9) + 1


def window_square(squares: Tensor, quantile: float) -> float:
    """Square the mean radius that holds a quantile of a mesh, for :func:`smooth_window`.

    Args:
        squares: Squared distances of the mesh to itself ``[1, M, M]``.
        quantile: q, 0 < q ≤ 1.
    """
    return float(_smallest(squares, _rank(quantile, squares.shape[-1])).mean())


def smooth_window(squares: Tensor, radius_square: float) -> Tensor:
    """Logarithm of a window that is one inside and nothing outside, smooth everywhere.

    exp(−(D/r²)⁴) is within e⁻¹ of one up to r and below 10⁻⁷ beyond 1.42 r; a hard mask has no
    slope where it matters. Added to the scores, so that rows still sum to one.

    Args:
        squares: D, as from :func:`piop.models.distances.squared_chords`.
        radius_square: r².

    Returns:
        What is added to the scores, as ``squares``.
    """
    return -((squares * (1.0 / radius_square)) ** STEEPNESS)
