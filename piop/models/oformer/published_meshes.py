"""The networks of the paper's benchmarks on meshes: electro- and magnetostatics, airfoil.

The queries are nodes of a mesh and attend among themselves once, so all are answered together.
Inputs with jumps mark nodes (boundary, kind of node); the queries know them by the nearest sensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import GRID_FIELD, ROLLOUT_FIELD, Signature
from piop.models.core.rollout import RolloutBackbone, rollout_refusal
from piop.models.oformer.layers import Gate, rotary_frequencies, scaled_to_unit
from piop.models.oformer.nodes import SensorNodes
from piop.models.oformer.published import (
    PublishedOFormer,
    PublishedOFormerConfig,
    space_columns,
    unbiased_perceptron,
)

STATICS_MESH_RATE = 4
"""Rate of the attention among queries over ``cross_rate``, electro- and magnetostatics."""

FRAMES = 4
"""Past frames of the airfoil's flow. The authors' first layer reads the coordinates with each of
them, so four weights act as their sum where one would do; kept for the count.
"""


class MeshOFormer(PublishedOFormer):
    """What the networks on meshes share: marks, and attention among the queries.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
        columns: Coordinates that the query encoder reads.
        mix: Rate of the attention among the queries.
    """

    field = GRID_FIELD
    apart = True

    mix_waves: Tensor

    def __init__(
        self, signature: Signature, config: PublishedOFormerConfig, columns: list[int], mix: float
    ) -> None:
        super().__init__(signature, config, columns)
        latent = config.latent
        self.mix = self._attend(latent, 1, latent)
        self.mix.start_near_identity()
        waves = rotary_frequencies(latent, self.space, mix)
        self.register_buffer("mix_waves", waves, persistent=False)

    def mixed(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Encode queries and let them attend to each other: ``[B, N, latent]``."""
        state = self.encode(inputs, queries)
        at = self.reader.turns(queries, self.mix_waves)
        return state + self.mix(state, state, at, at)


@final
class StaticsOFormer(MeshOFormer):
    """The network for electrostatics and magnetostatics: a potential, then its field.

    Args:
        signature: The problem's shapes and scales; the potential is the first channel.
        config: Sizes.
    """

    normed = False
    affine = True
    gate: ClassVar[Gate] = "relu"

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        columns = list(range(len(signature.coordinates)))
        super().__init__(signature, config, columns, STATICS_MESH_RATE * config.cross_rate)
        width, latent, marks = config.width, config.latent, self.reader.marks
        features = self.reader.values + marks + len(self.reader.axes)
        self.embed = unbiased_perceptron(features, width, width, activation=nn.ReLU)
        self.out = unbiased_perceptron(width, width, latent, activation=nn.ReLU)
        self.place = unbiased_perceptron(len(columns) + marks, latent, latent, latent)
        self.first = nn.Linear(latent, latent, bias=False)
        self.here = nn.Linear(marks, latent, bias=False)
        self.last = nn.Linear(latent, latent, bias=False)
        split = (1, signature.channels - 1) if signature.channels > 1 else (1,)
        self.heads = nn.ModuleList(
            unbiased_perceptron(latent, latent, c, activation=nn.ReLU, bias=True) for c in split
        )

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`Published.tokens`."""
        marks = nodes.marks.expand(len(nodes.values), -1, -1)
        return self.embed(torch.cat([nodes.values, marks, nodes.places], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`Published.project`."""
        return self.out(tokens)

    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """See :meth:`Published.starts`."""
        marks = self.reader.marks_at(inputs, queries)
        places = scaled_to_unit(queries, self.signature.coordinates).expand(len(marks), -1, -1)
        return self.place(torch.cat([places, marks], -1))

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        here = self.here(self.reader.marks_at(inputs, queries))
        state = self.last(torch.relu(self.first(self.mixed(inputs, queries)) + here))
        return torch.cat([head(state) for head in self.heads], -1)


@final
class AirfoilOFormer(MeshOFormer, RolloutBackbone):
    """The network for the flow round airfoils: marching, with the kind of each node.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    field = ROLLOUT_FIELD

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config, space_columns(signature), config.cross_rate)
        width, latent, marks = config.width, config.latent, self.reader.marks
        wide = 2 * latent
        self.embed = unbiased_perceptron(
            self.reader.values + FRAMES * len(self.reader.axes), width, width
        )
        self.kinds = nn.Linear(marks, width, bias=False)
        self.combine = nn.Linear(2 * width, width, bias=False)
        self.out = nn.Sequential(
            nn.LayerNorm(width), *unbiased_perceptron(width, width, latent, activation=nn.ReLU)
        )
        self.place = nn.Sequential(
            self.random(latent // 2), *unbiased_perceptron(2 * (latent // 2), latent, latent)
        )
        self.query_kinds = nn.Linear(marks, latent, bias=False)
        self.query_combine = nn.Linear(2 * latent, latent, bias=False)
        self.expand = nn.Linear(latent, wide, bias=False)
        self.norm = nn.LayerNorm(wide)
        self.first = nn.Linear(wide, wide, bias=False)
        self.here = nn.Linear(latent + len(self.columns), wide, bias=False)
        self.rest = nn.Sequential(nn.GELU(), *unbiased_perceptron(wide, wide, wide, wide))
        self.read_state = nn.Sequential(nn.LayerNorm(wide), nn.Linear(wide, wide, bias=False))
        self.read_kind = nn.Linear(latent, wide, bias=False)
        self.decoder = nn.Sequential(
            nn.ReLU(),
            *unbiased_perceptron(wide, latent, signature.channels, activation=nn.ReLU, bias=True),
        )

    @classmethod
    def refusal(cls, signature: Signature, config: PublishedOFormerConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return rollout_refusal(signature) or super().refusal(signature, config)

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`Published.tokens`."""
        places = nodes.places.repeat(1, 1, FRAMES)
        found = self.embed(torch.cat([nodes.values, places], -1))
        kinds = self.kinds(nodes.marks).expand(len(found), -1, -1)
        return self.combine(torch.cat([found, kinds], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`Published.project`."""
        return self.out(tokens + embedded)

    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """See :meth:`Published.starts`."""
        kinds = self.query_kinds(self.reader.marks_at(inputs, queries))
        places = self.place(self.read(queries)).expand(len(kinds), -1, -1)
        return self.query_combine(torch.cat([places, kinds], -1))

    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`Marching.begin`; what the kind of a node says is computed once."""
        self.check(inputs, places)
        kinds = self.query_kinds(self.reader.marks_at(inputs, places))
        axes = [self.signature.coordinates[i] for i in self.columns]
        here = scaled_to_unit(self.read(places), axes).expand(len(kinds), -1, -1)
        known = self.here(torch.cat([kinds, here], -1)), self.read_kind(kinds)
        return self.expand(self.mixed(inputs, places)), known

    def advance(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.advance`."""
        return state + self.rest(self.first(self.norm(state)) + known[0])

    def decode(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.decode`."""
        return self.decoder(self.read_state(state) + known[1])
