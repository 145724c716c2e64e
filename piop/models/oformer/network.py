"""OFormer with point queries in time and space, and with its latent propagator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Signature, standardised
from piop.models.core.coordinates import absolute_axes
from piop.models.core.rollout import RolloutBackbone, rollout_refusal
from piop.models.oformer.layers import (
    GATE,
    CoordinateFeatures,
    EncodedFunction,
    FeedForward,
    FunctionEncoder,
    LinearAttention,
    OFormerConfig,
    perceptron,
)


class QueryEncoder(nn.Module):
    """From inputs and queries to a state of each query that holds what it read.

    Along homogeneous axes a query starts without its coordinate, which reaches it through the
    rotary position alone: then the answer moves with the input. Scalars are added to queries and
    tokens alike.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
        timeless: Whether the time is not read, since it is marched.
    """

    def __init__(self, signature: Signature, config: OFormerConfig, timeless: bool = False) -> None:
        super().__init__()
        self.signature = signature
        width = config.width
        unread = signature.time if timeless else None
        self.columns = tuple(i for i in absolute_axes(signature) if i != unread)
        self.place = self.embed = None
        if self.columns:
            axes = [signature.coordinates[i] for i in self.columns]
            self.place = CoordinateFeatures(axes, config.features, config.features, config.sigma)
            self.embed = perceptron(self.place.features, width)
        else:
            self.start = nn.Parameter(torch.randn(width))
        scalars = sum(entry.channels for entry in signature.scalars)
        self.scalars = perceptron(scalars, width) if scalars else None
        self.inputs = nn.ModuleDict(
            {e.name: FunctionEncoder(signature, e, config) for e in signature.functions}
        )
        self.rounds = nn.ModuleList(
            CrossAttentionLayer(signature, config) for _ in range(config.rounds)
        )

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """Read the inputs from ``queries [B or 1, N, D]``: ``[B or 1, N, width]``."""
        condition = self._condition(inputs)
        state = self._starts(queries)
        state = state if condition is None else state + condition
        seen: dict[str, EncodedFunction] = {}
        turns: dict[str, Any] = {}
        for name, encoder in self.inputs.items():
            seen[name] = encoder(inputs[name], condition)
            turns[name] = encoder.turns(queries)  # type: ignore[operator]
        for layer in self.rounds:
            state = layer(state, seen, turns)
        return state

    def _starts(self, queries: Any) -> Any:
        """Encode the coordinates that count: ``[B or 1, N, width]``."""
        if self.place is None or self.embed is None:
            return self.start.expand(queries.shape[0], queries.shape[1], -1)
        columns = torch.cat([queries[..., i : i + 1] for i in self.columns], -1)
        return self.embed(self.place(columns))

    def _condition(self, inputs: Mapping[str, FunctionSamples]) -> Tensor | None:
        """What the scalars say: ``[B, 1, width]``."""
        if self.scalars is None:
            return None
        values = [standardised(e, inputs[e.name])[:, :1] for e in self.signature.scalars]
        return self.scalars(torch.cat(values, -1))


class Decoder(nn.Module):
    """State to answer: a perceptron, and a linear map beside it.

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
        """Read ``state [..., width]``: ``[..., C]``."""
        return self.last(torch.tanh(self.first(state))) + self.straight(state)


class CrossAttentionLayer(nn.Module):
    """z + attention to each input, then z + feed-forward (eq. 8); no norm, so amplitudes survive.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__()
        width, size = config.width, config.size()
        self.attention = nn.ModuleDict(
            {
                e.name: LinearAttention(width, width, config.heads, size, config.attention)
                for e in signature.functions
            }
        )
        for attention in self.attention.values():
            attention.start_near_identity()  # type: ignore[operator]
        self.feed = FeedForward(width, width, GATE)

    def forward(
        self, state: Any, seen: Mapping[str, EncodedFunction], turns: Mapping[str, Any]
    ) -> Any:
        """Update the state of the queries ``[B or 1, N, width]``."""
        found = state
        for name, attend in self.attention.items():
            source = seen[name]
            found = found + attend(state, source.tokens, turns[name], source.turns, source.keep)
        return found + self.feed(found)


@final
class OFormer(Backbone):
    """The default OFormer.

    Time is a coordinate of the queries. Where it leaves the paper, and why (measured results are in
    ``docs/backbones.md``):

    - Position is relative along homogeneous axes, and all frequencies of periodic axes are integer,
      of the rotary embedding too: exactly periodic, and one function teaches all its shifts.
    - Smooth inputs are read off a lattice, so that the attention's sum is that of an even grid.
    - Several layers of cross-attention in place of one. They are cheap: tokens are summed once per
      function, and streams meet matrices of the size of a head.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature)
        self.config = config
        width = config.width
        self.encoder = QueryEncoder(signature, config)
        self.decoder = Decoder(width, signature.channels)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.decoder(self.encoder(inputs, queries))


@final
class OFormerRollout(RolloutBackbone):
    """The default OFormer with the latent propagator z ← z + N(z) of the paper's sec. 3.2.

    The propagator is the gated feed-forward network after a layer norm. It is told no coordinates,
    since the state has read all that count.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature)
        self.config = config
        width = config.width
        self.encoder = QueryEncoder(signature, config, timeless=True)
        self.norm = nn.LayerNorm(width)
        self.propagator = FeedForward(width, width)
        self.decoder = Decoder(width, signature.channels)

    @classmethod
    def refusal(cls, signature: Signature, config: OFormerConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return rollout_refusal(signature)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`Marching.begin`."""
        self.check(inputs, places)
        return self.encoder(inputs, places), None

    def advance(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.advance`."""
        return state + self.propagator(self.norm(state))

    def decode(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.decode`."""
        return self.decoder(state)
