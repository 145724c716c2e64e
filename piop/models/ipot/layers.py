"""Encoder, processor and decoder of the default IPOT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Signature, standardised
from piop.models.core.coordinates import absolute_axes, harmonics, marks, wave_vectors
from piop.models.core.relative_attention import Harmonics
from piop.models.core.sensor_encoder import Sensors, SensorTransport
from piop.models.core.spectrum import HarmonicView
from piop.models.ipot.attention import GatedFeedForward
from piop.models.ipot.inducing_points import InducingLattice, IPOTConfig, relative

SENSOR_FREQUENCIES = 4
"""Sines and cosines of the coordinates of sensors along axes that are not homogeneous."""


class InducingEncoder(nn.Module):
    """Eq. 6: inducing points attend to the sensors.

    Args:
        signature: The problem's shapes and scales.
        lattice: Where the inducing points are.
        config: Sizes.
    """

    def __init__(self, signature: Signature, lattice: InducingLattice, config: IPOTConfig) -> None:
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
                e.name: Sensors(signature, e, width, config.harmonics, SENSOR_FREQUENCIES)
                for e in signature.functions
            }
        )
        self.attention = nn.ModuleDict(
            {e.name: relative(len(e.of), config) for e in signature.functions}
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
            state = state + self.place(marks(here, axes, self.frequencies))
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

    def __init__(self, lattice: InducingLattice, config: IPOTConfig) -> None:
        super().__init__()
        self.lattice = lattice
        self.norm = nn.LayerNorm(config.width)
        self.attention = relative(lattice.dimension, config)
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
        lattice: InducingLattice,
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
        self.view = LatentView(lattice, width) if lattice.columns else None
        self.transport = (
            SensorTransport(size, width, signature.channels) if lattice.columns else None
        )
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
            known = marks(here, axes, self.frequencies)
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


class LatentView(nn.Module):
    """The inducing points as seen from a query: linear attention whose keys are harmonics.

    A few channels of the inducing points, as samples of functions on their lattice, are moved to
    the query in Fourier space, as :class:`HarmonicView` does with an input. Streams meet only the
    harmonics; softmax attention alone blurs, and each head of it finds one width.

    Args:
        lattice: Where the inducing points are.
        width: Features of an inducing point and of a view.
    """

    waves: Tensor

    def __init__(self, lattice: InducingLattice, width: int) -> None:
        super().__init__()
        self.lattice = lattice
        radius = min(VIEW_RADIUS[lattice.dimension], max((lattice.per_axis - 1) // 2, 1))
        waves = torch.tensor(
            wave_vectors(lattice.dimension, radius), dtype=torch.get_default_dtype()
        )
        self.register_buffer("waves", waves, persistent=False)
        self.channels = nn.Linear(width, VIEW_CHANNELS)
        self.turn = HarmonicView(len(waves), VIEW_CHANNELS, width)

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


VIEW_CHANNELS = 16
"""Features of an inducing point that a query sees in this way."""

VIEW_RADIUS = {1: 8, 2: 4, 3: 2}
"""Largest wave number of the view, by the number of the lattice's axes."""


class InducingBlock(nn.Module):
    """z + attention, then z + perceptron; no layer norm, which would cost every stream two sums.

    Args:
        lattice: Where the inducing points are.
        config: Sizes.
    """

    def __init__(self, lattice: InducingLattice, config: IPOTConfig) -> None:
        super().__init__()
        self.attention = relative(lattice.dimension, config)
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
