"""OFormer: linear attention with rotary positions, point queries in time and space, and rollouts.

A query rotated by its position times a key rotated by its own depends on the difference of the
positions alone: (Θ(x) q)·(Θ(y) k) = q·Θ(y − x) k, after eq. 10 of the paper. A rollout advances by
the paper's latent propagator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.fields import FunctionSamples
from piop.models.core.attention import (
    AttentionContext,
    RotaryEmbedding,
    RotaryEmbeddings,
    Rotation,
    perceptron,
    split_heads,
)
from piop.models.core.base import (
    AxisSignature,
    Backbone,
    Inputs,
    InputSignature,
    Signature,
    encode_scalars,
    require_choices,
)
from piop.models.core.coordinates import (
    absolute_axes,
    angles,
    harmonics,
    scaled_to_unit,
    shortest_waves,
    take_columns,
)
from piop.models.core.rollout import RolloutBackbone
from piop.models.core.sensor_encoder import TokenEncoder


def rotary_embeddings(size: int, dimension: int, rate: float) -> RotaryEmbeddings:
    """Make that of a geometric sequence of phases: ``rate``·10000^(−2l/d'), d' = size/dimension.

    Positions are coordinates from zero to one.

    Args:
        size: Entries of a head; each coordinate rotates its own part of them.
        dimension: d, coordinates.
        rate: Radians by which the first pair rotates over the length of an axis. The paper's λ, the
            number of points along it, times a scale per layer in the authors' code.

    Source: eq. 9 to 11 of the paper, and ``RotaryEmbedding`` of its code.
    """
    part = size // dimension
    steps = torch.arange(part // 2, dtype=torch.get_default_dtype())
    rates = rate * 10000.0 ** (-2 * steps / part)
    waves = torch.kron(torch.eye(dimension), rates[:, None])  # [d ⌊size/2d⌋, d]
    return RotaryEmbeddings([RotaryEmbedding(waves, size, parts=dimension)])


Kind = Literal["galerkin", "fourier", "plain"]
"""Normalised: keys and values, queries and keys, or nothing.

The text writes a norm of each feature over the points (eq. 4, "instance normalization"). The
authors' code normalises each point over its features, since its axes are swapped, and so does this.
"""

Gate = Literal["gelu", "tanh", "relu"]
"""Activation of a feed-forward network: the first two as gates, the last without a gate."""

NORMALISED = {"galerkin": ("key", "value"), "fourier": ("query", "key"), "plain": ()}


class LinearAttention(nn.Module):
    """z_i = 1/M Σ_j (q_i·k_j) v_j, computed as q_i (Σ_j k_j v_jᵀ)/M.

    The sum over tokens is computed once and is of the size of a head, so the cost is linear in
    tokens and in queries, and streams of the queries never multiply a token. A head's width is
    free: in the authors' code every head is as wide as all the features.

    Args:
        width: Features of queries, of tokens and of the output.
        heads: H.
        size: Entries of a head.
        kind: What is normalised.
        affine: Whether the norms have weights, as in the authors' code for meshes.

    Source: eq. 2 to 5 of the paper. No biases, and no output map where one head is as wide as the
        features, as in its code.
    """

    def __init__(self, width: int, heads: int, size: int, kind: Kind, affine: bool = False) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.query, self.key, self.value = (
            nn.Linear(width, heads * size, bias=False) for _ in range(3)
        )
        self.norms = nn.ModuleDict(
            {n: nn.LayerNorm(size, elementwise_affine=affine) for n in NORMALISED[kind]}
        )
        self.out = None
        if heads > 1 or size != width:
            self.out = nn.Linear(heads * size, width)

    def start_near_identity(self, *maps: nn.Linear) -> LinearAttention:
        """Start maps as (orthogonal + 1)/size in each head, as appendix A of the paper and eq. 17.

        Args:
            *maps: Of query, key and value; by default query or value, whichever is not normalised.

        Returns:
            The attention itself.
        """
        free = [m for n, m in (("query", self.query), ("value", self.value)) if n not in self.norms]
        for layer in maps or free:
            with torch.no_grad():
                for head in layer.weight.split(self.size):
                    nn.init.orthogonal_(head, gain=1 / self.size)
                    head += torch.eye(*head.shape) / self.size
        return self

    def forward(self, state: Any, context: AttentionContext) -> Any:
        """Attend.

        Args:
            state: Queries ``[B or 1, N, width]``.
            context: Tokens ``[B, M, width]`` and the rotations of queries and keys; the mask is one
                where a token is, zero where none is, ``[B, M, 1]``.

        Returns:
            ``[B, N, width]``.
        """
        tokens, keep = context.tokens, context.mask
        given = {"query": self.query(state), "key": self.key(tokens), "value": self.value(tokens)}
        query, key, value = (self._heads(name, features) for name, features in given.items())
        (rotate_query,), (rotate_key,) = context.at_queries, context.at_tokens
        query, key = rotate_query(query), rotate_key(key)
        count: Any = tokens.shape[1]
        if keep is not None:
            value = value * keep[..., None]
            count = keep.sum(1)[:, :, None, None]
        # k vᵀ summed over the tokens, over their number: [B, H, size, size].
        moments = torch.matmul(key.permute(0, 2, 3, 1), value.transpose(1, 2)) / count
        found = torch.matmul(query.transpose(1, 2), moments).transpose(1, 2)
        found = found.reshape(*found.shape[:2], -1)
        return found if self.out is None else self.out(found)

    def _heads(self, name: str, features: Any) -> Any:
        """Split features into heads ``[B, ·, H, size]``, normalised where they are to be."""
        found = split_heads(features, self.heads)
        return self.norms[name](found) if name in self.norms else found


class FeedForward(nn.Module):
    """Two layers with gelu(a) ⊙ b between them, tanh(a) ⊙ b, or relu(a).

    The first is the paper's, the last that of its code for meshes. With a bounded gate the output
    grows as the state does, and not as its square.

    Args:
        width: Features in and out.
        hidden: Features between.
        gate: Activation.
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
        norm = nn.LayerNorm if normed else nn.Identity
        self.norms = nn.ModuleList(norm(width) for _ in range(2))

    def forward(self, tokens: Any, at: Sequence[Rotation], keep: Tensor | None = None) -> Any:
        """Update ``tokens [B, M, width]``."""
        tokens = self.norms[0](tokens)
        tokens = tokens + self.attention(tokens, AttentionContext(tokens, at, at, keep))
        tokens = self.norms[1](tokens)
        return tokens + self.feed(tokens)


class RandomFourierFeatures(nn.Module):
    """cos 2πBᵀy and sin 2πBᵀy, B drawn from N(0, σ²) once and kept with the weights.

    Their product over all F pairs tends to F exp(−2π²σ²|x − y|²), a Gaussian kernel of width
    1/2πσ: A. Rahimi, B. Recht, *Random features for large-scale kernel machines*, NeurIPS 2007.

    Args:
        axes: The coordinates; each runs from zero to one in y.
        pairs: F, half the features.
        sigma: σ, periods per length of an axis.

    Source: eq. 7 of the paper; M. Tancik et al., *Fourier features let networks learn high
        frequency functions in low dimensional domains*, NeurIPS 2020, arXiv:2006.10739.
    """

    directions: Tensor

    def __init__(self, axes: Sequence[AxisSignature], pairs: int, sigma: float) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.register_buffer("directions", sigma * torch.randn(pairs, len(self.axes)))

    def forward(self, points: Any) -> Any:
        """Return the features of ``points [B, N, d]``, units of the axes: ``[B, N, 2F]``."""
        cos, sin = harmonics(scaled_to_unit(points, self.axes), 2 * torch.pi * self.directions)
        return torch.cat([cos, sin], -1)


class CoordinateFeatures(nn.Module):
    """Harmonics along periodic axes, random Fourier features along the others.

    Random frequencies have no common period; integer ones are periodic whatever weights follow.

    Args:
        axes: All coordinates of the points.
        columns: Indices of the coordinates that are encoded.
        count: Sines, and cosines, of the axes with ends together, and as many of the periodic axes
            together, by the shortest wave vectors.
        sigma: Periods per length of an axis with ends.

    Attributes:
        features: Numbers per point.
    """

    waves: Tensor

    def __init__(
        self, axes: Sequence[AxisSignature], columns: Sequence[int], count: int, sigma: float
    ) -> None:
        super().__init__()
        self.closed = [i for i in columns if axes[i].periodic]
        self.open = [i for i in columns if not axes[i].periodic]
        self.periodic = [axes[i] for i in self.closed]
        vectors = shortest_waves(len(self.closed), count) if self.closed else torch.empty(0)
        self.register_buffer("waves", vectors, persistent=False)
        self.random = None
        if self.open:
            self.random = RandomFourierFeatures([axes[i] for i in self.open], count, sigma)
        self.features = (2 * count + len(self.open)) * bool(self.open) + 2 * len(vectors)

    def forward(self, points: Any) -> Any:
        """Return the features of ``points [B, N, d]``, units of the axes: ``[B, N, features]``."""
        found = []
        if self.random is not None:
            columns = take_columns(points, self.open)
            found += [scaled_to_unit(columns, self.random.axes), self.random(columns)]
        if self.closed:
            columns = take_columns(points, self.closed)
            found += harmonics(angles(columns, self.periodic), self.waves)
        return torch.cat(found, -1)


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
        attention: Normalisation of the attention: galerkin, fourier or plain.
        features: Random Fourier features, in pairs; harmonics of axes that are not homogeneous.
        sigma: Periods per length of an axis of the random Fourier features.
        steps: Steps over the time axis of a rollout.
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

    def __post_init__(self) -> None:
        require_choices(self, {"attention": NORMALISED})

    @property
    def head_size(self) -> int:
        """Entries of a head."""
        return self.content + 2 * self.harmonics

    def linear_attention(self) -> LinearAttention:
        """Make an attention of these sizes."""
        return LinearAttention(self.width, self.heads, self.head_size, self.attention)

    def feed_forward(self) -> FeedForward:
        """Make a feed-forward network: its gate is bounded, and cheaper on streams than gelu."""
        return FeedForward(self.width, self.width, "tanh")

    def self_attention(self) -> SelfAttention:
        """Make a layer of the encoder."""
        attention = self.linear_attention().start_near_identity()
        return SelfAttention(attention, self.feed_forward(), self.width, normed=True)


class FunctionEncoder(TokenEncoder):
    """Encodes sensors as tokens, with position relative along homogeneous axes.

    A smooth input is evaluated from its harmonic fit on an even grid, whose sum approximates the
    integral of the attention; an input with jumps keeps its sensors.

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        config: Sizes.
    """

    def __init__(self, signature: Signature, entry: InputSignature, config: OFormerConfig) -> None:
        waves = shortest_waves(len(entry.of), config.harmonics)
        rotary = RotaryEmbeddings([RotaryEmbedding(waves, config.head_size)])
        super().__init__(signature, entry, rotary)
        sizes = config.features, config.sigma
        self.place = CoordinateFeatures(self.axes, self.fixed, *sizes)
        features = self.features + self.place.features
        self.embed = perceptron(features, config.width, config.width)
        self.blocks = nn.ModuleList(config.self_attention() for _ in range(config.blocks))

    def forward(
        self, samples: FunctionSamples, queries: Any, condition: Tensor | None
    ) -> AttentionContext:
        """Encode sensors.

        Args:
            samples: Sensors of B samples.
            queries: ``[B or 1, N, D]``.
            condition: Encoded scalars ``[B, 1, width]``, or None.

        Returns:
            What the layers attend to; its mask is one where a token is, zero where none is,
            ``[B, M, 1]``, or None where all are.
        """
        fitted = self.spectrum.tokens(samples)
        tokens, keep = self.embedded(fitted, condition), None
        if fitted.mask is not None:
            keep = fitted.mask[..., None].to(fitted.features.dtype)
        at_queries = self.rotary(self.angles(queries))
        at_tokens = self.rotary(angles(fitted.points, self.axes))
        for block in self.blocks:
            tokens = block(tokens, at_tokens, keep)
        return AttentionContext(tokens, at_queries, at_tokens, keep)


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
        width, axes = config.width, signature.coordinates
        omitted = signature.time if timeless else None
        self.columns = tuple(i for i in absolute_axes(signature) if i != omitted)
        self.place = CoordinateFeatures(axes, self.columns, config.features, config.sigma)
        if self.columns:
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
        if self.columns:
            state = self.embed(self.place(queries))
        else:
            state = self.start.expand(*queries.shape[:2], -1)
        state = state if condition is None else state + condition
        contexts = {
            name: encode(inputs[name], queries, condition) for name, encode in self.inputs.items()
        }
        for layer in self.rounds:
            state = layer(state, contexts)
        return state


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
            found = found + attend(state, contexts[name])
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

    context_points = 1  # tokens are summed beforehand

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature, config)
        self.encoder = QueryEncoder(signature, config)
        self.decoder = Decoder(config.width, signature.channels)

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

    context_points = 1  # tokens are summed beforehand

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature, config)
        width = config.width
        self.encoder = QueryEncoder(signature, config, timeless=True)
        self.norm = nn.LayerNorm(width)
        self.propagator = FeedForward(width, width)
        self.decoder = Decoder(width, signature.channels)

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
