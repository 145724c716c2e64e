"""Sensors of an input function as tokens, and cross-attention of queries to its harmonics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.attention import (
    AttentionContext,
    RelativeAttentionConfig,
    RotaryEmbeddings,
    masked_scores,
    perceptron,
)
from piop.models.core.base import Inputs, InputSignature, Signature
from piop.models.core.coordinates import (
    CoordinateEncoding,
    absolute_axes,
    angles,
    harmonics,
    take_columns,
)
from piop.models.core.harmonic_fit import (
    FittedTokens,
    HarmonicCrossAttention,
    HarmonicFit,
    harmonic_sum,
)


class GatedSkip(nn.Module):
    """A skip connection from views of the input, gated by functions of the time.

    It leads to the state and directly to the output: what a linear equation does to a harmonic is
    to multiply it by a function of the time, and perceptrons are slow to learn products.

    Args:
        features: Features of time and coordinates; 0 where there are none.
        width: Features of a view and of a query.
        channels: C.
    """

    def __init__(self, features: int, width: int, channels: int) -> None:
        super().__init__()
        self.gate = perceptron(features, width, width) if features else None
        self.state = nn.Linear(width, width)
        self.answer = nn.Linear(width, channels)

    def forward(self, views: Tensor, coordinates: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return what is added to the state ``[B, N, width]`` and to the output ``[B, N, C]``."""
        gated = views if self.gate is None else views * self.gate(coordinates)
        return self.state(gated), self.answer(gated)


class TokenEncoder(nn.Module):
    """Holds what encoders of one input share: its harmonic fit and the attention's positions.

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        rotary: Rotary embeddings of the attention, of the angles along the axes of the input.

    Attributes:
        columns: Its coordinates, as columns of the queries.
        axes: Those coordinates.
        fixed: Those of them that are not homogeneous, as columns of the sensors.
        features: Values, gradients and antiderivatives of the fit at a token.
        place: Encodes the coordinates in ``fixed``.
        embed: Maps features and encoded coordinates to a token.
    """

    place: Callable[[Tensor], Tensor]
    embed: nn.Module

    def __init__(
        self, signature: Signature, entry: InputSignature, rotary: RotaryEmbeddings
    ) -> None:
        super().__init__()
        self.columns = tuple(signature.axis(name) for name in entry.of)
        self.axes = signature.axes_of(entry)
        absolute = absolute_axes(signature)
        self.fixed = [i for i, column in enumerate(self.columns) if column in absolute]
        self.spectrum = HarmonicFit(entry, self.axes)
        self.features = entry.channels * (1 + 2 * len(self.axes))
        self.rotary = rotary

    def angles(self, queries: Any) -> Any:
        """Angles of ``queries [B, N, D]`` along the axes of the input: ``[B, N, d]``."""
        return angles(take_columns(queries, self.columns), self.axes)

    def embedded(self, fitted: FittedTokens, condition: Tensor | None) -> Tensor:
        """Embed the input at its tokens: ``[B, M, width]``.

        Args:
            fitted: The input there.
            condition: Encoded scalars ``[B, 1, width]``, or None.
        """
        features = fitted.features
        if self.fixed:
            known = self.place(fitted.points).expand(features.shape[0], -1, -1)
            features = torch.cat([features, known], -1)
        tokens = self.embed(features)
        return tokens if condition is None else tokens + condition


class SensorEncoder(TokenEncoder):
    """Encodes the sensors of one input as tokens, and its view from each query (ψ of the paper).

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        config: Sizes; ``frequencies`` are those of axes that are not homogeneous.
    """

    def __init__(
        self, signature: Signature, entry: InputSignature, config: RelativeAttentionConfig
    ) -> None:
        super().__init__(signature, entry, config.rotary_embeddings(len(entry.of)))
        width = config.width
        self.place = CoordinateEncoding(self.axes, self.fixed, config.frequencies)
        self.view = HarmonicCrossAttention(len(self.spectrum.waves), entry.channels, width)
        self.embed = nn.Linear(self.features + self.place.features, width)
        self.mix = nn.Linear(width, width)

    def forward(
        self, samples: FunctionSamples, queries: Tensor, condition: Tensor | None
    ) -> tuple[AttentionContext, Tensor]:
        """Encode the input.

        Args:
            samples: Its sensors.
            queries: ``[B, N, D]``.
            condition: Encoded scalars ``[B, 1, width]``, or None.

        Returns:
            What the blocks attend to, and the coefficients of the view of the input in harmonics
            ``[B, 1 + 2K, width]``; see :func:`encode_sensors`.
        """
        fitted = self.spectrum.tokens(samples)
        tokens = torch.tanh(self.mix(torch.tanh(self.embedded(fitted, condition))))
        at_queries = self.rotary(self.angles(queries))
        at_tokens = self.rotary(angles(fitted.points, self.axes))
        blocked = masked_scores(fitted.mask, tokens)
        context = AttentionContext(tokens, at_queries, at_tokens, blocked)
        return context, self.view(fitted.coefficients)


def encode_sensors(
    encoders: nn.ModuleDict, inputs: Inputs, queries: Tensor, condition: Tensor | None
) -> tuple[dict[str, AttentionContext], Tensor | float]:
    """Encode all inputs.

    Args:
        encoders: Input → its :class:`SensorEncoder`.
        inputs: The sensors of each.
        queries: ``[B, N, D]``.
        condition: Encoded scalars ``[B, 1, width]``, or None.

    Returns:
        What the blocks attend to, by input, and the sum of the views of all inputs from each query
        ``[B, N, width]``; 0 without inputs. Views in the same harmonics are evaluated together.
    """
    contexts: dict[str, AttentionContext] = {}
    alike: dict[Any, tuple[SensorEncoder, Tensor]] = {}
    for name, encode in cast("Mapping[str, SensorEncoder]", encoders).items():
        contexts[name], own = encode(inputs[name], queries, condition)
        key = (encode.columns, encode.spectrum.radius)
        first, total = alike.get(key, (encode, None))
        alike[key] = first, own if total is None else total + own
    views: Tensor | float = 0.0
    for encode, total in alike.values():
        at_queries = harmonics(encode.angles(queries), encode.spectrum.waves)
        views = harmonic_sum(total, *at_queries) + views
    return contexts, views
