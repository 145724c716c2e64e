"""The OFormer paper's networks for benchmarks on meshes: electro- and magnetostatics, airfoil.

The queries are nodes of a mesh and attend among themselves once, so all are evaluated jointly.
Inputs with jumps label nodes (boundary, kind of node); queries take them from the nearest sensor.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from piop.models.core.attention import AttentionContext
from piop.models.core.base import GRID_FIELD, ROLLOUT_FIELD, Inputs, Signature
from piop.models.core.rollout import RolloutBackbone
from piop.models.oformer.network import Gate, rotary_embeddings
from piop.models.oformer.nodes import SensorNodes
from piop.models.oformer.published import PublishedOFormer, PublishedOFormerConfig, unbiased_mlp

FRAMES = 4
"""Past frames of the airfoil's flow. The authors' first layer takes the coordinates with each of
them, so four weights act as their sum where one would do; kept for the count of parameters.
"""


class MeshOFormer(PublishedOFormer):
    """Labels of nodes, and attention among the queries, which the networks on meshes share.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    field = GRID_FIELD
    labelled = True
    mesh_rate: ClassVar[float] = 1
    """Rate of the attention among queries over ``cross_rate``."""

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        latent = config.latent
        self.mix = self.linear_attention(latent, 1).start_near_identity()
        rate = self.mesh_rate * config.cross_rate
        self.mix_rotary = rotary_embeddings(latent, self.space, rate)

    def mixed(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Encode queries and let them attend to each other: ``[B, N, latent]``."""
        state = self.encode(inputs, queries)
        at = self.reader.at_queries(queries, self.mix_rotary)
        return state + self.mix(state, AttentionContext(state, at, at, None))


@final
class StaticsOFormer(MeshOFormer):
    """The network for electrostatics and magnetostatics: a potential, then its field.

    Args:
        signature: The problem's shapes and scales; the potential is the first channel.
        config: Sizes.
    """

    normed = False
    affine = True
    timed = True
    mesh_rate = 4
    gate: ClassVar[Gate] = "relu"

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        width, latent, labels = config.width, config.latent, self.reader.labels
        features = self.reader.values + labels + len(self.reader.axes)
        self.embed = unbiased_mlp(features, width, width, activation=nn.ReLU)
        self.out = unbiased_mlp(width, width, latent, activation=nn.ReLU)
        self.place = unbiased_mlp(len(self.columns) + labels, latent, latent, latent)
        self.first = nn.Linear(latent, latent, bias=False)
        self.here = nn.Linear(labels, latent, bias=False)
        self.last = nn.Linear(latent, latent, bias=False)
        split = (1, signature.channels - 1) if signature.channels > 1 else (1,)
        self.heads = nn.ModuleList(
            unbiased_mlp(latent, latent, c, activation=nn.ReLU, bias=True) for c in split
        )

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`PublishedOFormer.tokens`."""
        labels = nodes.labels.expand(len(nodes.values), -1, -1)
        return self.embed(torch.cat([nodes.values, labels, nodes.points], -1))

    def encode_queries(self, inputs: Inputs, queries: Any) -> Any:
        """See :meth:`PublishedOFormer.encode_queries`."""
        labels = self.reader.labels_at(inputs, queries)
        points = self.scaled_queries(queries).expand(len(labels), -1, -1)
        return self.place(torch.cat([points, labels], -1))

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        here = self.here(self.reader.labels_at(inputs, queries))
        state = self.last(torch.relu(self.first(self.mixed(inputs, queries)) + here))
        return torch.cat([head(state) for head in self.heads], -1)


@final
class AirfoilOFormer(MeshOFormer, RolloutBackbone):
    """The network for the flow around airfoils: a rollout, with the kind of each node.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    field = ROLLOUT_FIELD

    def __init__(self, signature: Signature, config: PublishedOFormerConfig) -> None:
        super().__init__(signature, config)
        width, latent, labels = config.width, config.latent, self.reader.labels
        wide = 2 * latent
        self.embed = unbiased_mlp(self.reader.values + FRAMES * len(self.reader.axes), width, width)
        self.kinds = nn.Linear(labels, width, bias=False)
        self.combine = nn.Linear(2 * width, width, bias=False)
        out = unbiased_mlp(width, width, latent, activation=nn.ReLU)
        self.out = nn.Sequential(nn.LayerNorm(width), *out)
        self.place = self.random_mlp(latent // 2, latent, latent)
        self.query_kinds = nn.Linear(labels, latent, bias=False)
        self.query_combine = nn.Linear(2 * latent, latent, bias=False)
        self.expand = nn.Linear(latent, wide, bias=False)
        self.norm = nn.LayerNorm(wide)
        self.first = nn.Linear(wide, wide, bias=False)
        self.here = nn.Linear(latent + len(self.columns), wide, bias=False)
        self.rest = nn.Sequential(nn.GELU(), *unbiased_mlp(wide, wide, wide, wide))
        self.read_state = nn.Sequential(nn.LayerNorm(wide), nn.Linear(wide, wide, bias=False))
        self.read_kind = nn.Linear(latent, wide, bias=False)
        sizes = wide, latent, signature.channels
        decoder = unbiased_mlp(*sizes, activation=nn.ReLU, bias=True)
        self.decoder = nn.Sequential(nn.ReLU(), *decoder)

    def tokens(self, nodes: SensorNodes) -> Tensor:
        """See :meth:`PublishedOFormer.tokens`."""
        points = nodes.points.repeat(1, 1, FRAMES)
        found = self.embed(torch.cat([nodes.values, points], -1))
        kinds = self.kinds(nodes.labels).expand(len(found), -1, -1)
        return self.combine(torch.cat([found, kinds], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`PublishedOFormer.project`."""
        return self.out(tokens + embedded)

    def encode_queries(self, inputs: Inputs, queries: Any) -> Any:
        """See :meth:`PublishedOFormer.encode_queries`."""
        kinds = self.query_kinds(self.reader.labels_at(inputs, queries))
        encoded = super().encode_queries(inputs, queries).expand(len(kinds), -1, -1)
        return self.query_combine(torch.cat([encoded, kinds], -1))

    def begin(self, inputs: Inputs, queries: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`RolloutBackbone.begin`; the part of a node's kind is computed once."""
        self.check(inputs, queries)
        kinds = self.query_kinds(self.reader.labels_at(inputs, queries))
        points = self.scaled_queries(queries).expand(len(kinds), -1, -1)
        context = self.here(torch.cat([kinds, points], -1)), self.read_kind(kinds)
        return self.expand(self.mixed(inputs, queries)), context

    def advance(self, state: Tensor, context: Any) -> Tensor:
        """See :meth:`RolloutBackbone.advance`."""
        return state + self.rest(self.first(self.norm(state)) + context[0])

    def decode(self, state: Tensor, context: Any) -> Tensor:
        """See :meth:`RolloutBackbone.decode`."""
        return self.decoder(self.read_state(state) + context[1])
