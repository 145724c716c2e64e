"""Relative cross-attention from queries to sensors, and the perceptrons beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples

Harmonics = tuple[Tensor, Tensor]
"""Cosines and sines of the wave vectors at some points, ``[B, P, K]`` each."""

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


def rotate(entries: Any, at: Harmonics, *, first: int = 0, parts: int = 1) -> Any:
    """Rotate pairs of entries by phases: rotary position embedding.

    Args:
        entries: ``[B, n, H, size]``; from ``first`` on 2P entries rotate, the others stay.
        at: Cosines and sines of the P phases at the points, ``[B, n, P]`` each.
        first: Index of the first entry that rotates.
        parts: Number of parts of the 2P entries, each of which is split in halves: real parts, then
            imaginary parts.

    Returns:
        ``[B, n, H, size]``.
    """
    pairs = at[0].shape[-1] // parts
    cos, sin = (wave.unflatten(-1, (parts, pairs))[:, :, None] for wave in at)
    last = entries.shape[-1] - first - 2 * parts * pairs
    before, turning, after = entries.split([first, 2 * parts * pairs, last], -1)
    turning = turning.unflatten(-1, (parts, 2 * pairs))
    # two products of all entries have fewer operations than four of the halves
    swapped = torch.cat([turning[..., pairs:], turning[..., :pairs]], -1)
    turned = turning * torch.cat([cos, cos], -1) + swapped * torch.cat([-sin, sin], -1)
    found = before, turned.flatten(-2), after
    return torch.cat([part for part in found if part.shape[-1]], -1)


@dataclass(frozen=True)
class AttentionContext:
    """Tokens of one input, and the positions from which queries attend to them.

    Attributes:
        tokens: ``[B, M, width]``.
        at_queries: Cosines and sines of the attention's wave vectors there, ``[B, N, P]`` each.
        at_tokens: The same at the tokens, ``[B, M, P]`` each.
        mask: Which tokens are real, as the attention takes it (for softmax, what is added to the
            scores, ``[B, 1, 1, M]``); None when all are.
    """

    tokens: Tensor
    at_queries: Harmonics
    at_tokens: Harmonics
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

    Rotary embedding (Su et al. 2021, eq. 34, doi:10.1016/j.neucom.2023.127063) with integer
    frequencies, hence exactly periodic, in place of its geometric sequence.

    Args:
        config: Sizes: ``content`` entries of a key do not rotate, ``harmonics`` pairs do.
        dimension: d, coordinates of the tokens.
    """

    def __init__(self, config: RelativeAttentionConfig, dimension: int) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.heads, self.content = heads, config.content
        self.size = config.content + 2 * config.harmonics
        self.depth = max(width // heads, 2 * ROTATED_VALUES)
        self.query = nn.Linear(width, heads * self.size)
        self.key = nn.Linear(width, heads * self.size)
        self.value = nn.Linear(width, heads * self.depth)
        self.out = nn.Linear(heads * self.depth, width)
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
        tokens, at_queries, at_tokens = context.tokens, context.at_queries, context.at_tokens
        query, key, values = (
            split_heads(layer(given), self.heads)
            for layer, given in ((self.query, state), (self.key, tokens), (self.value, tokens))
        )
        query = rotate(query, at_queries, first=self.content)
        key = rotate(key, at_tokens, first=self.content)
        cos, sin = (wave[..., :ROTATED_VALUES] for wave in at_tokens)
        found = softmax_attention(query, key, rotate(values, (cos, sin)), context.mask)
        cos, sin = (wave[..., :ROTATED_VALUES] for wave in at_queries)
        found = rotate(found, (cos, sin * -1.0))
        return self.out(found.reshape(*found.shape[:2], -1))


ROTATED_VALUES = 3
"""Pairs of values of a head that rotate, by the shortest wave vectors."""

INITIAL_SHARPNESS = 2.0
"""Score of head 0 at the sensor itself over that a radian away, at the start."""
SHARPEST = 12
"""Head from which on kernels are alike, of a width of a thousandth of a radian."""
