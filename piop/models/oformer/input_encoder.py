"""The input encoder: Fourier features of coordinates, and tokens that attend to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import AxisSignature, InputSignature, Signature, standardised
from piop.models.core.coordinates import absolute_axes, angles, harmonics, shortest_waves
from piop.models.core.relative_attention import Harmonics
from piop.models.core.spectrum import Spectrum
from piop.models.oformer.attention import FeedForward, Gate, Kind, LinearAttention, SelfAttention
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


GATE: Gate = "tanh"
"""Of the feed-forward networks: bounded, and cheaper on streams than the paper's gelu."""


@dataclass(frozen=True)
class OFormerConfig:
    """Sizes of the default OFormer, dimensionless.

    Attributes:
        width: Features of a token and of a query.
        blocks: Layers of the input encoder.
        rounds: Layers of cross-attention.
        heads: H, attention heads.
        content: Entries of a head that carry content alone.
        harmonics: Pairs of entries of a head that carry position, by the shortest wave vectors.
        attention: Kind of attention: galerkin, fourier or plain.
        features: Random Fourier features, in pairs; harmonics of axes that must be known as such.
        sigma: Turns per length of an axis of the random Fourier features.
        steps: Steps over the time axis, where the latent marches.
    """

    width: int = 64
    blocks: int = 2
    rounds: int = 2
    heads: int = 4
    content: int = 8
    harmonics: int = 12
    attention: Kind = "fourier"
    features: int = 8
    sigma: float = 1.0
    steps: int = 1

    def size(self) -> int:
        """Entries of a head."""
        return self.content + 2 * self.harmonics


def perceptron(features: int, width: int) -> nn.Sequential:
    """Lift features: two layers with a tanh, which bounds what lies far from the law."""
    return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width))


@dataclass(frozen=True)
class Encoded:
    """An input as queries meet it.

    Attributes:
        tokens: ``[B, M, width]``.
        turns: Cosines and sines of the attention's wave vectors there, ``[B, M, P]`` each.
        keep: One where a token is, zero where none is, ``[B, M, 1]``; None where all are.
    """

    tokens: Tensor
    turns: Harmonics
    keep: Tensor | None


class FunctionEncoder(nn.Module):
    """Sensors to tokens, with position relative along homogeneous axes.

    A smooth input is read off its harmonic fit on a lattice: scattered sensors then cost the
    attention no accuracy, since its sum is that of an even grid. One with jumps keeps its sensors.

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        config: Sizes.
    """

    waves: Tensor

    def __init__(self, signature: Signature, entry: InputSignature, config: OFormerConfig) -> None:
        super().__init__()
        self.entry = entry
        self.columns = tuple(signature.axis(name) for name in entry.of)
        self.axes = [signature.coordinates[i] for i in self.columns]
        self.spectrum = Spectrum(entry, self.axes)
        fixed = absolute_axes(signature)
        self.fixed = [i for i, column in enumerate(self.columns) if column in fixed]
        features = entry.channels * (1 + 2 * len(self.axes))
        self.place = None
        if self.fixed:
            axes = [self.axes[i] for i in self.fixed]
            self.place = CoordinateFeatures(axes, config.features, config.features, config.sigma)
            features += self.place.features
        waves = shortest_waves(len(self.axes), config.harmonics)
        table = torch.tensor(waves, dtype=torch.get_default_dtype())
        self.register_buffer("waves", table, persistent=False)
        width = config.width
        self.embed = perceptron(features, width)
        self.blocks = nn.ModuleList(self._block(config) for _ in range(config.blocks))

    @staticmethod
    def _block(config: OFormerConfig) -> SelfAttention:
        width = config.width
        attention = LinearAttention(width, width, config.heads, config.size(), config.attention)
        attention.start_near_identity()
        return SelfAttention(attention, FeedForward(width, width, GATE), width, normed=True)

    def forward(self, samples: FunctionSamples, condition: Tensor | None) -> Encoded:
        """Encode sensors, with what the scalars say ``[B, 1, width]``."""
        coefficients = self.spectrum(samples)
        points, values, keep = samples.points, standardised(self.entry, samples), None
        if self.entry.smooth:
            points = self.spectrum.lattice(points)
            values = self.spectrum.basis(points) @ coefficients
        elif samples.mask is not None:
            points = points.masked_fill(~samples.mask[..., None], self.axes[0].low)
            keep = samples.mask[..., None].to(values.dtype)
        columns = [values, self.spectrum.features(coefficients, points)]
        if self.place is not None:
            here = torch.cat([points[..., i : i + 1] for i in self.fixed], -1)
            columns.append(self.place(here).expand(len(values), -1, -1))
        tokens = self.embed(torch.cat(columns, -1))
        tokens = tokens if condition is None else tokens + condition
        turns = harmonics(angles(points, self.axes), self.waves)
        for block in self.blocks:
            tokens = block(tokens, turns, keep)
        return Encoded(tokens, turns, keep)

    def turns(self, queries: Any) -> Harmonics:
        """Cosines and sines of the attention's wave vectors at ``queries [B, N, D]``."""
        columns = torch.cat([queries[..., i : i + 1] for i in self.columns], -1)
        return harmonics(angles(columns, self.axes), self.waves)
