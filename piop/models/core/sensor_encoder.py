"""Sensors of an input function as tokens, and its view from every query."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import InputSignature, Signature, standardised
from piop.models.core.coordinates import absolute_axes, angles, coordinate_features, harmonics
from piop.models.core.harmonic_fit import HarmonicCrossAttention, HarmonicFit
from piop.models.core.relative_attention import RelativeAttention

MASKED_SCORE = -1e9
"""Score of a sensor that is not there."""


class GatedSkip(nn.Module):
    """Views of the input times functions of the time, to the state and straight to the answer.

    What a linear equation does to a harmonic: multiply it by a function of the time. Perceptrons
    are slow to learn products.

    Args:
        marks: Features of time and place; 0 where there are none.
        width: Features of a view and of a query.
        channels: C.
    """

    def __init__(self, marks: int, width: int, channels: int) -> None:
        super().__init__()
        self.gate = (
            nn.Sequential(nn.Linear(marks, width), nn.Tanh(), nn.Linear(width, width))
            if marks
            else None
        )
        self.state = nn.Linear(width, width)
        self.answer = nn.Linear(width, channels)

    def forward(self, views: Tensor, marks: Tensor | None) -> tuple[Tensor, Tensor]:
        """Give what is added to the state ``[B, N, width]`` and to the answer ``[B, N, C]``."""
        turned = views if self.gate is None else views * self.gate(marks)
        return self.state(turned), self.answer(turned)


@dataclass(frozen=True)
class AttentionContext:
    """One input as a block meets it.

    Attributes:
        tokens: ``[B, M, width]``.
        at_queries: Cosines and sines of the attention's wave vectors there, ``[B, N, P]`` each.
        at_sensors: The same at the tokens, ``[B, M, P]`` each.
        blocked: What is added to scores ``[B, 1, 1, M]``, or None.
    """

    tokens: Tensor
    at_queries: tuple[Tensor, Tensor]
    at_sensors: tuple[Tensor, Tensor]
    blocked: Tensor | None


class SensorEncoder(nn.Module):
    """ψ of the paper: sensors to tokens, and what a query sees before it attends.

    A smooth input is read off its harmonic fit on a lattice: scattered sensors then cost the
    attention no accuracy, and many sensors no time. An input with jumps keeps its own sensors.

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        width: Features of a token and of a query.
        harmonic_count: Wave vectors of the attention.
        frequencies: Sines and cosines of axes that are not homogeneous.
    """

    relative: Tensor

    def __init__(
        self,
        signature: Signature,
        entry: InputSignature,
        width: int,
        harmonic_count: int,
        frequencies: int,
    ) -> None:
        super().__init__()
        self.entry, self.frequencies = entry, frequencies
        self.columns = tuple(signature.axis(name) for name in entry.of)
        self.axes = [signature.coordinates[i] for i in self.columns]
        self.fixed = [i for i, c in enumerate(self.columns) if c in absolute_axes(signature)]
        self.spectrum = HarmonicFit(entry, self.axes)
        self.view = HarmonicCrossAttention(len(self.spectrum.waves), entry.channels, width)
        # Slopes and antiderivatives of the fit beside the value.
        features = entry.channels * (1 + 2 * len(self.axes))
        features += len(self.fixed) * (1 + 2 * self.frequencies)
        self.embed = nn.Linear(features, width)
        self.mix = nn.Linear(width, width)
        waves = RelativeAttention.wave_vectors(len(self.axes), harmonic_count)
        self.register_buffer("relative", waves, persistent=False)

    def forward(
        self, samples: FunctionSamples, queries: Tensor, condition: Tensor | None
    ) -> tuple[AttentionContext, Tensor]:
        """Prepare the input.

        Args:
            samples: Its sensors.
            queries: ``[B, N, D]``.
            condition: What the scalars say ``[B, 1, width]``, or None.

        Returns:
            What the blocks attend to, and the view of the input from each query ``[B, N, width]``.
        """
        coefficients = self.spectrum(samples)
        points, values, blocked = samples.points, standardised(self.entry, samples), None
        if self.entry.smooth:
            points = self.spectrum.lattice(points)
            values = self.spectrum.basis(points) @ coefficients
        elif samples.mask is not None:
            points = points.masked_fill(~samples.mask[..., None], self.axes[0].low)
            blocked = MASKED_SCORE * (~samples.mask).to(values.dtype)[:, None, None]
        columns = [values, self.spectrum.features(coefficients, points)]
        if self.fixed:
            here = torch.cat([points[..., i : i + 1] for i in self.fixed], -1)
            known = coordinate_features(here, [self.axes[i] for i in self.fixed], self.frequencies)
            columns.append(known.expand(len(values), -1, -1))
        tokens = self.embed(torch.cat(columns, -1))
        tokens = tokens if condition is None else tokens + condition
        tokens = torch.tanh(self.mix(torch.tanh(tokens)))
        angle = angles(torch.cat([queries[..., i : i + 1] for i in self.columns], -1), self.axes)
        view = self.view(coefficients, *harmonics(angle, self.spectrum.waves))
        at_sensors = harmonics(angles(points, self.axes), self.relative)
        return AttentionContext(tokens, harmonics(angle, self.relative), at_sensors, blocked), view
