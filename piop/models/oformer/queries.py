"""What the query encoder reads: coordinates through random Fourier features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from piop.models.base import AxisSignature
from piop.models.encoding import angles, harmonics, shortest_waves
from piop.models.oformer.rotary import unit


class RandomFourierFeatures(nn.Module):
    """cos 2πBᵀy and sin 2πBᵀy, B drawn from N(0, σ²) once and kept with the weights.

    Their product over all F pairs tends to F exp(−2π²σ²|x − y|²), a Gaussian kernel of width
    1/2πσ: A. Rahimi, B. Recht, *Random features for large-scale kernel machines*, NeurIPS 2007.

    Args:
        axes: The coordinates; each runs from zero to one in y.
        pairs: F, half the features.
        sigma: σ, turns per length of an axis.

    Source: eq. 7 of the paper; M. Tancik et al., *Fourier features let networks learn high
        frequency functions in low dimensional domains*, NeurIPS 2020, arXiv:2006.10739.
    """

    directions: Tensor

    def __init__(self, axes: Sequence[AxisSignature], pairs: int, sigma: float) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.register_buffer("directions", sigma * torch.randn(pairs, len(self.axes)))

    def forward(self, points: Any) -> Any:
        """Give the features of ``points [B, N, d]``, units of the axes: ``[B, N, 2F]``."""
        cos, sin = harmonics(unit(points, self.axes), 2 * torch.pi * self.directions)
        return torch.cat([cos, sin], -1)


class CoordinateFeatures(nn.Module):
    """Harmonics round periodic axes, random Fourier features along the others.

    Random frequencies fit no period; integer ones give back the same answer after one turn for any
    weights that follow.

    Args:
        axes: The coordinates, in the order of the columns.
        pairs: Sines, and cosines, of the axes with ends together.
        waves: Sines, and cosines, of the periodic axes together, by the shortest wave vectors.
        sigma: Turns per length of an axis with ends.

    Attributes:
        features: Numbers per point.
    """

    waves: Tensor

    def __init__(self, axes: Sequence[AxisSignature], pairs: int, waves: int, sigma: float) -> None:
        super().__init__()
        self.round = [i for i, axis in enumerate(axes) if axis.periodic]
        self.open = [i for i, axis in enumerate(axes) if not axis.periodic]
        self.periodic = [axes[i] for i in self.round]
        vectors = shortest_waves(len(self.round), waves) if self.round else []
        table = torch.tensor(vectors, dtype=torch.get_default_dtype())
        self.register_buffer("waves", table, persistent=False)
        self.random = None
        if self.open:
            self.random = RandomFourierFeatures([axes[i] for i in self.open], pairs, sigma)
        self.features = (2 * pairs + len(self.open)) * bool(self.open) + 2 * len(vectors)

    def forward(self, points: Any) -> Any:
        """Give the features of ``points [B, N, d]``, units of the axes: ``[B, N, features]``."""
        found = []
        if self.random is not None:
            columns = torch.cat([points[..., i : i + 1] for i in self.open], -1)
            found += [unit(columns, self.random.axes), self.random(columns)]
        if self.round:
            columns = torch.cat([points[..., i : i + 1] for i in self.round], -1)
            found += harmonics(angles(columns, self.periodic), self.waves)
        return torch.cat(found, -1)
