"""PIT: the physics-informed transformer, queries attending to sensors and never to each other.

F. Dos Santos, T. Akhound-Sadegh, S. Ravanbakhsh, *Physics-Informed Transformer Networks*, NeurIPS
2023 workshop "The Symbiosis of Deep Learning and Differential Equations III". The network of the
paper is in ``pit_paper.py``; this one keeps its idea and makes position relative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.base import AxisSignature, Backbone, InputSignature, Signature, standardised
from piop.models.core.coordinates import angles, harmonics
from piop.models.core.relative_attention import TURNING, RelativeAttention
from piop.models.core.spectrum import HarmonicView, Spectrum

BLOCKED = -1e9
"""Score of a sensor that is not there."""


@dataclass(frozen=True)
class PITConfig:
    """Sizes of the default PIT, all dimensionless.

    Attributes:
        width: Features of a query and of a token.
        blocks: L, cross-attention blocks.
        heads: H, attention heads.
        content: Entries of a key that carry content alone.
        harmonics: Pairs of entries of a key that carry position, by the shortest wave vectors.
        expansion: Hidden width of a block's perceptron over ``width``.
        frequencies: Sines and cosines of the time, and of axes that are not homogeneous.
    """

    width: int = 64
    blocks: int = 2
    heads: int = 4
    content: int = 8
    harmonics: int = 6
    expansion: int = 2
    frequencies: int = 4

    def __post_init__(self) -> None:
        if self.harmonics < TURNING:
            raise UsageError(f"harmonics = {self.harmonics}: give at least {TURNING}")


@final
class PIT(Backbone):
    """The default PIT.

    Where it leaves the paper, and why (``docs/models.md``):

    - Position is relative along homogeneous axes, so one function teaches all its shifts.
    - Queries start from the input as seen from where they are (:class:`HarmonicView`), not from
      their coordinates alone.
    - Views times functions of the time go straight to the answer (:class:`SensorTransport`): what a
      linear equation does to a harmonic, which perceptrons are slow to learn.
    - A smooth input is read off its harmonics on a lattice (:class:`Sensors`), so that scattered
      sensors need not be learned.
    - Linear maps for Q, K, V and one hidden layer in φ, ψ and the decoder, where the paper has
      perceptrons of three and four layers: 85 thousand parameters in place of a million, and each
      layer less is a layer less for every stream.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PITConfig) -> None:
        super().__init__(signature)
        self.config = config
        width = config.width
        self.absolute = absolute_axes(signature)
        marks = len(self.absolute) * (1 + 2 * config.frequencies)
        self.place = nn.Linear(marks, width) if marks else None
        scalars = sum(entry.channels for entry in signature.scalars)
        self.scalars = nn.Linear(scalars, width) if scalars else None
        self.start = nn.Linear(width, width)
        self.transport = (
            SensorTransport(marks, width, signature.channels) if signature.functions else None
        )
        self.sensors = nn.ModuleDict(
            {entry.name: Sensors(signature, entry, config) for entry in signature.functions}
        )
        self.blocks = nn.ModuleList(PITBlock(signature, config) for _ in range(config.blocks))
        self.decoder = nn.Sequential(
            nn.Linear(width, width), nn.Tanh(), nn.Linear(width, signature.channels)
        )

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        condition = self._condition(inputs)
        state: Any = 0.0 if condition is None else condition
        known = self._marks(queries) if self.place is not None else None
        if self.place is not None:
            state = self.place(known) + state
        seen: dict[str, Seen] = {}
        views: Any = 0.0
        for entry in self.signature.functions:
            sensors: Sensors = self.sensors[entry.name]  # type: ignore[assignment]
            seen[entry.name], view = sensors(inputs[entry.name], queries, condition)
            views = view + views
        state = self.start(torch.tanh(views + state))
        straight: Any = 0.0
        if self.transport is not None:
            turned, straight = self.transport(views, known)
            state = state + turned
        for block in self.blocks:
            state = block(state, seen)
        return self.decoder(state) + straight

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the tokens: see :meth:`Backbone.context_length`."""
        like = next(self.parameters())
        fits = {e.name: self.sensors[e.name].spectrum for e in self.signature.functions}
        return sum(
            fits[e.name].lattice(like).shape[1] if e.smooth else sensors[e.name]  # type: ignore[union-attr,operator]
            for e in self.signature.functions
        )

    def _condition(self, inputs: Mapping[str, FunctionSamples]) -> Tensor | None:
        """What the scalars say to queries and tokens alike: ``[B, 1, width]``."""
        if self.scalars is None:
            return None
        values = [standardised(e, inputs[e.name])[:, :1] for e in self.signature.scalars]
        return self.scalars(torch.cat(values, -1))

    def _marks(self, queries: Tensor) -> Tensor:
        """Time, and axes that are not homogeneous: ``[B, N, marks]``."""
        axes = [self.signature.coordinates[i] for i in self.absolute]
        columns = torch.cat([queries[..., i : i + 1] for i in self.absolute], -1)
        return marks(columns, axes, self.config.frequencies)


def absolute_axes(signature: Signature) -> tuple[int, ...]:
    """Columns of the queries that must be known as such; of all others differences suffice."""
    shifted = {name for entry in signature.functions for name in entry.of}
    free = shifted & set(signature.homogeneous)
    return tuple(i for i, axis in enumerate(signature.coordinates) if axis.name not in free)


def marks(points: Tensor, axes: list[AxisSignature], frequencies: int) -> Tensor:
    """Sines and cosines of each coordinate, and what grows along it (nothing does round a period).

    Args:
        points: ``[B, N, d]``, units of the axes.
        axes: The d axes.
        frequencies: How many sines, and cosines, of each.

    Returns:
        ``[B, N, d (1 + 2 frequencies)]``.
    """
    angle = angles(points, axes)
    columns = []
    for i, axis in enumerate(axes):
        one = angle[..., i : i + 1]
        columns.append(torch.sin(one) if axis.periodic else one * (2 / math.pi) - 1)
        rates = torch.arange(1, frequencies + 1, dtype=points.dtype, device=points.device)
        columns += [torch.sin(one * rates), torch.cos(one * rates)]
    return torch.cat(columns, -1)


class SensorTransport(nn.Module):
    """Views of the input times functions of the time, to the state and straight to the answer.

    What a linear equation does to a harmonic: multiply it by a function of the time. Perceptrons
    are slow to learn products.

    Args:
        marks: Features of time and place; 0 where there are none.
        width: Features of a view and of a query.
        channels: C.
    """

    def __init__(self, marks: int, width: int, channels: int) -> None:
        super().__init__()
        self.gate = (
            nn.Sequential(nn.Linear(marks, width), nn.Tanh(), nn.Linear(width, width))
            if marks
            else None
        )
        self.state = nn.Linear(width, width)
        self.answer = nn.Linear(width, channels)

    def forward(self, views: Tensor, marks: Tensor | None) -> tuple[Tensor, Tensor]:
        """Give what is added to the state ``[B, N, width]`` and to the answer ``[B, N, C]``."""
        turned = views if self.gate is None else views * self.gate(marks)
        return self.state(turned), self.answer(turned)


@dataclass(frozen=True)
class Seen:
    """One input as a block meets it.

    Attributes:
        tokens: ``[B, M, width]``.
        at_queries: Cosines and sines of the attention's wave vectors there, ``[B, N, P]`` each.
        at_sensors: The same at the tokens, ``[B, M, P]`` each.
        blocked: What is added to scores ``[B, 1, 1, M]``, or None.
    """

    tokens: Tensor
    at_queries: tuple[Tensor, Tensor]
    at_sensors: tuple[Tensor, Tensor]
    blocked: Tensor | None


class Sensors(nn.Module):
    """ψ of the paper: sensors to tokens, and what a query sees before it attends.

    A smooth input is read off its harmonic fit on a lattice: scattered sensors then cost the
    attention no accuracy, and many sensors no time. An input with jumps keeps its own sensors.

    Args:
        signature: The problem's shapes and scales.
        entry: The input.
        config: Sizes.
    """

    relative: Tensor

    def __init__(self, signature: Signature, entry: InputSignature, config: PITConfig) -> None:
        super().__init__()
        self.entry, self.frequencies = entry, config.frequencies
        self.columns = tuple(signature.axis(name) for name in entry.of)
        self.axes = [signature.coordinates[i] for i in self.columns]
        width = config.width
        self.fixed = [i for i, c in enumerate(self.columns) if c in absolute_axes(signature)]
        self.spectrum = Spectrum(entry, self.axes)
        self.view = HarmonicView(len(self.spectrum.waves), entry.channels, width)
        # Slopes and antiderivatives of the fit beside the value.
        features = entry.channels * (1 + 2 * len(self.axes))
        features += len(self.fixed) * (1 + 2 * self.frequencies)
        self.embed = nn.Linear(features, width)
        self.mix = nn.Linear(width, width)
        waves = RelativeAttention.wave_vectors(len(self.axes), config.harmonics)
        self.register_buffer("relative", waves, persistent=False)

    def forward(
        self, samples: FunctionSamples, queries: Tensor, condition: Tensor | None
    ) -> tuple[Seen, Tensor]:
        """Prepare the input.

        Args:
            samples: Its sensors.
            queries: ``[B, N, D]``.
            condition: What the scalars say ``[B, 1, width]``, or None.

        Returns:
            What the blocks attend to, and the view of the input from each query ``[B, N, width]``.
        """
        coefficients = self.spectrum(samples)
        points, values, blocked = samples.points, standardised(self.entry, samples), None
        if self.entry.smooth:
            points = self.spectrum.lattice(points)
            values = self.spectrum.basis(points) @ coefficients
        elif samples.mask is not None:
            points = points.masked_fill(~samples.mask[..., None], self.axes[0].low)
            blocked = BLOCKED * (~samples.mask).to(values.dtype)[:, None, None]
        columns = [values, self.spectrum.features(coefficients, points)]
        if self.fixed:
            here = torch.cat([points[..., i : i + 1] for i in self.fixed], -1)
            known = marks(here, [self.axes[i] for i in self.fixed], self.frequencies)
            columns.append(known.expand(len(values), -1, -1))
        tokens = self.embed(torch.cat(columns, -1))
        tokens = tokens if condition is None else tokens + condition
        tokens = torch.tanh(self.mix(torch.tanh(tokens)))
        angle = angles(torch.cat([queries[..., i : i + 1] for i in self.columns], -1), self.axes)
        view = self.view(coefficients, *harmonics(angle, self.spectrum.waves))
        at_sensors = harmonics(angles(points, self.axes), self.relative)
        return Seen(tokens, harmonics(angle, self.relative), at_sensors, blocked), view


class PITBlock(nn.Module):
    """z + attention, then z + perceptron.

    The paper's eq. 6 feeds the sum of skip and attention to one perceptron; two residual steps are
    what transformers do today. There is no layer norm: two blocks train without, and it would cost
    every stream two reductions.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PITConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                entry.name: RelativeAttention(
                    config.width, len(entry.of), config.heads, config.content, config.harmonics
                )
                for entry in signature.functions
            }
        )
        self.perceptron = nn.Sequential(
            nn.Linear(config.width, config.expansion * config.width),
            nn.Tanh(),
            nn.Linear(config.expansion * config.width, config.width),
        )

    def forward(self, state: Tensor, seen: Mapping[str, Seen]) -> Tensor:
        """Update the state of the queries ``[B, N, width]``."""
        found = state
        for name, attend in self.attention.items():
            source = seen[name]
            found = found + attend(
                state, source.tokens, source.at_queries, source.at_sensors, source.blocked
            )
        return found + self.perceptron(found)
