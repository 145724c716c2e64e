"""Layers of the published IPOT: Fourier features, attention, feed-forward.

S. Lee, T. Oh, *Inducing Point Operator Transformer*, AAAI 2024 (arXiv:2312.10975),
appendix "Attention blocks". Sizes the text omits are those of the authors' code
(github.com/7tl7qns7ch/IPOT, revision 18c1778).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piop.models.core.base import AxisSignature
from piop.models.core.coordinates import scaled_to_unit


class FourierFeatures(nn.Module):
    """Coordinates as sines and cosines of rates from the coarsest to Nyquist's.

    Along an axis with ends, x from 0 to 1: x itself and the sines and cosines of πfx with f evenly
    from 1 to resolution / 2. These are not periodic; along a periodic axis they are the harmonics
    2πkx up to the same highest rate, without x, so that outputs are exactly periodic.

    Args:
        axes: The d coordinates.
        bands: Rates of an axis.
        resolutions: Points along each axis that the highest rate resolves; the last one holds for
            all axes beyond.

    Attributes:
        features: Numbers per point.
    """

    def __init__(
        self, axes: Sequence[AxisSignature], bands: int, resolutions: Sequence[int]
    ) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.rates = tuple(
            _rates(axis, bands, resolutions[min(i, len(resolutions) - 1)])
            for i, axis in enumerate(self.axes)
        )
        ends = sum(not axis.periodic for axis in self.axes)
        self.features = ends + sum(2 * len(rates) for rates in self.rates)

    def forward(self, points: Tensor) -> Tensor:
        """Encode ``points [B, N, d]`` in units of the axes: ``[B, N, features]``."""
        columns = []
        for i, (axis, rates) in enumerate(zip(self.axes, self.rates, strict=True)):
            x = scaled_to_unit(points[..., i : i + 1], [axis])
            phase = x * torch.tensor(rates, dtype=points.dtype, device=points.device)
            columns += [] if axis.periodic else [x]
            columns += [torch.sin(phase), torch.cos(phase)]
        return torch.cat(columns, -1)


def _rates(axis: AxisSignature, bands: int, resolution: int) -> tuple[float, ...]:
    """Radians per length of the axis.

    Example:
        >>> walled, ring = AxisSignature("x", 0.0, 1.0), AxisSignature("x", 0.0, 1.0, True)
        >>> [round(rate / math.pi, 9) for rate in _rates(walled, 3, 8)]
        [1.0, 2.5, 4.0]
        >>> [round(rate / math.pi, 9) for rate in _rates(ring, 3, 8)]
        [2.0, 4.0]
    """
    if axis.periodic:
        waves = max(1, min(bands, resolution // 4))
        return tuple(2 * math.pi * k for k in range(1, waves + 1))
    step = (resolution / 2 - 1) / max(bands - 1, 1)
    return tuple(math.pi * (1 + k * step) for k in range(bands))


class KeysAndValues(nn.Module):
    """Keys and values of tokens: layer norm, then linear maps without bias.

    Args:
        width: Features of a token.
        size: Features of keys and of values, all heads together.
        norm: Whether tokens are normalised here.
    """

    def __init__(self, width: int, size: int, norm: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.key = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[B, M, size]`` of ``tokens [B, M, width]``."""
        normal = self.norm(tokens)
        return self.key(normal), self.value(normal)


class Attention(nn.Module):
    """Multi-head attention softmax(Q Kᵀ / √d) V (eq. 13).

    Args:
        width: Features of a query.
        out: Features of the result.
        heads: H.
        size: Features of keys and of values, all heads together.
    """

    def __init__(self, width: int, out: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (size // heads) ** -0.5
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, size, bias=False)
        self.out = nn.Linear(size, out)

    def forward(
        self, state: Tensor, keys: Tensor, values: Tensor, blocked: Tensor | None = None
    ) -> Tensor:
        """Attend.

        Args:
            state: Queries, normalised here ``[B or 1, N, width]``.
            keys: ``[B, M, size]``.
            values: ``[B, M, size]``.
            blocked: Added to the scores ``[B, M]``, or None.

        Returns:
            ``[B, N, out]``.
        """
        query = self._split(self.query(self.norm(state)) * self.scale).transpose(1, 2)
        scores = torch.matmul(query, self._split(keys).permute(0, 2, 3, 1))
        if blocked is not None:
            scores = scores + blocked[:, None, None]
        found = torch.matmul(torch.softmax(scores, -1), self._split(values).transpose(1, 2))
        found = found.transpose(1, 2)
        return self.out(found.reshape(*found.shape[:2], -1))

    def _split(self, features: Tensor) -> Tensor:
        size = features.shape[-1] // self.heads
        return features.reshape(*features.shape[:2], self.heads, size)


class GatedFeedForward(nn.Module):
    """Layer norm, then a perceptron of one hidden layer gated by GELU (GEGLU).

    N. Shazeer, *GLU Variants Improve Transformer*, 2020, eq. 5 (arXiv:2002.05202), with biases.

    Args:
        width: Features in and out.
        expansion: Hidden width over ``width``.
    """

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.hidden = expansion * width
        self.norm = nn.LayerNorm(width)
        self.into = nn.Linear(width, 2 * self.hidden)
        self.out = nn.Linear(self.hidden, width)

    def forward(self, state: Tensor) -> Tensor:
        """Map ``state [B, N, width]``, without a skip connection."""
        value, gate = self.into(self.norm(state)).split(self.hidden, -1)
        return self.out(value * F.gelu(gate))
