"""Queries that read inputs: the query encoder and the layers of cross-attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Signature, standardised
from piop.models.core.coordinates import absolute_axes
from piop.models.oformer.attention import FeedForward, LinearAttention
from piop.models.oformer.input_encoder import (
    GATE,
    CoordinateFeatures,
    Encoded,
    FunctionEncoder,
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
        self.rounds = nn.ModuleList(Round(signature, config) for _ in range(config.rounds))

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """Read the inputs from ``queries [B or 1, N, D]``: ``[B or 1, N, width]``."""
        condition = self._condition(inputs)
        state = self._starts(queries)
        state = state if condition is None else state + condition
        seen: dict[str, Encoded] = {}
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


class Readout(nn.Module):
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


class Round(nn.Module):
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

    def forward(self, state: Any, seen: Mapping[str, Encoded], turns: Mapping[str, Any]) -> Any:
        """Update the state of the queries ``[B or 1, N, width]``."""
        found = state
        for name, attend in self.attention.items():
            source = seen[name]
            found = found + attend(state, source.tokens, turns[name], source.turns, source.keep)
        return found + self.feed(found)
