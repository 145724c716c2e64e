"""The networks of the paper's benchmarks on even grids: Burgers, Darcy, Navier–Stokes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast, final

import torch
from torch import Tensor, nn

from piop.models.core.attention import AttentionContext, RotaryEmbeddings
from piop.models.core.base import Backbone, Inputs, Signature
from piop.models.core.coordinates import scaled_to_unit, take_columns
from piop.models.core.rollout import RolloutBackbone
from piop.models.oformer.network import (
    FeedForward,
    Gate,
    Kind,
    LinearAttention,
    RandomFourierFeatures,
    SelfAttention,
    rotary_embeddings,
)
from piop.models.oformer.nodes import NodeEncoder, SensorNodes


@dataclass(frozen=True)
class PublishedOFormerConfig:
    """Sizes of a published OFormer, dimensionless.

    Attributes:
        width: Features of a token in the encoder.
        latent: Features of a query, and of a token when queries attend.
        blocks: Layers of the encoder.
        heads: Heads of an encoder layer.
        cross: Heads of the cross-attention.
        split: Whether heads share the features; in the authors' code each is as wide as all.
        rates: Radians by which the fastest pair of each encoder layer rotates over the length of an
            axis; the last is for all further layers.
        cross_rate: The same of the cross-attention.
        sigma: Periods per length of an axis of the random Fourier features.
        steps: Steps over the time axis of a rollout.
    """

    width: int = 96
    latent: int = 96
    blocks: int = 4
    heads: int = 1
    cross: int = 8
    split: bool = False
    rates: tuple[float, ...] = (8 * 2048.0, 4 * 2048.0, 4 * 2048.0, 2048.0)
    cross_rate: float = 2048.0
    sigma: float = 2.0
    steps: int = 1


def unbiased_mlp(
    *sizes: int, activation: type[nn.Module] = nn.GELU, bias: bool = False
) -> nn.Sequential:
    """Stack linear layers without biases; with ``bias`` the last one has a bias."""
    parts: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        parts += [nn.Linear(a, b, bias=bias and i == len(sizes) - 2), activation()]
    return nn.Sequential(*parts[:-1])


class PublishedOFormer(Backbone):
    """Encoder, query encoder and cross-attention, which all benchmarks share.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    kind: ClassVar[Kind] = "galerkin"
    normed: ClassVar[bool] = True
    affine: ClassVar[bool] = False
    gate: ClassVar[Gate] = "gelu"
    periodic = False
    context_points = 1  # tokens are summed beforehand
    labelled: ClassVar[bool] = False
    """Whether inputs with jumps are labels of nodes and queries."""
    timed: ClassVar[bool] = False
    """Whether the query encoder takes the time beside the coordinates of space."""

    embed: nn.Module
    out: nn.Module
    place: nn.Module

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        every = tuple(range(len(signature.coordinates)))
        self.columns = every if self.timed else signature.space_columns
        self.query_axes = [signature.coordinates[i] for i in self.columns]
        self.reader = NodeEncoder(signature, self.labelled)
        self.space = len(self.reader.space)
        rates = [config.rates[min(i, len(config.rates) - 1)] for i in range(config.blocks)]
        size = self.head_size(config.width, config.heads)
        cross_size = self.head_size(config.latent, config.cross)
        self.rotary = nn.ModuleList(rotary_embeddings(size, self.space, rate) for rate in rates)
        self.cross_rotary = rotary_embeddings(cross_size, self.space, config.cross_rate)
        self.blocks = nn.ModuleList(self._block() for _ in range(config.blocks))
        attention = self.linear_attention(config.latent, config.cross)
        maps = attention.query, attention.key, attention.value
        self.attention = attention.start_near_identity(*maps)
        self.feed = FeedForward(config.latent, config.latent)

    @classmethod
    def refusal(cls, signature: Signature, config: PublishedOFormerConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return super().refusal(signature, config) or NodeEncoder.refusal(signature)

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """Embed nodes: ``[B, M, width]``."""
        return self.embed(torch.cat([nodes.values, nodes.points], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """Map tokens, which were ``embedded``, to what queries attend to: ``[B, M, latent]``."""
        return self.out(tokens)

    def encode_queries(self, inputs: Inputs, queries: Any) -> Any:
        """Encode queries ``[B, N, D]``: ``[B, N, latent]``."""
        return self.place(take_columns(queries, self.columns))

    def encode(self, inputs: Inputs, queries: Any) -> Any:
        """Apply cross-attention to the inputs and feed-forward (eq. 8): ``[B, N, latent]``."""
        self.check(inputs, queries)
        nodes = self.reader(inputs)
        embedded = tokens = self.tokens(nodes)
        for block, rotary in zip(self.blocks, self.rotary, strict=True):
            at = self.reader.at_nodes(nodes, cast(RotaryEmbeddings, rotary))
            tokens = block(tokens, at, nodes.keep)
        tokens = self.project(tokens, embedded)
        at_queries = self.reader.at_queries(queries, self.cross_rotary)
        at_tokens = self.reader.at_nodes(nodes, self.cross_rotary)
        state = self.encode_queries(inputs, queries)
        context = AttentionContext(tokens, at_queries, at_tokens, nodes.keep)
        state = state + self.attention(state, context)
        return state + self.feed(state)

    def scaled_queries(self, queries: Any) -> Any:
        """Coordinates of the query encoder, axes from zero to one."""
        return scaled_to_unit(take_columns(queries, self.columns), self.query_axes)

    def random_mlp(self, pairs: int, *sizes: int) -> nn.Sequential:
        """Make a query encoder: random Fourier features, and a perceptron of so many features."""
        random = RandomFourierFeatures(self.query_axes, pairs, self.config.sigma)
        return nn.Sequential(random, *unbiased_mlp(2 * pairs, *sizes))

    def linear_attention(self, width: int, heads: int) -> LinearAttention:
        """Make an attention of so many features."""
        size = self.head_size(width, heads)
        return LinearAttention(width, heads, size, self.kind, self.affine)

    def head_size(self, width: int, heads: int) -> int:
        """Entries of a head."""
        return width // heads if self.config.split else width

    def _block(self) -> SelfAttention:
        width = self.config.width
        attention = self.linear_attention(width, self.config.heads).start_near_identity()
        return SelfAttention(attention, FeedForward(width, width, self.gate), width, self.normed)


@final
class BurgersOFormer(PublishedOFormer):
    """The network for Burgers' equation: u0 to u at the end of the time axis.

    Fourier attention, no layer norm (amplitudes must survive), and three residual perceptrons of
    their own weights after the cross-attention. Of a steady problem all coordinates count.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    end_only = True
    kind = "fourier"
    normed = False

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        width, latent = config.width, config.latent
        placed = len(self.reader.axes)
        self.embed = nn.Linear(self.reader.values + placed, width - placed, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        random = RandomFourierFeatures(self.query_axes, latent, config.sigma)
        self.place = nn.Sequential(random, nn.GELU(), nn.Linear(2 * latent, latent, bias=False))
        self.propagators = nn.ModuleList(unbiased_mlp(*[latent] * 4) for _ in range(3))
        for weight in self.propagators.parameters():
            nn.init.orthogonal_(weight, gain=1 / latent)
            with torch.no_grad():
                weight += torch.eye(latent) / latent
        self.decoder = unbiased_mlp(latent, max(latent // 2, 1), signature.channels, bias=True)

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`PublishedOFormer.tokens`; the coordinates are appended once more."""
        features = torch.cat([nodes.values, nodes.points], -1)
        return torch.cat([self.embed(features), nodes.points.expand(len(features), -1, -1)], -1)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`; the time of a query has no effect."""
        state = self.encode(inputs, queries)
        for step in self.propagators:
            state = state + step(state)
        return self.decoder(state)


@final
class DarcyOFormer(PublishedOFormer):
    """The network for Darcy flow; a time, where there is one, is a coordinate of the queries.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    timed = True

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        width, latent = config.width, config.latent
        self.embed = nn.Linear(self.reader.values + len(self.reader.axes), width, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        self.place = self.random_mlp(latent // 2, latent, latent)
        self.first = nn.Linear(latent, latent, bias=False)
        self.here = nn.Linear(len(signature.coordinates), latent, bias=False)
        decoder = unbiased_mlp(latent, latent // 2, signature.channels, bias=True)
        self.decoder = nn.Sequential(nn.GELU(), *decoder)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`.

        The decoder takes the query's coordinates beside its state.
        """
        state = self.encode(inputs, queries)
        return self.decoder(self.first(state) + self.here(self.scaled_queries(queries)))


@final
class NavierStokesOFormer(PublishedOFormer, RolloutBackbone):
    """The network for the Navier–Stokes equations: past frames are channels of the input.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        width, latent = config.width, config.latent
        wide = 2 * latent
        self.embed = nn.Linear(self.reader.values + len(self.reader.axes), width, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        self.place = self.random_mlp(latent, wide, latent)
        self.expand = nn.Linear(latent, wide)
        self.norm = nn.LayerNorm(wide)
        self.first = nn.Linear(wide, wide, bias=False)
        self.here = nn.Linear(len(self.columns), wide, bias=False)
        self.rest = nn.Sequential(nn.GELU(), *unbiased_mlp(wide, wide, wide))
        decoder = unbiased_mlp(wide, latent, latent, signature.channels, bias=True)
        self.decoder = nn.Sequential(nn.LayerNorm(wide), *decoder)

    def begin(self, inputs: Inputs, queries: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`RolloutBackbone.begin`; coordinates are mapped once for all steps."""
        context = self.here(self.scaled_queries(queries))
        return self.expand(self.encode(inputs, queries)), context

    def advance(self, state: Tensor, context: Any) -> Tensor:
        """See :meth:`RolloutBackbone.advance`."""
        return state + self.rest(self.first(self.norm(state)) + context)

    def decode(self, state: Tensor, context: Any) -> Tensor:
        """See :meth:`RolloutBackbone.decode`."""
        return self.decoder(state)
