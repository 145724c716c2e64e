"""IPOT: inducing points encode the input, exchange information, and are decoded at any query.

After S. Lee, T. Oh, *Inducing Point Operator Transformer*, AAAI 2024 (arXiv:2312.10975). Their
network is in ``published.py``; in this one each inducing point has a position, on a grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.attention import (
    AttentionContext,
    RelativeAttentionConfig,
    Rotation,
    perceptron,
)
from piop.models.core.base import Backbone, Inputs, Signature, encode_scalars
from piop.models.core.coordinates import (
    CoordinateEncoding,
    absolute_axes,
    angles,
    cell_grid,
    harmonics,
    take_columns,
    wave_vectors,
)
from piop.models.core.harmonic_fit import HarmonicCrossAttention, harmonic_sum
from piop.models.core.rollout import RolloutBackbone
from piop.models.core.sensor_encoder import GatedSkip, SensorEncoder, encode_sensors

SENSOR_FREQUENCIES = 4
"""Sines and cosines of the coordinates of sensors along axes that are not homogeneous."""


@dataclass(frozen=True)
class IPOTConfig(RelativeAttentionConfig):
    """Sizes of the default IPOT, all dimensionless.

    Attributes:
        points: Inducing points along an axis where they lie along one, two, three axes.
        depth: L, applications of the one processor block; in a rollout, per step.
        blocks: Blocks of the decoder, each a cross-attention to the inducing points.
    """

    points: tuple[int, int, int] = (24, 10, 6)
    depth: int = 2
    blocks: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.points) != 3:
            raise UsageError(f"points = {self.points}: give three numbers, for one to three axes")


class InducingGrid(nn.Module):
    """Positions of the inducing points: an even grid over the space that the inputs depend on.

    Without functions there is no such space, and the inducing points have no position.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.

    Attributes:
        columns: Indices of the coordinates of the grid.
        count: P, inducing points.
    """

    def __init__(self, signature: Signature, config: IPOTConfig) -> None:
        super().__init__()
        named = {signature.axis(name) for entry in signature.functions for name in entry.of}
        space = sorted(named - {signature.time})
        self.columns = tuple(space or sorted(named))
        self.signature = signature
        self.axes = [signature.coordinates[i] for i in self.columns]
        self.dimension = max(len(self.axes), 1)
        self.per_axis = config.points[self.dimension - 1]
        self.count = self.per_axis**self.dimension
        self.rotary = config.rotary_embeddings(self.dimension)

    def points(self, like: Tensor) -> Tensor:
        """All coordinates of the inducing points ``[1, P, D]``, others at their lower ends."""
        grid = cell_grid(self.axes, [self.per_axis] * len(self.axes), like, centred=False)
        known = dict(zip(self.columns, grid.unbind(-1), strict=True))
        columns = [
            known.get(i, like.new_full((1, self.count), axis.low))
            for i, axis in enumerate(self.signature.coordinates)
        ]
        return torch.stack(columns, -1)

    def angles(self, points: Tensor) -> Tensor:
        """Angles of ``points [B, N, D]`` along the axes of the grid: ``[B, N, d]``."""
        return angles(take_columns(points, self.columns), self.axes)

    def rotations(self, points: Tensor) -> list[Rotation]:
        """Rotations of the attention at ``points [B, N, D]``; by nothing without positions."""
        if not self.columns:
            return self.rotary(torch.zeros(1, 1, 1, dtype=points.dtype, device=points.device))
        return self.rotary(self.angles(points))


class GatedFeedForward(nn.Module):
    """Layer norm, then a perceptron of one hidden layer gated by GELU (GEGLU).

    N. Shazeer, *GLU Variants Improve Transformer*, 2020, eq. 5 (arXiv:2002.05202), with biases.

    Args:
        width: Features in and out.
        expansion: Hidden width over ``width``.
    """

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.hidden = expansion * width
        self.norm = nn.LayerNorm(width)
        self.into = nn.Linear(width, 2 * self.hidden)
        self.out = nn.Linear(self.hidden, width)

    def forward(self, state: Tensor) -> Tensor:
        """Map ``state [B, N, width]``, without a skip connection."""
        value, gate = self.into(self.norm(state)).split(self.hidden, -1)
        return self.out(value * F.gelu(gate))


class InducingEncoder(nn.Module):
    """Cross-attention of the inducing points to the sensors (eq. 6).

    Args:
        signature: The problem's shapes and scales.
        grid: Positions of the inducing points.
        config: Sizes.
    """

    def __init__(self, signature: Signature, grid: InducingGrid, config: IPOTConfig) -> None:
        super().__init__()
        self.signature, self.grid = signature, grid
        width = config.width
        fixed = [i for i in grid.columns if i in absolute_axes(signature)]
        self.encoding = CoordinateEncoding(signature.coordinates, fixed, config.frequencies)
        # Points that have positions start alike; without positions they must differ.
        self.latents = nn.Parameter(torch.randn(1, 1 if grid.columns else grid.count, width) * 0.5)
        self.place = self.encoding.linear(width)
        scalars = signature.scalar_channels
        self.scalars = nn.Linear(scalars, width) if scalars else None
        of_sensors = replace(config, frequencies=SENSOR_FREQUENCIES)
        sensors = {e.name: SensorEncoder(signature, e, of_sensors) for e in signature.functions}
        self.sensors = nn.ModuleDict(sensors)
        attention = {e.name: config.attention(len(e.of)) for e in signature.functions}
        self.attention = nn.ModuleDict(attention)
        self.feed_forward = GatedFeedForward(width, config.expansion)

    def forward(self, inputs: Inputs) -> Tensor:
        """Encode the inputs: ``[B or 1, P, width]``."""
        condition = encode_scalars(self.scalars, self.signature, inputs)
        state: Any = self.latents if condition is None else self.latents + condition
        points = self.grid.points(self.latents)
        if self.place is not None:
            state = state + self.place(self.encoding(points))
        contexts, views = encode_sensors(self.sensors, inputs, points, condition)
        state = state + views
        for name, attend in self.attention.items():
            state = state + attend(state, contexts[name])
        return state + self.feed_forward(state)


class InducingProcessor(nn.Module):
    """One block of self-attention among the inducing points, after a layer norm (eq. 7).

    Args:
        grid: Positions of the inducing points.
        config: Sizes.
    """

    def __init__(self, grid: InducingGrid, config: IPOTConfig) -> None:
        super().__init__()
        self.grid = grid
        self.norm = nn.LayerNorm(config.width)
        self.attention = config.attention(grid.dimension)
        self.feed_forward = GatedFeedForward(config.width, config.expansion)

    def forward(self, state: Tensor) -> Tensor:
        """Update the inducing points ``[B or 1, P, width]``."""
        at, normal = self.grid.rotations(self.grid.points(state)), self.norm(state)
        state = state + self.attention(normal, AttentionContext(normal, at, at, None))
        return state + self.feed_forward(state)


class InducingDecoder(nn.Module):
    """Cross-attention of the queries to the inducing points (eq. 8).

    Args:
        signature: The problem's shapes and scales.
        grid: Positions of the inducing points.
        columns: Coordinates that the output depends on; a rollout leaves the time out.
        config: Sizes.
    """

    def __init__(
        self, signature: Signature, grid: InducingGrid, columns: Sequence[int], config: IPOTConfig
    ) -> None:
        super().__init__()
        self.grid, width = grid, config.width
        known = [i for i in columns if i in absolute_axes(signature)]
        self.encoding = CoordinateEncoding(signature.coordinates, known, config.frequencies)
        self.place = self.encoding.linear(width)
        self.start = nn.Parameter(0.5 * torch.randn(1, 1, width))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(InducingBlock(grid, config) for _ in range(config.blocks))
        self.view = self.transport = None
        if grid.columns:
            self.view = HarmonicLatentAttention(grid, width)
            self.transport = GatedSkip(self.encoding.features, width, signature.channels)
        self.answer = perceptron(width, width, signature.channels)

    def forward(self, tokens: Tensor, queries: Tensor) -> Tensor:
        """Decode at ``queries [B or 1, N, D]``: ``[B, N, C]``."""
        state: Any = self.start.expand(*queries.shape[:2], -1)
        coordinates, skip = None, 0.0
        if self.place is not None:
            coordinates = self.encoding(queries)
            state = self.place(coordinates) + state
        tokens, inducing = self.norm(tokens), self.grid.points(tokens)
        if self.view is not None and self.transport is not None:
            views = self.view(tokens, inducing, queries)
            gated, skip = self.transport(views, coordinates)
            state = torch.tanh(state + views) + gated
        at_queries, at_tokens = self.grid.rotations(queries), self.grid.rotations(inducing)
        context = AttentionContext(tokens, at_queries, at_tokens, None)
        for block in self.blocks:
            state = block(state, context)
        return self.answer(state) + skip


class HarmonicLatentAttention(nn.Module):
    """Linear attention from queries to the inducing points, with harmonics as keys.

    A few channels of the inducing points, as samples of functions on their grid, are moved to the
    query in Fourier space, as :class:`HarmonicCrossAttention` does with an input. Streams pass
    through the harmonics alone; softmax attention by itself blurs, and each head of it learns one
    width.

    Args:
        grid: Positions of the inducing points.
        width: Features of an inducing point and of a view.
    """

    waves: Tensor

    def __init__(self, grid: InducingGrid, width: int) -> None:
        super().__init__()
        self.grid = grid
        radius = min(LARGEST_WAVE[grid.dimension], max((grid.per_axis - 1) // 2, 1))
        waves = wave_vectors(grid.dimension, radius)
        self.register_buffer("waves", waves, persistent=False)
        self.channels = nn.Linear(width, HARMONIC_CHANNELS)
        self.turn = HarmonicCrossAttention(len(waves), HARMONIC_CHANNELS, width)

    def forward(self, tokens: Tensor, inducing: Tensor, queries: Tensor) -> Tensor:
        """Attend.

        Args:
            tokens: ``[B or 1, P, width]``.
            inducing: Coordinates of the inducing points ``[1, P, D]``.
            queries: ``[B or 1, N, D]``.

        Returns:
            ``[B, N, width]``.
        """
        cos, sin = harmonics(self.grid.angles(inducing), self.waves)
        values = self.channels(tokens)
        twice = 2 / self.grid.count
        coefficients = torch.cat(
            [values.mean(1, keepdim=True), cos.mT @ values * twice, sin.mT @ values * twice], 1
        )
        at_queries = harmonics(self.grid.angles(queries), self.waves)
        return harmonic_sum(self.turn(coefficients), *at_queries)


HARMONIC_CHANNELS = 16
"""Channels of an inducing point in :class:`HarmonicLatentAttention`."""

LARGEST_WAVE = {1: 8, 2: 4, 3: 2}
"""Largest wave number of :class:`HarmonicLatentAttention`, by the number of axes of the grid."""


class InducingBlock(nn.Module):
    """z + attention, then z + perceptron; no layer norm, which would cost every stream two sums.

    Args:
        grid: Positions of the inducing points.
        config: Sizes.
    """

    def __init__(self, grid: InducingGrid, config: IPOTConfig) -> None:
        super().__init__()
        self.attention = config.attention(grid.dimension)
        self.perceptron = config.perceptron()

    def forward(self, state: Tensor, context: AttentionContext) -> Tensor:
        """Update the queries ``[B, N, width]``."""
        found = state + self.attention(state, context)
        return found + self.perceptron(found)


class LatentModel(nn.Module, ABC):
    """Encoder, processor and decoder (eq. 5).

    Args:
        signature: The problem's shapes and scales.
        columns: Coordinates that the output depends on; a rollout leaves the time out.
        config: Sizes.

    Attributes:
        count: P, inducing points.
        processor: One block of self-attention among the inducing points.
    """

    count: int
    processor: nn.Module

    def __init__(self, signature: Signature, columns: range, config: Any) -> None:
        super().__init__()
        self.signature, self.columns, self.config = signature, columns, config

    @abstractmethod
    def encode(self, inputs: Inputs) -> Tensor:
        """Encode the inputs: ``[B or 1, P, width]`` (eq. 6)."""

    def process(self, state: Tensor) -> Tensor:
        """Exchange information among the inducing points, L times by one block (eq. 7)."""
        for _ in range(self.config.depth):
            state = self.processor(state)
        return state

    @abstractmethod
    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """Decode at ``queries [B or 1, N, D]``: ``[B, N, C]`` (eq. 8)."""

    def unused_parameters(self) -> Mapping[str, str]:
        """See :meth:`Backbone.unused_parameters`."""
        return {}


class LatentBackbone(Backbone):
    """A backbone that encodes, processes and decodes inducing points.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.

    Attributes:
        model: The class of encoder, processor and decoder.
        latents: Encoder, processor and decoder.
    """

    model: ClassVar[type[LatentModel]]

    def __init__(self, signature: Signature, config: Any) -> None:
        super().__init__(signature, config)
        columns = range(1 if self.field.rollout else 0, len(signature.coordinates))
        self.latents = self.model(signature, columns, config)
        self.context_points = self.latents.count

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.latents.decode(self.latents.process(self.latents.encode(inputs)), queries)

    def unused_parameters(self) -> Mapping[str, str]:
        """See :meth:`LatentModel.unused_parameters`."""
        return self.latents.unused_parameters()


class LatentRollout(RolloutBackbone, LatentBackbone):
    """Inducing points that advance in time; a step is one pass of the processor (eqs. 5 and 9)."""

    def begin(self, inputs: Inputs, queries: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`RolloutBackbone.begin`."""
        self.check(inputs, queries)
        return self.latents.encode(inputs), queries

    def advance(self, state: Tensor, context: Tensor) -> Tensor:
        """See :meth:`RolloutBackbone.advance`."""
        return self.latents.process(state)

    def decode(self, state: Tensor, context: Tensor) -> Tensor:
        """See :meth:`RolloutBackbone.decode`."""
        return self.latents.decode(state, context)


class InducingPoints(LatentModel):
    """Encoder, processor and decoder of inducing points that have positions."""

    def __init__(self, signature: Signature, columns: range, config: IPOTConfig) -> None:
        super().__init__(signature, columns, config)
        self.grid = InducingGrid(signature, config)
        self.count = self.grid.count
        self.encoder = InducingEncoder(signature, self.grid, config)
        self.processor = InducingProcessor(self.grid, config)
        self.decoder = InducingDecoder(signature, self.grid, columns, config)

    def encode(self, inputs: Inputs) -> Tensor:
        """See :meth:`LatentModel.encode`."""
        return self.encoder(inputs)

    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """See :meth:`LatentModel.decode`."""
        return self.decoder(state, queries)

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the biases that cancel in a softmax where keys have no position."""
        if self.grid.columns:
            return {}
        reason = "adds the same to all scores of a query"
        parts = ("processor.attention", "decoder.blocks.*.attention")
        return {f"latents.{part}.key.bias": reason for part in parts}


@final
class IPOT(LatentBackbone):
    """The default IPOT; the time is a coordinate of the queries.

    Where it leaves the paper:

    - An inducing point has a position, and nothing else distinguishes it from its neighbours;
      attention depends on differences of positions (:class:`RelativeAttention`). So one function
      teaches its shifts by whole steps of the grid.
    - Its state starts from harmonic cross-attention to the input (:class:`HarmonicCrossAttention`),
      and it attends to gradients and antiderivatives besides values (:class:`SensorEncoder`).
    - A query attends to the inducing points by softmax attention and by harmonics as well
      (:class:`HarmonicLatentAttention`).
    - The decoder has a width of its own and residual blocks, where the paper's maps directly to the
      output; without layer norm, which would cost every stream two sums.
    """

    model = InducingPoints


@dataclass(frozen=True)
class IPOTRolloutConfig(IPOTConfig):
    """Sizes of the default IPOT as a rollout, all dimensionless.

    Attributes:
        steps: Steps over the time axis, one pass of the processor each.
    """

    steps: int = 32


@final
class IPOTRollout(LatentRollout):
    """The default IPOT as a rollout (eq. 9): one step is one pass of the processor."""

    model = InducingPoints
