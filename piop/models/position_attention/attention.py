"""Position attention: a softmax of distances, global or local."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

CAP = 1 - 1e-7
"""Keeps the tangent's argument below π/2 (the authors' constant)."""

LARGEST = math.atan(1e6)
"""Bound of r under the plain tangent: λ = 10⁶ resolves a thousandth of an axis."""


def square(r: Tensor) -> Tensor:
    """λ = r² (app. C.1)."""
    return r**2


def tangent(r: Tensor) -> Tensor:
    """λ = tan r with 0 ≤ r < π/2 (app. C.1).

    The bound is kept by cutting r in the forward pass alone, so that a gradient can lead back
    inside; the authors' code clips r at zero after each step and has no upper bound, beyond which
    tan turns negative.
    """
    kept = r + (r.clamp(0.0, LARGEST) - r).detach()
    return torch.tan(kept)


def sine_tangent(r: Tensor) -> Tensor:
    """λ = tan(π/4 (1 − 10⁻⁷)(1 + sin r)), r free: the authors' code for Burgers, Darcy, vorticity.

    The cap is beyond single precision, so the angle is computed in double precision.
    """
    angle = 0.25 * math.pi * CAP * (1 + torch.sin(r.double()))
    return torch.tan(angle).to(r.dtype)


SHARPNESS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "square": square,
    "tangent": tangent,
    "sine_tangent": sine_tangent,
}
"""Maps from trained parameters to λ ≥ 0."""

INVERSE_SHARPNESS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "square": torch.sqrt,
    "tangent": torch.atan,
    "sine_tangent": lambda sharp: torch.asin(torch.atan(sharp) * (4 / (math.pi * CAP)) - 1),
}
"""Inverse maps: the initial parameter for a given λ."""


def first_sharpness(heads: int, sharpness: str) -> Tensor:
    """Draw r as the authors' code does: Glorot's bound, as Keras interprets the shape (H, 1, 1).

    Under the plain tangent half of these draws are negative, λ = 0, and a layer whose heads all are
    does not depend on positions: there they are taken positive, and below π/2.
    """
    bound = math.sqrt(3 / heads)
    if sharpness == "tangent":
        return torch.empty(heads).uniform_(0.0, min(bound, 1.4))
    return torch.empty(heads).uniform_(-bound, bound)


class PositionAttention(nn.Module):
    """Softmax(−λD) U W, for several λ side by side (eq. 5, 9, 10 and 22), and its `self` variant.

    Global, cross and local attention differ only in the distances and in the pairs that attend.
    With every row a mean, the layer is a quadrature of the integral operator of eq. 7 on any mesh
    whose points are drawn from one density. No bias, no output projection.

    Args:
        features: d_ℓ of the points attended to.
        width: d_{ℓ+1}; divided among the heads.
        heads: H.
        sharpness: Map to λ, a key of ``SHARPNESS``.
        content: Whether scores add UW^Q (UW^K)ᵀ/√d (Self-PiT, eq. 12), d the width of a head.
    """

    def __init__(
        self, features: int, width: int, heads: int, sharpness: str, content: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.map = heads, SHARPNESS[sharpness]
        self.r = nn.Parameter(first_sharpness(heads, sharpness))
        self.value = nn.Linear(features, width, bias=False)
        nn.init.kaiming_normal_(self.value.weight, nonlinearity="linear")
        self.query = nn.Linear(features, width, bias=False) if content else None
        self.key = nn.Linear(features, width, bias=False) if content else None

    def weights(
        self, squares: Tensor, kept: Tensor | None = None, content: Tensor | None = None
    ) -> Tensor:
        """Compute the rows of the attention, each of sum one.

        Args:
            squares: D ``[B or 1, N, M]``, scaled as the task wants it.
            kept: True for pairs that attend ``[B or 1, N, M]``; all if None.
            content: Scores of the contents ``[B, H, N, M]``, or None.

        Returns:
            ``[B or 1, H, N, M]``.
        """
        scores = -self.map(self.r)[:, None, None] * squares[:, None]
        scores = scores if content is None else scores + content
        if kept is not None:
            scores = scores.masked_fill(~kept[:, None], -torch.inf)
        return torch.softmax(scores, -1)

    def forward(self, state: Tensor, squares: Tensor, kept: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            state: U ``[B, M, features]``; with content, of the N = M points themselves.
            squares: D ``[B or 1, N, M]``.
            kept: True for pairs that attend ``[B or 1, N, M]``; all if None.

        Returns:
            ``[B, N, width]``.
        """
        values = self._split(self.value(state))
        content = None
        if self.query is not None and self.key is not None:
            query, key = self._split(self.query(state)), self._split(self.key(state))
            content = query @ key.mT / math.sqrt(query.shape[-1])
        rows = self.weights(squares, kept, content)
        if len(rows) == 1 < len(values):  # one matrix for all functions: fold them into columns
            batch = len(values)
            found = rows[0] @ values.permute(1, 2, 0, 3).flatten(2)
            found = found.unflatten(-1, (batch, -1)).permute(2, 1, 0, 3)
        else:
            found = (rows @ values).transpose(1, 2)
        return found.flatten(2)

    def _split(self, features: Tensor) -> Tensor:
        """``[B, M, width]`` to ``[B, H, M, width / H]``."""
        return features.unflatten(-1, (self.heads, -1)).transpose(1, 2)


TIE_ROUNDINGS = 8.0
"""Distances are ties within this many roundings of a coordinate: an even grid stays symmetric."""

STEEPNESS = 4
"""Power of the smooth window."""


def within_quantile(squares: Tensor, quantile: float, mask: Tensor | None = None) -> Tensor:
    """Select the points within the quantile of their row.

    Chen & Wu 2024, sec. 2.2: the radius is a quantile of the row, read as the linearly interpolated
    percentile with "≤" kept, so of n points ⌊q(n − 1)⌋ + 1 stay (and what ties with the last).
    Multiplying by λ > 0 changes nothing: the selection depends on the meshes alone.

    Args:
        squares: Squared distances ``[B, N, M]``.
        quantile: q, 0 < q ≤ 1.
        mask: True where a point is real ``[B, M]``; None when all are.

    Returns:
        ``[B, N, M]``, booleans.
    """
    count = squares.shape[-1]
    if mask is None:
        bound = _smallest(squares, _rank(quantile, count))
    else:
        far = squares.detach().masked_fill(~mask[:, None], torch.inf).sort(-1).values
        ranks = [_rank(quantile, n) - 1 for n in range(1, count + 1)]
        last = torch.tensor([0, *ranks], device=squares.device)[mask.sum(-1)]
        bound = far.gather(-1, last[:, None, None].expand(*far.shape[:2], 1))
    slack = TIE_ROUNDINGS * torch.finfo(squares.dtype).eps * bound.sqrt()
    near = squares <= bound + slack
    return near if mask is None else near & mask[:, None]


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
    """Logarithm of a window that is one inside and zero outside, smooth everywhere.

    exp(−(D/r²)⁴) is within e⁻¹ of one up to r and below 10⁻⁷ beyond 1.42 r; a hard mask has no
    slope where it matters. Added to the scores, so that rows still sum to one.

    Args:
        squares: D, as from :func:`piop.models.core.coordinates.squared_chords`.
        radius_square: r².

    Returns:
        Added to the scores, as ``squares``.
    """
    return -((squares * (1.0 / radius_square)) ** STEEPNESS)
