"""Layers of the default IPOT: inducing points on a grid, encoder, processor and decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.base import Signature, standardised
from piop.models.core.coordinates import (
    absolute_axes,
    angles,
    coordinate_features,
    harmonics,
    wave_vectors,
)
from piop.models.core.harmonic_fit import HarmonicCrossAttention
from piop.models.core.relative_attention import ROTATED_VALUES, Harmonics, RelativeAttention
from piop.models.core.sensor_encoder import GatedSkip, SensorEncoder
from piop.models.ipot.attention import GatedFeedForward


@dataclass(frozen=True)
class IPOTConfig:
    """Sizes of the default IPOT, all dimensionless.

    Attributes:
        width: Features of an inducing point and of a query.
        points: Inducing points along an axis where they lie along one, two, three axes.
        depth: L, how often the one processor block is applied; in a march, per step.
        blocks: Blocks of the decoder, each a cross-attention to the inducing points.
        heads: H, attention heads.
        content: Entries of a key that carry content alone.
        harmonics: Pairs of entries of a key that carry position, by the shortest wave vectors.
        expansion: Hidden width of a block's perceptron over ``width``.
        frequencies: Sines and cosines of the time, and of axes that are not homogeneous.
    """

    width: int = 64
    points: tuple[int, int, int] = (24, 10, 6)
    depth: int = 2
    blocks: int = 2
    heads: int = 4
    content: int = 8
    harmonics: int = 6
    expansion: int = 2
    frequencies: int = 4

    def __post_init__(self) -> None:
        if self.harmonics < ROTATED_VALUES:
            raise UsageError(f"harmonics = {self.harmonics}: give at least {ROTATED_VALUES}")


def relative_attention_of(dimension: int, config: IPOTConfig) -> RelativeAttention:
    """Make an attention of the config's sizes."""
    return RelativeAttention(
        config.width, dimension, config.heads, config.content, config.harmonics
    )


class InducingGrid(nn.Module):
    """Where the inducing points are: on an even lattice over the space that the inputs live in.

    Without functions there is no such space, and they are nowhere in particular.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.

    Attributes:
        columns: Indices of the coordinates that it lies over.
        count: P, inducing points.
    """

    waves: Tensor

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
        self.harmonics = config.harmonics
        waves = RelativeAttention.wave_vectors(self.dimension, config.harmonics)
        self.register_buffer("waves", waves, persistent=False)

    def places(self, like: Tensor) -> Tensor:
        """Rows of coordinates ``[1, P, D]``; those it does not lie over are at their lower ends."""
        ticks = []
        for axis in self.axes:
            steps = torch.arange(self.per_axis, dtype=like.dtype, device=like.device)
            first = 0.0 if axis.periodic else 0.5  # cell centres between walls
            ticks.append(axis.low + (steps + first) * ((axis.high - axis.low) / self.per_axis))
        mesh = torch.cartesian_prod(*ticks).reshape(self.count, -1) if ticks else None
        rows = [
            mesh[:, self.columns.index(i)]
            if mesh is not None and i in self.columns
            else torch.full((self.count,), axis.low, dtype=like.dtype, device=like.device)
            for i, axis in enumerate(self.signature.coordinates)
        ]
        return torch.stack(rows, -1)[None]

    def turned(self, columns: Mapping[int, Tensor], like: Tensor) -> Harmonics:
        """Cosines and sines of the attention's wave vectors at some points ``[B, N, harmonics]``.

        Args:
            columns: Coordinates by their index ``[B, N, 1]`` each.
            like: A tensor of the device and dtype wanted.
        """
        if not self.columns:
            still = torch.ones(1, 1, self.harmonics, dtype=like.dtype, device=like.device)
            return still, still - 1
        return harmonics(self.angles(columns), self.waves)

    def angles(self, columns: Mapping[int, Tensor]) -> Tensor:
        """Angles of points along the lattice's axes, ``[B, N, d]``."""
        return angles(torch.cat([columns[i] for i in self.columns], -1), self.axes)

    def own(self, like: Tensor) -> Harmonics:
        """Give the same at the inducing points."""
        return self.turned(self.own_columns(like), like)

    def own_columns(self, like: Tensor) -> dict[int, Tensor]:
        """Coordinates of the inducing points by their index ``[1, P, 1]`` each."""
        places = self.places(like)
        return {i: places[..., i : i + 1] for i in self.columns}


SENSOR_FREQUENCIES = 4
"""Sines and cosines of the coordinates of sensors along axes that are not homogeneous."""


class InducingEncoder(nn.Module):
    """Eq. 6: inducing points attend to the sensors.

    Args:
        signature: The problem's shapes and scales.
        lattice: Where the inducing points are.
        config: Sizes.
    """

    def __init__(self, signature: Signature, lattice: InducingGrid, config: IPOTConfig) -> None:
        super().__init__()
        self.signature, self.lattice, self.frequencies = signature, lattice, config.frequencies
        width = config.width
        self.fixed = [i for i in lattice.columns if i in absolute_axes(signature)]
        # Points that have places start alike; without places they must differ.
        self.latents = nn.Parameter(
            torch.randn(1, 1 if lattice.columns else lattice.count, width) * 0.5
        )
        size = len(self.fixed) * (1 + 2 * config.frequencies)
        self.place = nn.Linear(size, width) if size else None
        scalars = sum(entry.channels for entry in signature.scalars)
        self.scalars = nn.Linear(scalars, width) if scalars else None
        self.sensors = nn.ModuleDict(
            {
                e.name: SensorEncoder(signature, e, width, config.harmonics, SENSOR_FREQUENCIES)
                for e in signature.functions
            }
        )
        self.attention = nn.ModuleDict(
            {e.name: relative_attention_of(len(e.of), config) for e in signature.functions}
        )
        self.feed_forward = GatedFeedForward(width, config.expansion)

    def forward(self, inputs: Mapping[str, FunctionSamples]) -> Tensor:
        """Read the inputs: ``[B or 1, P, width]``."""
        condition = None
        state: Any = self.latents
        if self.scalars is not None:
            values = [standardised(e, inputs[e.name])[:, :1] for e in self.signature.scalars]
            condition = self.scalars(torch.cat(values, -1))
            state = state + condition
        places = self.lattice.places(self.latents)
        if self.place is not None:
            axes = [self.signature.coordinates[i] for i in self.fixed]
            here = torch.cat([places[..., i : i + 1] for i in self.fixed], -1)
            state = state + self.place(coordinate_features(here, axes, self.frequencies))
        seen = {}
        for name, sensors in self.sensors.items():
            seen[name], view = sensors(inputs[name], places, condition)
            state = state + view
        for name, attend in self.attention.items():
            s = seen[name]
            state = state + attend(state, s.tokens, s.at_queries, s.at_sensors, s.blocked)
        return state + self.feed_forward(state)


class InducingProcessor(nn.Module):
    """Eq. 7: one block of self-attention among the inducing points, before it a layer norm.

    Args:
        lattice: Where the inducing points are.
        config: Sizes.
    """

    def __init__(self, lattice: InducingGrid, config: IPOTConfig) -> None:
        super().__init__()
        self.lattice = lattice
        self.norm = nn.LayerNorm(config.width)
        self.attention = relative_attention_of(lattice.dimension, config)
        self.feed_forward = GatedFeedForward(config.width, config.expansion)

    def forward(self, state: Tensor) -> Tensor:
        """Update the inducing points ``[B or 1, P, width]``."""
        at, normal = self.lattice.own(state), self.norm(state)
        state = state + self.attention(normal, normal, at, at, None)
        return state + self.feed_forward(state)


class InducingDecoder(nn.Module):
    """Eq. 8: queries attend to the inducing points.

    Args:
        signature: The problem's shapes and scales.
        lattice: Where the inducing points are.
        asked: Columns of the queries that it is given.
        config: Sizes.
    """

    def __init__(
        self,
        signature: Signature,
        lattice: InducingGrid,
        asked: Sequence[int],
        config: IPOTConfig,
    ) -> None:
        super().__init__()
        self.signature, self.lattice, self.frequencies = signature, lattice, config.frequencies
        self.asked, width = tuple(asked), config.width
        self.known = [i for i in self.asked if i in absolute_axes(signature)]
        size = len(self.known) * (1 + 2 * config.frequencies)
        self.place = nn.Linear(size, width) if size else None
        self.start = nn.Parameter(0.5 * torch.randn(1, 1, width))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(InducingBlock(lattice, config) for _ in range(config.blocks))
        self.view = HarmonicLatentAttention(lattice, width) if lattice.columns else None
        self.transport = GatedSkip(size, width, signature.channels) if lattice.columns else None
        self.answer = nn.Sequential(
            nn.Linear(width, width), nn.Tanh(), nn.Linear(width, signature.channels)
        )

    def forward(self, state: Tensor, queries: Tensor) -> Tensor:
        """Answer ``queries [B or 1, N, asked]``: ``[B, N, C]``."""
        columns = {i: queries[..., n : n + 1] for n, i in enumerate(self.asked)}
        at = self.lattice.turned(columns, state)
        asking: Any = self.start.expand(*queries.shape[:2], -1)
        known = None
        if self.place is not None:
            axes = [self.signature.coordinates[i] for i in self.known]
            here = torch.cat([columns[i] for i in self.known], -1)
            known = coordinate_features(here, axes, self.frequencies)
            asking = self.place(known) + asking
        tokens, at_tokens = self.norm(state), self.lattice.own(state)
        straight: Any = 0.0
        if self.view is not None and self.transport is not None:
            views = self.view(tokens, columns)
            turned, straight = self.transport(views, known)
            asking = torch.tanh(asking + views) + turned
        for block in self.blocks:
            asking = block(asking, tokens, at, at_tokens)
        return self.answer(asking) + straight


class HarmonicLatentAttention(nn.Module):
    """The inducing points as seen from a query: linear attention whose keys are harmonics.

    A few channels of the inducing points, as samples of functions on their lattice, are moved to
    the query in Fourier space, as :class:`HarmonicCrossAttention` does with an input. Streams meet
    only the harmonics; softmax attention alone blurs, and each head of it finds one width.

    Args:
        lattice: Where the inducing points are.
        width: Features of an inducing point and of a view.
    """

    waves: Tensor

    def __init__(self, lattice: InducingGrid, width: int) -> None:
        super().__init__()
        self.lattice = lattice
        radius = min(LARGEST_WAVE[lattice.dimension], max((lattice.per_axis - 1) // 2, 1))
        waves = torch.tensor(
            wave_vectors(lattice.dimension, radius), dtype=torch.get_default_dtype()
        )
        self.register_buffer("waves", waves, persistent=False)
        self.channels = nn.Linear(width, HARMONIC_CHANNELS)
        self.turn = HarmonicCrossAttention(len(waves), HARMONIC_CHANNELS, width)

    def forward(self, tokens: Tensor, columns: Mapping[int, Tensor]) -> Tensor:
        """Look from queries.

        Args:
            tokens: ``[B or 1, P, width]``.
            columns: Coordinates of the queries by their index ``[B or 1, N, 1]`` each.

        Returns:
            ``[B, N, width]``.
        """
        own = self.lattice.angles(self.lattice.own_columns(tokens))
        cos, sin = harmonics(own, self.waves)
        values = self.channels(tokens)
        twice = 2 / self.lattice.count
        coefficients = torch.cat(
            [values.mean(1, keepdim=True), cos.mT @ values * twice, sin.mT @ values * twice], 1
        )
        return self.turn(coefficients, *harmonics(self.lattice.angles(columns), self.waves))


HARMONIC_CHANNELS = 16
"""Features of an inducing point that a query sees in this way."""

LARGEST_WAVE = {1: 8, 2: 4, 3: 2}
"""Largest wave number of the view, by the number of the lattice's axes."""


class InducingBlock(nn.Module):
    """z + attention, then z + perceptron; no layer norm, which would cost every stream two sums.

    Args:
        lattice: Where the inducing points are.
        config: Sizes.
    """

    def __init__(self, lattice: InducingGrid, config: IPOTConfig) -> None:
        super().__init__()
        self.attention = relative_attention_of(lattice.dimension, config)
        self.perceptron = nn.Sequential(
            nn.Linear(config.width, config.expansion * config.width),
            nn.Tanh(),
            nn.Linear(config.expansion * config.width, config.width),
        )

    def forward(
        self, state: Tensor, tokens: Tensor, at_queries: Harmonics, at_tokens: Harmonics
    ) -> Tensor:
        """Update the queries ``[B, N, width]``."""
        found = state + self.attention(state, tokens, at_queries, at_tokens, None)
        return found + self.perceptron(found)
