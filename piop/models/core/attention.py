"""Relative cross-attention from queries to sensors, and the perceptrons beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.coordinates import harmonics, shortest_waves

MASKED_SCORE = -1e9
"""Added to the score of a masked sensor."""


def masked_scores(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Return what is added to scores: ``[B, 1, 1, M]``, or None without a mask.

    Args:
        mask: True where a sensor is real ``[B, M]``; None when all are.
        like: A tensor of the dtype wanted.
    """
    return None if mask is None else MASKED_SCORE * (~mask).to(like.dtype)[:, None, None]


def joint_masked_scores(inputs: Sequence[FunctionSamples]) -> Tensor | None:
    """Return what is added to the scores of the sensors of several inputs in one softmax.

    Args:
        inputs: Sensors of each, ``[B, M_i]``.

    Returns:
        ``[B, 1, 1, Σ M_i]``, or None where none is masked.
    """
    if all(samples.mask is None for samples in inputs):
        return None
    real = [torch.ones_like(s.values[..., 0], dtype=torch.bool) for s in inputs]
    masks = [every if s.mask is None else s.mask for s, every in zip(inputs, real, strict=True)]
    return masked_scores(torch.cat(masks, 1), inputs[0].values)


def perceptron(*sizes: int, activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """Stack linear layers with an activation between them."""
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*parts[:-1])


def split_heads(features: Any, heads: int) -> Any:
    """Split features ``[B, n, H size]`` into heads ``[B, n, H, size]``."""
    return features.reshape(*features.shape[:2], heads, -1)


def head_scores(query: Any, key: Any) -> Any:
    """Multiply queries ``[B, N, H, d]`` by keys ``[B, M, H, d]`` in each head: ``[B, H, N, M]``."""
    return torch.matmul(query.transpose(1, 2), key.permute(0, 2, 3, 1))


def softmax_attention(query: Any, key: Any, value: Any, blocked: Tensor | None) -> Any:
    """Attend in several heads: softmax(Q Kᵀ) V.

    Args:
        query: ``[B, N, H, d]``.
        key: ``[B, M, H, d]``.
        value: ``[B, M, H, e]``.
        blocked: Added to the scores, as of :func:`masked_scores`; None to add nothing.

    Returns:
        ``[B, N, H, e]``.
    """
    scores = head_scores(query, key)
    scores = scores if blocked is None else scores + blocked
    return torch.matmul(torch.softmax(scores, -1), value.transpose(1, 2)).transpose(1, 2)


@dataclass(frozen=True)
class Rotation:
    """Rotation of pairs of a head's entries at some points.

    Attributes:
        cos: Cosine of the phase of each entry, ``[B, n, size]``; one where it stays.
        sin: Sine by which its partner counts, ``[B, n, size]``.
        partners: Permutation that exchanges the entries of a pair, ``[size, size]``.
    """

    cos: Tensor
    sin: Tensor
    partners: Tensor

    def inverse(self) -> Rotation:
        """Rotate back."""
        return Rotation(self.cos, -self.sin, self.partners)

    def __call__(self, entries: Any) -> Any:
        """Rotate ``entries [B, n, H, size]``."""
        # a matrix product for the partners: slices, joined again, would copy every stream twice
        partners = functional.linear(entries, self.partners)
        return entries * self.cos[:, :, None] + partners * self.sin[:, :, None]


class RotaryEmbedding(nn.Module):
    """Rotates pairs of entries by phases k·θ of a position.

    Args:
        waves: A wave vector k per pair, ``[P, d]``.
        size: Entries of a head; from ``first`` on 2P of them rotate, the others stay.
        first: Index of the first entry that rotates.
        parts: Number of parts of the 2P entries, each of which is split in halves: real parts, then
            imaginary parts.

    Source: Su et al. 2021, eq. 34, doi:10.1016/j.neucom.2023.127063.
    """

    waves: Tensor
    partners: Tensor

    def __init__(self, waves: Tensor, size: int, *, first: int = 0, parts: int = 1) -> None:
        super().__init__()
        (count, dimension), turning = waves.shape, slice(first, first + 2 * len(waves))
        halves = waves.reshape(parts, count // parts, dimension)
        of_entries = waves.new_zeros(size, dimension)
        of_entries[turning] = torch.cat([-halves, halves], 1).flatten(0, 1)
        order = torch.arange(size)
        order[turning] = order[turning].reshape(parts, 2, count // parts).flip(1).flatten()
        # torch.empty, as of weights: their memory is checked on networks that have none yet
        partners = torch.empty(size, size).zero_()
        partners[torch.arange(size), order] = 1.0
        self.register_buffer("waves", of_entries, persistent=False)
        self.register_buffer("partners", partners, persistent=False)

    def forward(self, angle: Any) -> Rotation:
        """Evaluate it at points whose coordinates are ``angle [B, n, d]``, radians."""
        return Rotation(*harmonics(angle, self.waves), self.partners)


class RotaryEmbeddings(nn.ModuleList):
    """Rotary embeddings of the same positions: of keys and, where they rotate, of values."""

    def forward(self, angle: Any) -> list[Rotation]:
        """Evaluate each at points whose coordinates are ``angle [B, n, d]``, radians."""
        return [embedding(angle) for embedding in self]


@dataclass(frozen=True)
class AttentionContext:
    """Tokens of one input, and the positions from which queries attend to them.

    Attributes:
        tokens: ``[B, M, width]``.
        at_queries: Rotations there: of queries and, where values rotate, of their weighted sums.
        at_tokens: Rotations at the tokens: of keys and, where they rotate, of values.
        mask: Which tokens are real, as the attention takes it (for softmax, what is added to the
            scores, ``[B, 1, 1, M]``); None when all are.
    """

    tokens: Tensor
    at_queries: Sequence[Rotation]
    at_tokens: Sequence[Rotation]
    mask: Tensor | None


@dataclass(frozen=True)
class RelativeAttentionConfig:
    """Sizes of a network of relative attention, all dimensionless.

    Attributes:
        width: Features of a query and of a token.
        heads: H, attention heads.
        content: Entries of a key that carry content alone.
        harmonics: Pairs of entries of a key that carry position, by the shortest wave vectors.
        expansion: Hidden width of a block's perceptron over ``width``.
        frequencies: Sines and cosines of the time, and of axes that are not homogeneous.
    """

    width: int = 64
    heads: int = 4
    content: int = 8
    harmonics: int = 6
    expansion: int = 2
    frequencies: int = 4

    def __post_init__(self) -> None:
        if self.harmonics < ROTATED_VALUES:
            raise UsageError(f"harmonics = {self.harmonics}: give at least {ROTATED_VALUES}")

    @property
    def key_size(self) -> int:
        """Entries of a head's key."""
        return self.content + 2 * self.harmonics

    @property
    def value_size(self) -> int:
        """Entries of a head's value."""
        return max(self.width // self.heads, 2 * ROTATED_VALUES)

    def rotary_embeddings(self, dimension: int) -> RotaryEmbeddings:
        """Make those of keys and of values, along so many coordinates."""
        waves = shortest_waves(dimension, self.harmonics)
        keys = RotaryEmbedding(waves, self.key_size, first=self.content)
        return RotaryEmbeddings([keys, RotaryEmbedding(waves[:ROTATED_VALUES], self.value_size)])

    def attention(self, dimension: int) -> RelativeAttention:
        """Make an attention along so many coordinates."""
        return RelativeAttention(self, dimension)

    def perceptron(self) -> nn.Sequential:
        """Make the perceptron of a block."""
        return perceptron(self.width, self.expansion * self.width, self.width)


class RelativeAttention(nn.Module):
    """Softmax attention in which position enters through differences alone.

    Pairs of a key rotate by k·θ of its sensor, pairs of a query by k·θ of the query, so that a
    score is a sum of cos(k·(θ_i − θ_j) + phase), exactly periodic, with amplitudes that depend on
    the state of the query and on the content of the sensor: a learned Green's function. Some values
    rotate too and are rotated back at the query, which gives it directions, not positions.

    Wave vectors of the rotary embedding are integers, hence it is exactly periodic, in place of a
    geometric sequence.

    Args:
        config: Sizes: ``content`` entries of a key do not rotate, ``harmonics`` pairs do.
        dimension: d, coordinates of the tokens.
    """

    def __init__(self, config: RelativeAttentionConfig, dimension: int) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.heads, self.content, self.size = heads, config.content, config.key_size
        self.query = nn.Linear(width, heads * self.size)
        self.key = nn.Linear(width, heads * self.size)
        self.value = nn.Linear(width, heads * config.value_size)
        self.out = nn.Linear(heads * config.value_size, width)
        self._initialise_kernels(dimension)

    def _initialise_kernels(self, dimension: int) -> None:
        """Start with kernels β(cos Δ − 1), β = 2·3^h in head h, of different widths."""
        powers = [3.0 ** min(head, SHARPEST) for head in range(self.heads)]
        sharpness = [math.sqrt(INITIAL_SHARPNESS * power) for power in powers]
        with torch.no_grad():
            for layer in (self.query, self.key):
                layer.weight *= 0.5
                layer.bias.zero_()
                bias = layer.bias.view(self.heads, self.size)
                bias[:, self.content : self.content + dimension] = torch.tensor(sharpness)[:, None]

    def forward(self, state: Tensor, context: AttentionContext) -> Tensor:
        """Attend from ``state [B, N, width]`` to the tokens of a context: ``[B, N, width]``."""
        tokens = context.tokens
        query, key, values = (
            split_heads(layer(given), self.heads)
            for layer, given in ((self.query, state), (self.key, tokens), (self.value, tokens))
        )
        rotate_query, rotate_sums = context.at_queries
        rotate_key, rotate_value = context.at_tokens
        rotated = rotate_query(query), rotate_key(key), rotate_value(values)
        found = rotate_sums.inverse()(softmax_attention(*rotated, context.mask))
        return self.out(found.reshape(*found.shape[:2], -1))


ROTATED_VALUES = 3
"""Pairs of values of a head that rotate, by the shortest wave vectors."""

INITIAL_SHARPNESS = 2.0
"""Score of head 0 at the sensor itself over that a radian away, at the start."""
SHARPEST = 12
"""Head from which on kernels are alike, of a width of a thousandth of a radian."""
