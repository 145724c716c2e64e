"""The position-induced transformer as published: mesh to mesh through a latent mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.base import (
    GRID_FIELD,
    AxisSignature,
    Backbone,
    Inputs,
    InputSignature,
    Signature,
    require_choices,
    scalar_values,
    standardised,
)
from piop.models.core.coordinates import cell_grid, largest_squared_distance, squared_distances
from piop.models.position_attention.attention import SHARPNESS, PositionAttention, within_quantile

CHOICES = {
    "placement": ("pooling", "sampling", "farthest"),
    "sharpness": tuple(SHARPNESS),
    "ends": ("plain", "block", "residual"),
}


@dataclass(frozen=True)
class MeshPositionConfig:
    """Sizes and choices of a published PiT, dimensionless.

    Attributes:
        width: d_v, features of a point.
        heads: H of each attention.
        blocks: L, modules of the processor.
        latent: Points of the latent mesh along each axis; the last serves all further axes.
        placement: ``pooling`` lays them evenly, ``sampling`` draws them at random once, for good,
            ``farthest`` picks them from the sensors.
        local: Quantiles of the attention into and out of the latent mesh; 1 is global.
        scaled: Whether squared distances are divided by the largest there is.
        sharpness: Map from parameters to λ: ``square``, ``tangent`` or ``sine_tangent``.
        ends: ``plain``; ``block``: one more module, local, on the mesh of the output; ``residual``:
            encoder and decoder are such modules and the latent mesh is that of the output (not in
            table 9, but its count for elasticity needs it).
        content: Whether modules add self-attention's scores (Self-PiT, eq. 12).
    """

    width: int = 64
    heads: int = 2
    blocks: int = 4
    latent: tuple[int, ...] = (32,)
    placement: str = "pooling"
    local: tuple[float, float] = (0.02, 0.05)
    scaled: bool = True
    sharpness: str = "tangent"
    ends: str = "plain"
    content: bool = False

    def __post_init__(self) -> None:
        require_choices(self, CHOICES)
        if len(self.local) != 2 or not all(0 < q <= 1 for q in self.local):
            raise UsageError(f"local = {self.local!r}: give two quantiles in (0, 1]")
        if self.width % self.heads:
            raise UsageError(f"width = {self.width}: give a multiple of heads = {self.heads}")


@dataclass(frozen=True)
class PointMesh:
    """Points of a mesh, and which are real.

    Attributes:
        points: ``[B or 1, M, d]``, physical.
        axes: The d axes.
        mask: ``[B, M]``; all if None.
    """

    points: Tensor
    axes: tuple[AxisSignature, ...]
    mask: Tensor | None = None

    def along(self, axes: Sequence[AxisSignature]) -> Tensor:
        """Take the columns of some of the axes."""
        return self.points[..., [self.axes.index(axis) for axis in axes]]


@final
class MeshPositionAttention(Backbone):
    """Encoder, processor and decoder of position-attention between meshes.

    Functions are lifted at their own sensors, beside the scalars, and attended down to the latent
    mesh; a problem without functions lifts the scalars on the mesh of the output instead, as the
    paper does for elasticity. Distances count the axes of space that two meshes share; the time of
    a sensor is a feature. Outputs are at the end of the time axis, whatever the time of a query.

    Masks depend on the meshes alone: for meshes that all samples share they are computed once.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    field = GRID_FIELD
    end_only = True
    periodic = False  # coordinates are features as they stand
    drawn: Tensor

    def __init__(self, signature: Signature, config: MeshPositionConfig) -> None:
        super().__init__(signature, config)
        self.space = tuple(signature.coordinates[i] for i in signature.space_columns)
        self.counts = (*config.latent, *config.latent[-1:] * len(self.space))[: len(self.space)]
        self.context_points = math.prod(self.counts)
        if config.placement == "sampling":
            drawn = random_points(self.space, self.context_points, torch.zeros(()))
            self.register_buffer("drawn", drawn)
        scalars = signature.scalar_channels
        self.lifts, self.downs = nn.ModuleDict(), nn.ModuleDict()
        for entry in signature.functions:
            features = len(entry.of) + entry.channels + scalars
            self.lifts[entry.name] = lecun_linear(features, config.width)
            self.downs[entry.name] = attention_of(config)
        residual = config.ends == "residual"
        if residual or not signature.functions:
            self.lift = lecun_linear(len(self.space) + scalars, config.width)
            self.into = PositionModule(config) if residual else attention_of(config)
        self.processor = nn.ModuleList(
            PositionModule(config, config.content) for _ in range(config.blocks)
        )
        self.out = PositionModule(config) if residual else attention_of(config)
        self.last = PositionModule(config, config.content) if config.ends == "block" else None
        self.decoder = lecun_perceptron(config.width, config.width, signature.channels)

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """See :meth:`Backbone.refusal`."""
        if signature.time is not None and len(signature.coordinates) == 1:
            return "its attention is between points in space, and the problem has no axis of space"
        return None

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        answer = PointMesh(queries[..., self.signature.space_columns], self.space)
        residual = self.config.ends == "residual"
        latent = answer if residual else self._latent(inputs, answer)
        state = self._encoded(inputs, answer, latent)
        whole = self._distances(latent, latent, 1.0)
        for module in self.processor:
            state = module(state, *whole)
        quantile = self.config.local[1]
        state = self.out(state, *self._distances(answer, latent, quantile))
        state = state if residual else F.gelu(state)
        if self.last is not None:
            state = self.last(state, *self._distances(answer, answer, quantile))
        return self.decoder(state)

    def _encoded(self, inputs: Inputs, answer: PointMesh, latent: PointMesh) -> Tensor:
        """Encode all inputs on the latent mesh: ``[B, L, width]``."""
        quantile, state = self.config.local[0], cast(Any, 0.0)
        for entry in self.signature.functions:
            mesh, values = self._mesh(entry, inputs), standardised(entry, inputs[entry.name])
            lifted = F.gelu(self.lifts[entry.name](self._features(mesh, inputs, values)))
            down = self.downs[entry.name]
            state = state + F.gelu(down(lifted, *self._distances(latent, mesh, quantile)))
        if self.config.ends == "residual":
            lifted = self.lift(self._features(answer, inputs)) + state
            return self.into(lifted, *self._distances(latent, answer, quantile))
        if not self.signature.functions:
            lifted = F.gelu(self.lift(self._features(answer, inputs)))
            return F.gelu(self.into(lifted, *self._distances(latent, answer, quantile)))
        return state

    def _features(self, mesh: PointMesh, inputs: Inputs, values: Tensor | None = None) -> Tensor:
        """Coordinates from 0 to 1, values, and the scalars at every point: ``[B, M, features]``."""
        low = mesh.points.new_tensor([axis.low for axis in mesh.axes])
        length = mesh.points.new_tensor([axis.high - axis.low for axis in mesh.axes])
        count = mesh.points.shape[1]
        columns = [(mesh.points - low) / length, *([] if values is None else [values])]
        columns += [v.expand(-1, count, -1) for v in scalar_values(self.signature, inputs)]
        batch = max(map(len, columns))
        return torch.cat([column.expand(batch, -1, -1) for column in columns], -1)

    def _mesh(self, entry: InputSignature, inputs: Inputs) -> PointMesh:
        """Sensors of a function; masked ones are moved to one that is real."""
        points, mask = inputs[entry.name].points, inputs[entry.name].mask
        axes = self.signature.axes_of(entry)
        if mask is None:
            return PointMesh(inputs[entry.name].distinct_points, axes)
        first = mask.to(torch.uint8).argmax(-1)[:, None, None].expand(-1, 1, points.shape[-1])
        moved = torch.where(mask[..., None], points, points.gather(1, first))
        return PointMesh(moved, axes, mask)

    def _latent(self, inputs: Inputs, answer: PointMesh) -> PointMesh:
        """Return the latent mesh: even, random, or from sensors of a function of all space."""
        if self.config.placement == "pooling":
            return PointMesh(cell_grid(self.space, self.counts, answer.points), self.space)
        if self.config.placement == "sampling":
            return PointMesh(self.drawn.to(answer.points.dtype), self.space)
        names = {axis.name for axis in self.space}
        whole = (e for e in self.signature.functions if names <= set(e.of))
        mesh = next((self._mesh(entry, inputs) for entry in whole), answer)
        chosen = farthest_points(mesh.along(self.space), math.prod(self.counts), self.space)
        if mesh.mask is None:
            return PointMesh(chosen, self.space)
        rank = torch.arange(chosen.shape[1], device=chosen.device)
        return PointMesh(chosen, self.space, rank < mesh.mask.sum(-1, keepdim=True))

    def _distances(
        self, to: PointMesh, of: PointMesh, quantile: float
    ) -> tuple[Tensor, Tensor | None]:
        """Scaled squared distances ``[B or 1, N, M]``, and which are kept, or None for all."""
        shared = [axis for axis in to.axes if axis in of.axes]
        squares = squared_distances(to.along(shared), of.along(shared), shared)
        if quantile < 1:
            kept = within_quantile(squares, quantile, of.mask)
        else:
            kept = None if of.mask is None else of.mask[:, None]
        return squares / largest_squared_distance(shared) if self.config.scaled else squares, kept


class PositionModule(nn.Module):
    """U ← σ(MLP(σ(PosAtt(U))) + U W), σ the GELU (sec. 2.3).

    Args:
        config: Sizes and choices.
        content: Whether scores add those of self-attention.
    """

    def __init__(self, config: MeshPositionConfig, content: bool = False) -> None:
        super().__init__()
        self.attention = attention_of(config, content)
        self.perceptron = lecun_perceptron(config.width, config.width, config.width)
        self.skip = lecun_linear(config.width, config.width)

    def forward(self, state: Tensor, squares: Tensor, kept: Tensor | None) -> Tensor:
        """Update ``[B, M, width]``."""
        found = F.gelu(self.attention(state, squares, kept))
        return F.gelu(self.perceptron(found) + self.skip(state))


def attention_of(config: MeshPositionConfig, content: bool = False) -> PositionAttention:
    """Make an attention of the config's sizes."""
    return PositionAttention(config.width, config.width, config.heads, config.sharpness, content)


def lecun_perceptron(features: int, hidden: int, outputs: int) -> nn.Sequential:
    """Stack two linear layers with a GELU between them."""
    return nn.Sequential(lecun_linear(features, hidden), nn.GELU(), lecun_linear(hidden, outputs))


def lecun_linear(features: int, outputs: int) -> nn.Linear:
    """Make a layer as the authors' code at the paper's time: LeCun's normal weights, zero bias.

    (Since 2024-07-08 it takes He's, √2 wider: an output before training then grows to some 80.)
    """
    layer = nn.Linear(features, outputs)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
    nn.init.zeros_(layer.bias)
    return layer


def random_points(axes: tuple[AxisSignature, ...], count: int, like: Tensor) -> Tensor:
    """Draw uniform random points from torch's generator: ``[1, count, d]``."""
    unit = torch.rand(1, count, len(axes), dtype=like.dtype, device=like.device)
    low = unit.new_tensor([axis.low for axis in axes])
    return low + unit * unit.new_tensor([axis.high - axis.low for axis in axes])


def farthest_points(points: Tensor, count: int, axes: tuple[AxisSignature, ...]) -> Tensor:
    """Choose points greedily, each as far as can be from those chosen (farthest point sampling).

    The first is the one nearest to the middle of the box, so that the order of the points does not
    matter. Keeps the density of a cloud roughly, and its outline.

    Args:
        points: ``[B, M, d]``; masked ones repeat real ones, and are chosen last.
        count: How many; all M at most.
        axes: The d axes.

    Returns:
        ``[B, min(count, M), d]``.
    """
    middle = points.new_tensor([[[0.5 * (axis.low + axis.high) for axis in axes]]])
    index = squared_distances(middle, points, axes)[:, 0].argmin(-1)
    nearest = points.new_full(points.shape[:2], torch.inf)
    chosen = []
    for _ in range(min(count, points.shape[1])):
        latest = points.gather(1, index[:, None, None].expand(-1, 1, points.shape[-1]))
        chosen.append(latest)
        nearest = torch.minimum(nearest, squared_distances(latest, points, axes)[:, 0])
        index = nearest.argmax(-1)
    return torch.cat(chosen, 1)
