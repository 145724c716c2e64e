"""Self-attention as an integral over the domain: Fourier, Galerkin, and their two controls.

S. Cao, *Choose a Transformer: Fourier or Galerkin*, NeurIPS 2021, arXiv:2105.14995, sec. 4.1; the
choices that its text leaves open from github.com/scaomath/galerkin-transformer, revision f9e7d6a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Dropout = Callable[[Tensor], Tensor]
"""Dropout of attention weights, or the identity."""

MOST_SCORES = 2**24
"""Scores held in memory at once where no gradient is kept."""

GAIN = 1e-2
"""η of eq. 17, which multiplies Xavier's uniform weights."""

DIAGONAL = 1e-2
"""δ of eq. 17, which is added on the diagonal."""

PUBLISHED_DROPOUT = 0.5
"""Fraction of attention weights that published code drops at all times, whatever rate is set."""


def galerkin(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor, dropout: Dropout
) -> Tensor:
    """Galerkin's attention, eq. 6: Q (K̃ᵀ Ṽ)/n, the moments ⟨k, v⟩ first, so O(n).

    Args:
        query: ``[B, h, N, e]``.
        key: ``[B, h, N, e]``.
        value: ``[B, h, N, e]``.
        weights: Quadrature weight of each token ``[N]``; 1/n in the paper.
        dropout: Applied to the moments.

    Returns:
        ``[B, h, N, e]``.
    """
    return query @ dropout(key.mT @ (value * weights[:, None]))


def linear(query: Tensor, key: Tensor, value: Tensor, weights: Tensor, dropout: Dropout) -> Tensor:
    """Linear attention with two softmaxes: over the features of Q, over the tokens of K.

    Shen et al. 2021 (arXiv:1812.01243), eq. 3 and 5, the paper's control; O(n). Both sums are one,
    so every entry is a mean of values. Arguments as of :func:`galerkin`.
    """
    key = torch.softmax(key + weights.log()[:, None], -2)
    return torch.softmax(query, -1) @ dropout(key.mT @ value)


def fourier(query: Tensor, key: Tensor, value: Tensor, weights: Tensor, dropout: Dropout) -> Tensor:
    """Fourier's attention, eq. 5: (Q̃ K̃ᵀ) V/n, the quadrature of an integral operator; O(n²).

    Over √e as in published code, which eq. 5 leaves out. Arguments as of :func:`galerkin`.
    """

    def weigh(scores: Tensor) -> Tensor:
        return scores * weights

    return _by_rows(query, key, value, weigh, dropout)


def softmax(query: Tensor, key: Tensor, value: Tensor, weights: Tensor, dropout: Dropout) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1), each token by its weight; O(n²).

    Arguments as of :func:`galerkin`.
    """

    def weigh(scores: Tensor) -> Tensor:
        return torch.softmax(scores + weights.log(), -1)

    return _by_rows(query, key, value, weigh, dropout)


def _by_rows(query: Tensor, key: Tensor, value: Tensor, weigh: Dropout, dropout: Dropout) -> Tensor:
    query = query / math.sqrt(query.shape[-1])
    size = max(1, MOST_SCORES // max(1, key[..., 0].numel()))
    chunks = [dropout(weigh(chunk @ key.mT)) @ value for chunk in query.split(size, -2)]
    return torch.cat(chunks, -2)


KINDS = {"galerkin": galerkin, "fourier": fourier, "linear": linear, "softmax": softmax}
"""The four attentions of the paper's tables."""

NORMS = ("heads", "tokens", "tokens_eq7")
"""Where layer norms stand: see :class:`EncoderLayer`."""


class HeadNorm(nn.Module):
    """Layer norm over the features of each head, each head with a scale and shift of its own.

    Args:
        heads: h.
        size: Features of a head.
        eps: Added to the variance.
    """

    def __init__(self, heads: int, size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(heads, 1, size))
        self.bias = nn.Parameter(torch.zeros(heads, 1, size))

    def forward(self, state: Tensor) -> Tensor:
        """Normalise ``[B, h, N, size]``."""
        bare = functional.layer_norm(state, state.shape[-1:], eps=self.eps)
        return bare * self.weight + self.bias


class SimpleAttention(nn.Module):
    """Multi-head attention with the coordinates of the tokens in every head.

    Coordinates join the features of Q, K and V after the norms, so a head of d/h features has
    d/h + p columns, and the map back takes d + h p (paper, sec. 4, "recurrent enrichment of
    positional encoding").

    Args:
        width: d.
        heads: h.
        coordinates: p, coordinates of a token as features.
        kind: A key of ``KINDS``.
        normed: Whether heads are normalised, K and V of linear kinds, Q and K of others.
        eps: Of the norms.
        dropout: Fraction of attention weights that training drops.
        faults: Copy what published code does against its text: half of the attention weights are
            dropped, in evaluation too; linear attention is divided by n after its softmax.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        coordinates: int,
        kind: str,
        *,
        normed: bool,
        eps: float = 1e-5,
        dropout: float = 0.0,
        faults: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.kind, self.dropout, self.faults = heads, kind, dropout, faults
        self.attend = KINDS[kind]
        self.query, self.key, self.value = (near_identity_linear(width) for _ in range(3))
        names = ("key", "value") if kind in ("galerkin", "linear") else ("query", "key")
        self.norms = nn.ModuleDict(
            {name: HeadNorm(heads, width // heads, eps) for name in names if normed}
        )
        self.out = nn.Linear(width + heads * coordinates, width)

    def forward(self, state: Tensor, coordinates: Tensor, weights: Tensor) -> Tensor:
        """Attend.

        Args:
            state: ``[B, N, d]``.
            coordinates: Coordinates as features, ``[1 or B, N, p]``.
            weights: Quadrature weight of each token ``[N]``, one in total.

        Returns:
            ``[B, N, d]``.
        """
        at = coordinates[:, None].expand(len(state), self.heads, -1, -1)
        query, key, value = (
            torch.cat([at, self._head(name, layer(state))], -1)
            for name, layer in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        found = self.attend(query, key, value, weights, self._dropped)
        if self.faults and self.kind == "linear":
            found = found / state.shape[1]
        return self.out(found.transpose(1, 2).flatten(2))

    def _head(self, name: str, features: Tensor) -> Tensor:
        """Split ``[B, N, d]`` into heads ``[B, h, N, d/h]``, normalised where they are to be."""
        split = features.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return self.norms[name](split) if name in self.norms else split

    def _dropped(self, weights: Tensor) -> Tensor:
        if self.faults:
            return functional.dropout(weights, PUBLISHED_DROPOUT, training=True)
        return functional.dropout(weights, self.dropout, self.training)


def near_identity_linear(width: int) -> nn.Linear:
    """Make a map for Q, K or V that starts near the identity's direction: η U + δ I, eq. 17."""
    layer = nn.Linear(width, width)
    nn.init.xavier_uniform_(layer.weight, gain=GAIN)
    nn.init.zeros_(layer.bias)
    with torch.no_grad():
        layer.weight += DIAGONAL * torch.eye(width)
    return layer


class EncoderLayer(nn.Module):
    """Attention and a perceptron at every token, with skips around both.

    Layer norms stand, by ``norm``: ``heads``, inside the attention alone (eq. 4 to 6, the paper's
    own scheme, which keeps the amplitude of the input); ``tokens``, after each skip, so that the
    second skip carries normalised tokens (published code); ``tokens_eq7``, as eq. 7 has it, where
    the second skip carries what the first norm was given.

    Args:
        attention: The attention, its heads normalised for ``heads`` alone.
        width: d.
        norm: One of ``NORMS``.
        activation: That of the perceptron.
        eps: Of the norms.
        dropout: Fraction of features that training drops after the attention and in the perceptron.
    """

    def __init__(
        self,
        attention: SimpleAttention,
        width: int,
        norm: str,
        activation: Any,
        eps: float = 1e-5,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.norm = attention, norm
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.activate, self.dropout = activation, dropout
        count = 0 if norm == "heads" else 2
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=eps) for _ in range(count))

    def forward(self, state: Tensor, coordinates: Tensor, weights: Tensor) -> Tensor:
        """Update the tokens: arguments as of :meth:`SimpleAttention.forward`."""
        state = state + self._drop(self.attention(state, coordinates, weights))
        if self.norm == "heads":
            return state + self._perceptron(state)
        inner = self.norms[0](state)
        skip = inner if self.norm == "tokens" else state
        return self.norms[1](skip + self._perceptron(inner))

    def _perceptron(self, state: Tensor) -> Tensor:
        hidden = self._drop(self.activate(self.wide(state)))
        return self._drop(self.back(hidden))

    def _drop(self, state: Tensor) -> Tensor:
        return functional.dropout(state, self.dropout, self.training)
