"""Layers of the OFormer: linear attention, rotary positions, and the encoder of input functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.base import AxisSignature, InputSignature, Signature, standardised
from piop.models.core.coordinates import absolute_axes, angles, harmonics, shortest_waves
from piop.models.core.harmonic_fit import HarmonicFit
from piop.models.core.relative_attention import Harmonics


def rotary_frequencies(size: int, dimension: int, rate: float) -> Tensor:
    """Lay out the geometric ladder of phases: ``rate``·10000^(−2l/d'), d' = size/dimension.

    Args:
        size: Entries of a head; each coordinate turns its own part of them.
        dimension: d, coordinates.
        rate: Radians by which the first pair turns over the length of an axis. The paper's λ, the
            number of points along it, times a scale per layer in the authors' code.

    Returns:
        Radians per length of each axis ``[P, d]``, P = d ⌊size/2d⌋.

    Source: eq. 9 to 11 of the paper, and ``RotaryEmbedding`` of its code.
    """
    part = size // dimension
    steps = torch.arange(part // 2, dtype=torch.get_default_dtype())
    rates = rate * 10000.0 ** (-2 * steps / part)
    waves = torch.zeros(dimension, len(rates), dimension)
    for axis in range(dimension):
        waves[axis, :, axis] = rates
    return waves.flatten(0, 1)


def rotate(entries: Any, at: Harmonics | None, parts: int = 1) -> Any:
    """Turn pairs of entries.

    Args:
        entries: ``[B, n, H, size]``; the first 2P turn, and the others stay.
        at: Cosines and sines of the P phases at the points, ``[B, n, P]`` each; None turns nothing.
        parts: Into how many parts the 2P entries are split before each is split in halves, of which
            the first holds the real parts: the coordinates for :func:`ladder`, else one.

    Returns:
        ``[B, n, H, size]``.
    """
    if at is None:
        return entries
    cos, sin = at[0][:, :, None], at[1][:, :, None]
    pairs = cos.shape[-1] // parts
    found = []
    for first in range(0, parts * pairs, pairs):
        a = entries[..., 2 * first : 2 * first + pairs]
        b = entries[..., 2 * first + pairs : 2 * first + 2 * pairs]
        c, s = cos[..., first : first + pairs], sin[..., first : first + pairs]
        found += [a * c - b * s, a * s + b * c]
    still = entries.shape[-1] - 2 * parts * pairs
    return torch.cat([*found, entries[..., -still:]] if still else found, -1)


def scaled_to_unit(points: Any, axes: Sequence[AxisSignature]) -> Any:
    """Scale coordinates so that every axis runs from zero to one.

    Args:
        points: ``[B, n, d]``, units of the axes.
        axes: The d axes.
    """
    columns = [
        (points[..., i : i + 1] - axis.low) * (1 / (axis.high - axis.low))
        for i, axis in enumerate(axes)
    ]
    return torch.cat(columns, -1) if len(columns) > 1 else columns[0]


Kind = Literal["galerkin", "fourier", "plain"]
"""What is normalised: keys and values, queries and keys, or nothing.

The text writes a norm of each feature over the points (eq. 4, "instance normalization"). The
authors' code normalises each point over its features, since its axes are swapped, and so does this.
"""

Gate = Literal["gelu", "tanh", "relu"]
"""What lies between the layers of a feed-forward network: gated by the first two, or by nothing."""

NORMALISED = {"galerkin": ("key", "value"), "fourier": ("query", "key"), "plain": ()}


class LinearAttention(nn.Module):
    """z_i = 1/M Σ_j (q_i·k_j) v_j, computed as q_i (Σ_j k_j v_jᵀ)/M.

    The sum over tokens is done once and is of the size of a head, so the cost is linear in tokens
    and in queries, and what queries carry, such as streams, never meets a token. A head's width is
    free: in the authors' code every head is as wide as all the features.

    Args:
        width: Features of queries and of the answer.
        source: Features of tokens.
        heads: H.
        size: Entries of a head.
        kind: What is normalised.
        parts: Coordinates of the rotary position (see :func:`~piop.models.oformer.layers.rotate`).
        affine: Whether the norms have weights, as in the authors' code for meshes.

    Source: eq. 2 to 5 of the paper. No biases, and no map of the answer where one head is as wide
        as the features, as in its code.
    """

    def __init__(
        self,
        width: int,
        source: int,
        heads: int,
        size: int,
        kind: Kind,
        parts: int = 1,
        affine: bool = False,
    ) -> None:
        super().__init__()
        if kind not in NORMALISED:
            raise UsageError(f"attention = {kind!r}: one of {', '.join(NORMALISED)}")
        self.heads, self.size, self.kind, self.parts = heads, size, kind, parts
        self.query = nn.Linear(width, heads * size, bias=False)
        self.key = nn.Linear(source, heads * size, bias=False)
        self.value = nn.Linear(source, heads * size, bias=False)
        self.norms = nn.ModuleDict(
            {n: nn.LayerNorm(size, elementwise_affine=affine) for n in NORMALISED[kind]}
        )
        self.out = None
        if heads > 1 or size != width:
            self.out = nn.Linear(heads * size, width)

    def start_near_identity(self, *names: str) -> None:
        """Start maps as (orthogonal + 1)/size in each head, as appendix A of the paper and eq. 17.

        Args:
            *names: Which of query, key and value; by default the one that is not normalised.
        """
        for name in names or [n for n in ("query", "value") if n not in self.norms]:
            weight = getattr(self, name).weight
            with torch.no_grad():
                for head in weight.split(self.size):
                    nn.init.orthogonal_(head, gain=1 / self.size)
                    head += torch.eye(*head.shape) / self.size

    def forward(
        self,
        state: Any,
        tokens: Tensor,
        at_queries: Harmonics | None = None,
        at_tokens: Harmonics | None = None,
        keep: Tensor | None = None,
    ) -> Any:
        """Attend.

        Args:
            state: Queries ``[B or 1, N, width]``.
            tokens: ``[B, M, source]``.
            at_queries: Cosines and sines of the phases at the queries, ``[B, N, P]`` each.
            at_tokens: The same at the tokens, ``[B, M, P]`` each.
            keep: One where a token is, zero where none is, ``[B, M, 1]``; None where all are.

        Returns:
            ``[B, N, width]``.
        """
        query = self._split("query", state)
        query = rotate(query, at_queries, self.parts).transpose(1, 2)
        found = torch.matmul(query, self.summed(tokens, at_tokens, keep)).transpose(1, 2)
        found = found.reshape(found.shape[0], found.shape[1], self.heads * self.size)
        return found if self.out is None else self.out(found)

    def summed(
        self, tokens: Tensor, at_tokens: Harmonics | None, keep: Tensor | None = None
    ) -> Tensor:
        """Sum k vᵀ over the tokens, over their number: ``[B, H, size, size]``."""
        key = rotate(self._split("key", tokens), at_tokens, self.parts)
        value = self._split("value", tokens)
        count: Any = tokens.shape[1]
        if keep is not None:
            value = value * keep[..., None]
            count = keep.sum(1)[:, :, None, None]
        return torch.matmul(key.permute(0, 2, 3, 1), value.transpose(1, 2)) / count

    def _split(self, name: str, features: Any) -> Any:
        """Map features, split them into heads ``[B, ·, H, size]``, and normalise."""
        found = getattr(self, name)(features)
        found = found.reshape(found.shape[0], found.shape[1], self.heads, self.size)
        return self.norms[name](found) if name in self.norms else found


class FeedForward(nn.Module):
    """Two layers with gelu(a) ⊙ b between them, tanh(a) ⊙ b, or relu(a).

    The first is the paper's, the last that of its code for meshes. With a bounded gate the answer
    grows as the state does, and not as its square.

    Args:
        width: Features in and out.
        hidden: Features between.
        gate: Which of them.
    """

    def __init__(self, width: int, hidden: int, gate: Gate = "gelu") -> None:
        super().__init__()
        self.hidden, self.gate = hidden, gate
        self.first = nn.Linear(width, hidden if gate == "relu" else 2 * hidden)
        self.last = nn.Linear(hidden, width)

    def forward(self, state: Any) -> Any:
        """Apply it to ``[..., width]``."""
        found = self.first(state)
        if self.gate == "relu":
            return self.last(torch.relu(found))
        bounded = torch.tanh if self.gate == "tanh" else functional.gelu
        return self.last(bounded(found[..., : self.hidden]) * found[..., self.hidden :])


class SelfAttention(nn.Module):
    """A layer of the encoder: f + attention, then f + feed-forward.

    With layer norm the *normalised* state is what is added to, as in the authors' code:
    f ← norm(f), f ← f + attention(f), f ← norm(f), f ← f + feed-forward(f). Eq. 6 puts norms last.

    Args:
        attention: The attention of tokens to tokens.
        feed: The feed-forward network.
        width: Features of a token.
        normed: Whether with layer norm.
    """

    def __init__(
        self, attention: LinearAttention, feed: FeedForward, width: int, normed: bool
    ) -> None:
        super().__init__()
        self.attention, self.feed = attention, feed
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * normed))

    def forward(self, tokens: Any, at: Harmonics | None, keep: Tensor | None = None) -> Any:
        """Update ``tokens [B, M, width]``."""
        if self.norms:
            tokens = self.norms[0](tokens)
        tokens = tokens + self.attention(tokens, tokens, at, at, keep)
        if self.norms:
            tokens = self.norms[1](tokens)
        return tokens + self.feed(tokens)


class RandomFourierFeatures(nn.Module):
    """cos 2πBᵀy and sin 2πBᵀy, B drawn from N(0, σ²) once and kept with the weights.

    Their product over all F pairs tends to F exp(−2π²σ²|x − y|²), a Gaussian kernel of width
    1/2πσ: A. Rahimi, B. Recht, *Random features for large-scale kernel machines*, NeurIPS 2007.

    Args:
        axes: The coordinates; each runs from zero to one in y.
        pairs: F, half the features.
        sigma: σ, turns per length of an axis.

    Source: eq. 7 of the paper; M. Tancik et al., *Fourier features let networks learn high
        frequency functions in low dimensional domains*, NeurIPS 2020, arXiv:2006.10739.
    """

    directions: Tensor

    def __init__(self, axes: Sequence[AxisSignature], pairs: int, sigma: float) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.register_buffer("directions", sigma * torch.randn(pairs, len(self.axes)))

    def forward(self, points: Any) -> Any:
        """Give the features of ``points [B, N, d]``, units of the axes: ``[B, N, 2F]``."""
        cos, sin = harmonics(scaled_to_unit(points, self.axes), 2 * torch.pi * self.directions)
        return torch.cat([cos, sin], -1)


class CoordinateFeatures(nn.Module):
    """Harmonics round periodic axes, random Fourier features along the others.

    Random frequencies fit no period; integer ones give back the same answer after one turn for any
    weights that follow.

    Args:
        axes: The coordinates, in the order of the columns.
        pairs: Sines, and cosines, of the axes with ends together.
        waves: Sines, and cosines, of the periodic axes together, by the shortest wave vectors.
        sigma: Turns per length of an axis with ends.

    Attributes:
        features: Numbers per point.
    """

    waves: Tensor

    def __init__(self, axes: Sequence[AxisSignature], pairs: int, waves: int, sigma: float) -> None:
        super().__init__()
        self.round = [i for i, axis in enumerate(axes) if axis.periodic]
        self.open = [i for i, axis in enumerate(axes) if not axis.periodic]
        self.periodic = [axes[i] for i in self.round]
        vectors = shortest_waves(len(self.round), waves) if self.round else []
        table = torch.tensor(vectors, dtype=torch.get_default_dtype())
        self.register_buffer("waves", table, persistent=False)
        self.random = None
        if self.open:
            self.random = RandomFourierFeatures([axes[i] for i in self.open], pairs, sigma)
        self.features = (2 * pairs + len(self.open)) * bool(self.open) + 2 * len(vectors)

    def forward(self, points: Any) -> Any:
        """Give the features of ``points [B, N, d]``, units of the axes: ``[B, N, features]``."""
        found = []
        if self.random is not None:
            columns = torch.cat([points[..., i : i + 1] for i in self.open], -1)
            found += [scaled_to_unit(columns, self.random.axes), self.random(columns)]
        if self.round:
            columns = torch.cat([points[..., i : i + 1] for i in self.round], -1)
            found += harmonics(angles(columns, self.periodic), self.waves)
        return torch.cat(found, -1)


GATE: Gate = "tanh"
"""Of the feed-forward networks: bounded, and cheaper on streams than the paper's gelu."""


@dataclass(frozen=True)
class OFormerConfig:
    """Sizes of the default OFormer, dimensionless.

    Attributes:
        width: Features of a token and of a query.
        blocks: Layers of the input encoder.
        rounds: Layers of cross-attention.
        heads: H, attention heads.
        content: Entries of a head that carry content alone.
        harmonics: Pairs of entries of a head that carry position, by the shortest wave vectors.
        attention: Kind of attention: galerkin, fourier or plain.
        features: Random Fourier features, in pairs; harmonics of axes that must be known as such.
        sigma: Turns per length of an axis of the random Fourier features.
        steps: Steps over the time axis, where the latent marches.
    """

    width: int = 64
    blocks: int = 2
    rounds: int = 2
    heads: int = 4
    content: int = 8
    harmonics: int = 12
    attention: Kind = "fourier"
    features: int = 8
    sigma: float = 1.0
    steps: int = 1

    def size(self) -> int:
        """Entries of a head."""
        return self.content + 2 * self.harmonics


def perceptron(features: int, width: int) -> nn.Sequential:
    """Lift features: two layers with a tanh, which bounds what lies far from the law."""
    return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width))


@dataclass(frozen=True)
class EncodedFunction:
    """An input as queries meet it.

    Attributes:
        tokens: ``[B, M, width]``.
        turns: Cosines and sines of the attention's wave vectors there, ``[B, M, P]`` each.
        keep: One where a token is, zero where none is, ``[B, M, 1]``; None where all are.
    """

    tokens: Tensor
    turns: Harmonics
    keep: Tensor | None


class FunctionEncoder(nn.Module):
    """Sensors to tokens, with position relative along homogeneous axes.

    A smooth input is read off its harmonic fit on a lattice: scattered sensors then cost the
    attention no accuracy, since its sum is that of an even grid. One with jumps keeps its sensors.

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        config: Sizes.
    """

    waves: Tensor

    def __init__(self, signature: Signature, entry: InputSignature, config: OFormerConfig) -> None:
        super().__init__()
        self.entry = entry
        self.columns = tuple(signature.axis(name) for name in entry.of)
        self.axes = [signature.coordinates[i] for i in self.columns]
        self.spectrum = HarmonicFit(entry, self.axes)
        fixed = absolute_axes(signature)
        self.fixed = [i for i, column in enumerate(self.columns) if column in fixed]
        features = entry.channels * (1 + 2 * len(self.axes))
        self.place = None
        if self.fixed:
            axes = [self.axes[i] for i in self.fixed]
            self.place = CoordinateFeatures(axes, config.features, config.features, config.sigma)
            features += self.place.features
        waves = shortest_waves(len(self.axes), config.harmonics)
        table = torch.tensor(waves, dtype=torch.get_default_dtype())
        self.register_buffer("waves", table, persistent=False)
        width = config.width
        self.embed = perceptron(features, width)
        self.blocks = nn.ModuleList(self._block(config) for _ in range(config.blocks))

    @staticmethod
    def _block(config: OFormerConfig) -> SelfAttention:
        width = config.width
        attention = LinearAttention(width, width, config.heads, config.size(), config.attention)
        attention.start_near_identity()
        return SelfAttention(attention, FeedForward(width, width, GATE), width, normed=True)

    def forward(self, samples: FunctionSamples, condition: Tensor | None) -> EncodedFunction:
        """Encode sensors, with what the scalars say ``[B, 1, width]``."""
        coefficients = self.spectrum(samples)
        points, values, keep = samples.points, standardised(self.entry, samples), None
        if self.entry.smooth:
            points = self.spectrum.lattice(points)
            values = self.spectrum.basis(points) @ coefficients
        elif samples.mask is not None:
            points = points.masked_fill(~samples.mask[..., None], self.axes[0].low)
            keep = samples.mask[..., None].to(values.dtype)
        columns = [values, self.spectrum.features(coefficients, points)]
        if self.place is not None:
            here = torch.cat([points[..., i : i + 1] for i in self.fixed], -1)
            columns.append(self.place(here).expand(len(values), -1, -1))
        tokens = self.embed(torch.cat(columns, -1))
        tokens = tokens if condition is None else tokens + condition
        turns = harmonics(angles(points, self.axes), self.waves)
        for block in self.blocks:
            tokens = block(tokens, turns, keep)
        return EncodedFunction(tokens, turns, keep)

    def turns(self, queries: Any) -> Harmonics:
        """Cosines and sines of the attention's wave vectors at ``queries [B, N, D]``."""
        columns = torch.cat([queries[..., i : i + 1] for i in self.columns], -1)
        return harmonics(angles(columns, self.axes), self.waves)
