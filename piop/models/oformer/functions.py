"""The input encoder: one input function to tokens that have attended among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.attention import Harmonics
from piop.models.base import InputSignature, Signature, standardised
from piop.models.encoding import angles, harmonics, shortest_waves
from piop.models.oformer.attention import FeedForward, Gate, Kind, LinearAttention, SelfAttention
from piop.models.oformer.queries import CoordinateFeatures
from piop.models.pit import absolute_axes
from piop.models.spectrum import Spectrum

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
