"""The networks of the paper's benchmarks on even grids: Burgers, Darcy, Navier–Stokes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Signature
from piop.models.core.relative_attention import Harmonics
from piop.models.core.rollout import RolloutBackbone, rollout_refusal
from piop.models.oformer.layers import (
    FeedForward,
    Gate,
    Kind,
    LinearAttention,
    RandomFourierFeatures,
    SelfAttention,
    rotary_frequencies,
    scaled_to_unit,
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
        rates: Radians that the fastest pair of each encoder layer turns by over the length of an
            axis; the last holds for all further layers.
        cross_rate: The same of the cross-attention.
        sigma: Turns per length of an axis of the random Fourier features.
        steps: Steps over the time axis, where the latent marches.
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


def unbiased_perceptron(
    *sizes: int, activation: type[nn.Module] = nn.GELU, bias: bool = False
) -> nn.Sequential:
    """Stack linear layers without biases; ``bias`` gives the last one."""
    parts: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        parts += [nn.Linear(a, b, bias=bias and i == len(sizes) - 2), activation()]
    return nn.Sequential(*parts[:-1])


class PublishedOFormer(Backbone):
    """Encoder, query encoder and cross-attention, which all benchmarks share.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
        columns: Coordinates that the query encoder reads.
    """

    kind: ClassVar[Kind] = "galerkin"
    normed: ClassVar[bool] = True
    affine: ClassVar[bool] = False
    gate: ClassVar[Gate] = "gelu"
    periodic = False
    apart: ClassVar[bool] = False
    """Whether inputs with jumps mark places, at the queries too."""

    waves: Tensor
    cross_waves: Tensor

    def __init__(
        self, signature: Signature, config: PublishedOFormerConfig, columns: Sequence[int]
    ) -> None:
        super().__init__(signature)
        self.config = config
        self.columns = tuple(columns)
        self.reader = NodeEncoder(signature, self.apart)
        self.space = len(self.reader.space)
        rates = [config.rates[min(i, len(config.rates) - 1)] for i in range(config.blocks)]
        size, cross_size = (
            self._size(config.width, config.heads),
            self._size(config.latent, config.cross),
        )
        tables = [rotary_frequencies(size, self.space, rate) for rate in rates]
        self.register_buffer("waves", torch.stack(tables), persistent=False)
        turns = rotary_frequencies(cross_size, self.space, config.cross_rate)
        self.register_buffer("cross_waves", turns, persistent=False)
        self.blocks = nn.ModuleList(self._block(size) for _ in range(config.blocks))
        self.attention = self._attend(config.latent, config.cross, cross_size)
        self.attention.start_near_identity("query", "key", "value")
        self.feed = FeedForward(config.latent, config.latent)

    @classmethod
    def refusal(cls, signature: Signature, config: PublishedOFormerConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return NodeEncoder.refusal(signature)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    @abstractmethod
    def tokens(self, nodes: SensorNodes) -> Tensor:
        """Embed nodes: ``[B, M, width]``."""

    @abstractmethod
    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """Turn tokens, which were ``embedded``, to what queries attend to: ``[B, M, latent]``."""

    @abstractmethod
    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """Encode queries ``[B, N, D]``: ``[B, N, latent]``."""

    def encode(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """Let queries read the inputs, with their feed-forward (eq. 8): ``[B, N, latent]``."""
        self.check(inputs, queries)
        nodes = self.reader(inputs)
        embedded = tokens = self.tokens(nodes)
        for block, waves in zip(self.blocks, self.waves, strict=True):
            tokens = block(tokens, self.reader.node_turns(nodes, waves), nodes.keep)
        tokens = self.project(tokens, embedded)
        at_tokens = self.reader.node_turns(nodes, self.cross_waves)
        state = self.starts(inputs, queries)
        state = state + self.attention(state, tokens, self.turns(queries), at_tokens, nodes.keep)
        return state + self.feed(state)

    def turns(self, queries: Any) -> Harmonics | None:
        """Phases of the cross-attention at the queries."""
        return self.reader.turns(queries, self.cross_waves)

    def read(self, queries: Any) -> Any:
        """Columns of the queries that the query encoder reads."""
        return torch.cat([queries[..., i : i + 1] for i in self.columns], -1)

    def random(self, pairs: int) -> RandomFourierFeatures:
        """Make the random Fourier features of the query encoder."""
        axes = [self.signature.coordinates[i] for i in self.columns]
        return RandomFourierFeatures(axes, pairs, self.config.sigma)

    def _size(self, width: int, heads: int) -> int:
        return width // heads if self.config.split else width

    def _attend(self, width: int, heads: int, size: int) -> LinearAttention:
        return LinearAttention(width, width, heads, size, self.kind, self.space, self.affine)

    def _block(self, size: int) -> SelfAttention:
        width = self.config.width
        attention = self._attend(width, self.config.heads, size)
        attention.start_near_identity()
        return SelfAttention(attention, FeedForward(width, width, self.gate), width, self.normed)


def space_columns(signature: Signature) -> list[int]:
    """Columns of the queries that are no time."""
    return [i for i in range(len(signature.coordinates)) if i != signature.time]


@final
class BurgersOFormer(PublishedOFormer):
    """The network for Burgers' equation: u0 to u at the end of the time axis.

    Fourier attention, no layer norm (amplitudes must survive), and three residual perceptrons of
    their own weights after the cross-attention. Steady problems have no end: all coordinates count.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    end_only = True
    kind = "fourier"
    normed = False

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config, space_columns(signature))
        width, latent = config.width, config.latent
        placed = len(self.reader.axes)
        self.embed = nn.Linear(self.reader.values + placed, width - placed, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        self.place = nn.Sequential(
            self.random(latent), nn.GELU(), nn.Linear(2 * latent, latent, bias=False)
        )
        self.propagators = nn.ModuleList(unbiased_perceptron(*[latent] * 4) for _ in range(3))
        for layer in self.propagators.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, gain=1 / latent)
                with torch.no_grad():
                    layer.weight += torch.eye(latent) / latent
        self.decoder = unbiased_perceptron(
            latent, max(latent // 2, 1), signature.channels, bias=True
        )

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`Published.tokens`; the coordinates are appended once more."""
        features = torch.cat([nodes.values, nodes.places], -1)
        return torch.cat([self.embed(features), nodes.places.expand(len(features), -1, -1)], -1)

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`Published.project`."""
        return self.out(tokens)

    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """See :meth:`Published.starts`."""
        return self.place(self.read(queries))

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`; the time of a query is not read."""
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

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config, range(len(signature.coordinates)))
        width, latent = config.width, config.latent
        self.embed = nn.Linear(self.reader.values + len(self.reader.axes), width, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        random = self.random(latent // 2)
        self.place = nn.Sequential(random, *unbiased_perceptron(2 * (latent // 2), latent, latent))
        self.first = nn.Linear(latent, latent, bias=False)
        self.here = nn.Linear(len(signature.coordinates), latent, bias=False)
        self.decoder = nn.Sequential(
            nn.GELU(), *unbiased_perceptron(latent, latent // 2, signature.channels, bias=True)
        )

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`Published.tokens`."""
        return self.embed(torch.cat([nodes.values, nodes.places], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`Published.project`."""
        return self.out(tokens)

    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """See :meth:`Published.starts`."""
        return self.place(self.read(queries))

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`.

        The decoder reads the query's coordinates beside its state.
        """
        place = scaled_to_unit(queries, self.signature.coordinates)
        return self.decoder(self.first(self.encode(inputs, queries)) + self.here(place))


@final
class NavierStokesOFormer(PublishedOFormer, RolloutBackbone):
    """The network for the Navier–Stokes equations: past frames are channels of the input.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config, space_columns(signature))
        width, latent = config.width, config.latent
        wide = 2 * latent
        self.embed = nn.Linear(self.reader.values + len(self.reader.axes), width, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        self.place = nn.Sequential(self.random(latent), *unbiased_perceptron(wide, wide, latent))
        self.expand = nn.Linear(latent, wide)
        self.norm = nn.LayerNorm(wide)
        self.first = nn.Linear(wide, wide, bias=False)
        self.here = nn.Linear(len(self.columns), wide, bias=False)
        self.rest = nn.Sequential(nn.GELU(), *unbiased_perceptron(wide, wide, wide))
        self.decoder = nn.Sequential(
            nn.LayerNorm(wide),
            *unbiased_perceptron(wide, latent, latent, signature.channels, bias=True),
        )

    @classmethod
    def refusal(cls, signature: Signature, config: PublishedOFormerConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return rollout_refusal(signature) or super().refusal(signature, config)

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`Published.tokens`."""
        return self.embed(torch.cat([nodes.values, nodes.places], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`Published.project`."""
        return self.out(tokens)

    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """See :meth:`Published.starts`."""
        return self.place(self.read(queries))

    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`Marching.begin`; the coordinates' share of each step is computed once."""
        axes = [self.signature.coordinates[i] for i in self.columns]
        return self.expand(self.encode(inputs, places)), self.here(
            scaled_to_unit(self.read(places), axes)
        )

    def advance(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.advance`."""
        return state + self.rest(self.first(self.norm(state)) + known)

    def decode(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.decode`."""
        return self.decoder(state)
