"""Self-attention as an integral over the domain: Fourier, Galerkin, and their two controls.

S. Cao, *Choose a Transformer: Fourier or Galerkin*, NeurIPS 2021, arXiv:2105.14995, sec. 4.1; the
choices that its text leaves open from github.com/scaomath/galerkin-transformer, revision f9e7d6a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.errors import UsageError
from piop.models.core.base import require_choices

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
    return _by_rows(query, key, value, weights.mul, dropout)


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


DECODERS = ("spectral", "pointwise")

PLACES = ("inputs", "decoder", "heads")

ACTIVATIONS = {"silu": functional.silu, "relu": functional.relu}


@dataclass(frozen=True)
class GalerkinForm:
    """Choices in which the published examples differ.

    Attributes:
        latent: Channels of the spectral decoder.
        projection: Hidden features of its last perceptron.
        places: Where coordinates join besides every head: ``inputs``, ``decoder``, or ``heads`` for
            nowhere else.
        raw: Treat the grid as published: coordinates from 0 to 1 along all axes, also periodic
            ones, all points of the same weight 1/n, all axes periodic for the spectral decoder.
            Without it, harmonics along periodic axes, trapezoid weights, padding beyond walls.
        frequencies: Harmonics of each coordinate, where it is not raw.
        activation: Of the perceptrons in the encoder: ``silu``, or ``relu`` as published.
        eps: Added to the variance in layer norms.
        dropout: Fraction of attention weights and features that training drops.
        dirichlet: Output zero on walls, as published for Darcy's flow.
        faults: Drop half of the attention weights at all times, in evaluation too, and divide
            linear attention by n after its softmax, as published code does.
    """

    latent: int = 24
    projection: int = 48
    places: str = "inputs"
    raw: bool = False
    frequencies: int = 4
    activation: str = "silu"
    eps: float = 1e-5
    dropout: float = 0.0
    dirichlet: bool = False
    faults: bool = False

    def __post_init__(self) -> None:
        require_choices(self, {"places": PLACES, "activation": ACTIVATIONS})


@dataclass(frozen=True)
class GalerkinConfig:
    """Sizes and choices, all dimensionless.

    Attributes:
        width: d, features of a token.
        blocks: Encoder layers.
        heads: h; divides ``width``.
        attention: ``galerkin``, ``fourier``, ``linear`` or ``softmax``.
        norm: Where layer norms stand: ``heads``, in the attention before the products (eq. 5, 6);
            ``tokens``, after each skip, as in published code; ``tokens_eq7``, as eq. 7 has it.
        decoder: ``spectral``, along the axes of space, for smooth solutions; ``pointwise``.
        modes: Wave numbers the spectral decoder keeps along each axis, −modes … modes − 1, on the
            last axis 0 … modes − 1; 0 for 16, 6, 4 in one, two, three dimensions.
        fine: n_f, points per axis of the input grid of the interpolation CNN. Outputs elsewhere are
            interpolated, so the convolutions act alike on all grids.
        coarse: n_c, tokens per axis after the CNN; 0 for no CNN: then tokens are the requested
            points.
        form: Choices in which published examples differ.
    """

    width: int = 48
    blocks: int = 3
    heads: int = 2
    attention: str = "galerkin"
    norm: str = "heads"
    decoder: str = "spectral"
    modes: int = 0
    fine: int = 33
    coarse: int = 0
    form: GalerkinForm = field(default_factory=GalerkinForm)

    def __post_init__(self) -> None:
        require_choices(self, {"attention": KINDS, "norm": NORMS, "decoder": DECODERS})
        if self.width % self.heads:
            raise UsageError(f"heads = {self.heads}: give a divisor of width = {self.width}")
        if self.coarse and not 4 <= self.coarse <= self.fine:
            raise UsageError(
                f"coarse = {self.coarse}: give 0 for no CNN, or 4 to fine = {self.fine}"
            )


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
        config: Sizes and choices.
        coordinates: p, coordinates of a token as features.
    """

    def __init__(self, config: GalerkinConfig, coordinates: int) -> None:
        super().__init__()
        width, heads, form = config.width, config.heads, config.form
        self.heads, self.dropout, self.faults = heads, form.dropout, form.faults
        self.kind, self.attend = config.attention, KINDS[config.attention]
        self.query, self.key, self.value = (near_identity_linear(width) for _ in range(3))
        # K and V of linear kinds, Q and K of others.
        names = ("key", "value") if self.kind in ("galerkin", "linear") else ("query", "key")
        names = names if config.norm == "heads" else ()
        self.norms = nn.ModuleDict({n: HeadNorm(heads, width // heads, form.eps) for n in names})
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
        at = coordinates[:, None].expand(state.shape[0], self.heads, -1, -1)
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
        rate = PUBLISHED_DROPOUT if self.faults else self.dropout
        return functional.dropout(weights, rate, self.training or self.faults)


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
        config: Sizes and choices.
        coordinates: p, coordinates of a token as features.
    """

    def __init__(self, config: GalerkinConfig, coordinates: int) -> None:
        super().__init__()
        width, form, self.norm = config.width, config.form, config.norm
        self.attention = SimpleAttention(config, coordinates)
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.activate, self.drop = ACTIVATIONS[form.activation], nn.Dropout(form.dropout)
        count = 0 if self.norm == "heads" else 2
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=form.eps) for _ in range(count))

    def forward(self, state: Tensor, coordinates: Tensor, weights: Tensor) -> Tensor:
        """Update the tokens: arguments as of :meth:`SimpleAttention.forward`."""
        state = state + self.drop(self.attention(state, coordinates, weights))
        if self.norm == "heads":
            return state + self._perceptron(state)
        inner = self.norms[0](state)
        skip = inner if self.norm == "tokens" else state
        return self.norms[1](skip + self._perceptron(inner))

    def _perceptron(self, state: Tensor) -> Tensor:
        hidden = self.drop(self.activate(self.wide(state)))
        return self.drop(self.back(hidden))
