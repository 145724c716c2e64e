"""PIT, the physics-informed transformer: queries attend to sensors and never to each other.

F. Dos Santos, T. Akhound-Sadegh, S. Ravanbakhsh, *Physics-Informed Transformer Networks*, NeurIPS
2023 workshop "The Symbiosis of Deep Learning and Differential Equations III". The network of the
paper is in ``published.py``; this one keeps its idea and makes position relative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from piop.models.core.attention import AttentionContext, RelativeAttentionConfig, perceptron
from piop.models.core.base import Backbone, Inputs, Signature, encode_scalars
from piop.models.core.coordinates import CoordinateEncoding, absolute_axes
from piop.models.core.sensor_encoder import GatedSkip, SensorEncoder, encode_sensors


@dataclass(frozen=True)
class PITConfig(RelativeAttentionConfig):
    """Sizes of the default PIT, all dimensionless.

    Attributes:
        blocks: L, cross-attention blocks.
    """

    blocks: int = 2


@final
class PIT(Backbone):
    """The default PIT.

    Where it leaves the paper, and why (``docs/models.md``):

    - Position is relative along homogeneous axes, so one function teaches all its shifts.
    - Queries start from harmonic cross-attention to the input (:class:`HarmonicCrossAttention`),
      not from their coordinates alone.
    - A skip connection multiplies these views by functions of the time (:class:`GatedSkip`): what a
      linear equation does to a harmonic, which perceptrons are slow to learn.
    - A smooth input is evaluated from its harmonic fit on an even grid (:class:`SensorEncoder`), so
      that scattered sensors need not be learned.
    - Linear maps for Q, K, V and one hidden layer in φ, ψ and the decoder, where the paper has
      perceptrons of three and four layers: 85 thousand parameters in place of a million, and fewer
      layers for every stream.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PITConfig) -> None:
        super().__init__(signature, config)
        width = config.width
        absolute = absolute_axes(signature)
        self.encoding = CoordinateEncoding(signature.coordinates, absolute, config.frequencies)
        self.place = self.encoding.linear(width)
        scalars = signature.scalar_channels
        self.scalars = nn.Linear(scalars, width) if scalars else None
        self.start = nn.Linear(width, width)
        self.transport = None
        if signature.functions:
            self.transport = GatedSkip(self.encoding.features, width, signature.channels)
        sensors = {e.name: SensorEncoder(signature, e, config) for e in signature.functions}
        self.sensors = nn.ModuleDict(sensors)
        self.blocks = nn.ModuleList(PITBlock(signature, config) for _ in range(config.blocks))
        self.decoder = perceptron(width, width, signature.channels)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        coordinates, condition = None, encode_scalars(self.scalars, self.signature, inputs)
        state: Any = 0.0 if condition is None else condition
        if self.place is not None:
            coordinates = self.encoding(queries)
            state = self.place(coordinates) + state
        contexts, views = encode_sensors(self.sensors, inputs, queries, condition)
        state = self.start(torch.tanh(views + state))
        skip: Any = 0.0
        if self.transport is not None:
            gated, skip = self.transport(views, coordinates)
            state = state + gated
        for block in self.blocks:
            state = block(state, contexts)
        return self.decoder(state) + skip

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the tokens: see :meth:`Backbone.context_length`."""
        total = 0
        for entry in self.signature.functions:
            fit = cast(SensorEncoder, self.sensors[entry.name]).spectrum
            total += fit.token_count if entry.smooth else sensors[entry.name]
        return total


class PITBlock(nn.Module):
    """z + attention, then z + perceptron.

    The paper's eq. 6 feeds the sum of skip and attention to one perceptron; two residual steps are
    what transformers do today. There is no layer norm: two blocks train without, and it would cost
    every stream two reductions.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PITConfig) -> None:
        super().__init__()
        attention = {e.name: config.attention(len(e.of)) for e in signature.functions}
        self.attention = nn.ModuleDict(attention)
        self.perceptron = config.perceptron()

    def forward(self, state: Tensor, contexts: Mapping[str, AttentionContext]) -> Tensor:
        """Update the state of the queries ``[B, N, width]``."""
        found = state
        for name, attend in self.attention.items():
            found = found + attend(state, contexts[name])
        return found + self.perceptron(found)
