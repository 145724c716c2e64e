"""PIT: the physics-informed transformer, queries attending to sensors and never to each other.

F. Dos Santos, T. Akhound-Sadegh, S. Ravanbakhsh, *Physics-Informed Transformer Networks*, NeurIPS
2023 workshop "The Symbiosis of Deep Learning and Differential Equations III". The network of the
paper is in ``pit_paper.py``; this one keeps its idea and makes position relative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Signature, standardised
from piop.models.core.coordinates import absolute_axes, coordinate_features
from piop.models.core.relative_attention import ROTATED_VALUES, RelativeAttention
from piop.models.core.sensor_encoder import AttentionContext, GatedSkip, SensorEncoder


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
        if self.harmonics < ROTATED_VALUES:
            raise UsageError(f"harmonics = {self.harmonics}: give at least {ROTATED_VALUES}")


@final
class PIT(Backbone):
    """The default PIT.

    Where it leaves the paper, and why (``docs/models.md``):

    - Position is relative along homogeneous axes, so one function teaches all its shifts.
    - Queries start from the input as seen from where they are (:class:`HarmonicView`), not from
      their coordinates alone.
    - Views times functions of the time go straight to the answer (:class:`GatedSkip`): what a
      linear equation does to a harmonic, which perceptrons are slow to learn.
    - A smooth input is evaluated from its harmonic fit on an even grid (:class:`SensorEncoder`), so
      that scattered sensors need not be learned.
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
            GatedSkip(marks, width, signature.channels) if signature.functions else None
        )
        self.sensors = nn.ModuleDict(
            {
                entry.name: SensorEncoder(
                    signature, entry, width, config.harmonics, config.frequencies
                )
                for entry in signature.functions
            }
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
        seen: dict[str, AttentionContext] = {}
        views: Any = 0.0
        for entry in self.signature.functions:
            sensors: SensorEncoder = self.sensors[entry.name]  # type: ignore[assignment]
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
        return coordinate_features(columns, axes, self.config.frequencies)


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

    def forward(self, state: Tensor, seen: Mapping[str, AttentionContext]) -> Tensor:
        """Update the state of the queries ``[B, N, width]``."""
        found = state
        for name, attend in self.attention.items():
            source = seen[name]
            found = found + attend(
                state, source.tokens, source.at_queries, source.at_sensors, source.blocked
            )
        return found + self.perceptron(found)
