"""OFormer with point queries in time and space, and as a rollout with its latent propagator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.models.core.attention import perceptron
from piop.models.core.base import Backbone, Inputs, Signature, encode_scalars
from piop.models.core.coordinates import absolute_axes, take_columns
from piop.models.core.rollout import RolloutBackbone
from piop.models.core.sensor_encoder import AttentionContext
from piop.models.oformer.layers import (
    CoordinateFeatures,
    FeedForward,
    FunctionEncoder,
    OFormerConfig,
)


class QueryEncoder(nn.Module):
    """Encodes queries and inputs into a state of each query, by cross-attention.

    Along homogeneous axes a query starts without its coordinate, which enters through the rotary
    position alone: then the output is equivariant to shifts. Scalars are added to queries and
    tokens alike.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
        timeless: Whether the time is left out, for a rollout.
    """

    def __init__(self, signature: Signature, config: OFormerConfig, timeless: bool = False) -> None:
        super().__init__()
        self.signature = signature
        width, count = config.width, config.features
        omitted = signature.time if timeless else None
        self.columns = tuple(i for i in absolute_axes(signature) if i != omitted)
        self.place = self.embed = None
        if self.columns:
            axes = [signature.coordinates[i] for i in self.columns]
            self.place = CoordinateFeatures(axes, count, count, config.sigma)
            self.embed = perceptron(self.place.features, width, width)
        else:
            self.start = nn.Parameter(torch.randn(width))
        scalars = signature.scalar_channels
        self.scalars = perceptron(scalars, width, width) if scalars else None
        self.inputs = nn.ModuleDict(
            {e.name: FunctionEncoder(signature, e, config) for e in signature.functions}
        )
        self.rounds = nn.ModuleList(
            CrossAttentionLayer(signature, config) for _ in range(config.rounds)
        )

    def forward(self, inputs: Inputs, queries: Any) -> Any:
        """Encode inputs and ``queries [B or 1, N, D]``: ``[B or 1, N, width]``."""
        condition = encode_scalars(self.scalars, self.signature, inputs)
        state = self._encoded(queries)
        state = state if condition is None else state + condition
        contexts = {
            name: encode(inputs[name], queries, condition) for name, encode in self.inputs.items()
        }
        for layer in self.rounds:
            state = layer(state, contexts)
        return state

    def _encoded(self, queries: Any) -> Any:
        """Encode the coordinates that are not homogeneous: ``[B or 1, N, width]``."""
        if self.place is None or self.embed is None:
            return self.start.expand(queries.shape[0], queries.shape[1], -1)
        return self.embed(self.place(take_columns(queries, self.columns)))


class Decoder(nn.Module):
    """Decodes a state by a perceptron with a linear skip connection.

    What a linear equation does to its input needs no perceptron, and is learned sooner without.

    Args:
        width: Features of the state.
        channels: C.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, channels)
        self.straight = nn.Linear(width, channels, bias=False)

    def forward(self, state: Any) -> Any:
        """Decode ``state [..., width]``: ``[..., C]``."""
        return self.last(torch.tanh(self.first(state))) + self.straight(state)


class CrossAttentionLayer(nn.Module):
    """z + attention to each input, then z + feed-forward (eq. 8); no norm, so amplitudes survive.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__()
        attention = {e.name: config.linear_attention() for e in signature.functions}
        for layer in attention.values():
            layer.start_near_identity()
        self.attention = nn.ModuleDict(attention)
        self.feed = config.feed_forward()

    def forward(self, state: Any, contexts: Mapping[str, AttentionContext]) -> Any:
        """Update the state of the queries ``[B or 1, N, width]``."""
        found = state
        for name, attend in self.attention.items():
            c = contexts[name]
            found = found + attend(state, c.tokens, c.at_queries, c.at_tokens, c.mask)
        return found + self.feed(found)


@final
class OFormer(Backbone):
    """The default OFormer.

    Time is a coordinate of the queries. Where it leaves the paper, and why (measured results are in
    ``docs/backbones.md``):

    - Position is relative along homogeneous axes, and all frequencies of periodic axes are integer,
      of the rotary embedding too: exactly periodic, and one function teaches all its shifts.
    - Smooth inputs are evaluated on an even grid, whose sum approximates the integral.
    - Several layers of cross-attention in place of one. They are cheap: tokens are summed once per
      function, and streams are multiplied by matrices of the size of a head.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature, config)
        self.encoder = QueryEncoder(signature, config)
        self.decoder = Decoder(config.width, signature.channels)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.decoder(self.encoder(inputs, queries))


@final
class OFormerRollout(RolloutBackbone):
    """The default OFormer with the latent propagator z ← z + N(z) of the paper's sec. 3.2.

    The propagator is the gated feed-forward network after a layer norm. It takes no coordinates,
    since the state depends on them already.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature, config)
        width = config.width
        self.encoder = QueryEncoder(signature, config, timeless=True)
        self.norm = nn.LayerNorm(width)
        self.propagator = FeedForward(width, width)
        self.decoder = Decoder(width, signature.channels)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    def begin(self, inputs: Inputs, queries: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`RolloutBackbone.begin`."""
        self.check(inputs, queries)
        return self.encoder(inputs, queries), None

    def advance(self, state: Tensor, context: Any) -> Tensor:
        """See :meth:`RolloutBackbone.advance`."""
        return state + self.propagator(self.norm(state))

    def decode(self, state: Tensor, context: Any) -> Tensor:
        """See :meth:`RolloutBackbone.decode`."""
        return self.decoder(state)
