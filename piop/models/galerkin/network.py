"""The Fourier and Galerkin transformers: self-attention over all points of a grid.

S. Cao, *Choose a Transformer: Fourier or Galerkin*, NeurIPS 2021, arXiv:2105.14995; what its text
leaves open from github.com/scaomath/galerkin-transformer, revision f9e7d6a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.fields import tensor_grid
from piop.models.core.base import Inputs, Signature
from piop.models.core.coordinates import coordinate_features, take_columns
from piop.models.core.grid import GridBackbone
from piop.models.core.interpolation import even_ticks
from piop.models.core.spectral_convolution import FourierTransform, TransformAxis
from piop.models.galerkin.attention import EncoderLayer, GalerkinConfig
from piop.models.galerkin.layers import (
    CONVOLUTIONS,
    Down,
    TokenDecoder,
    Up,
    middle_count,
    quadrature_weights,
    with_coordinates,
)

PADDING = 0.25
"""Length added beyond walls for the spectral decoder, as a fraction of the axis."""

FEWEST_POINTS = {1: 32, 2: 32, 3: 16}
"""Points per axis of the network's own grid where no decoder needs more, by its axes."""

MODES = {1: 16, 2: 6, 3: 4}
"""Wave numbers the spectral decoder keeps by default, by the axes of space."""


class GridTransformer(GridBackbone):
    """Interpolates inputs to every point, lets all points attend to each other, decodes.

    Where no convolution is used the tokens are the requested points, on a grid or scattered. The
    spectral decoder needs a grid that resolves its harmonics, the interpolation CNN one of its own;
    elsewhere outputs are interpolated from there.

    Published networks undo the normalisation of the output before they return, and the loss is in
    physical units; here outputs are dimensionless and the operator around the network scales them,
    for every backbone alike.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    def __init__(self, signature: Signature, config: GalerkinConfig) -> None:
        super().__init__(signature, config)
        width, form = config.width, config.form
        self.frequencies = 0 if form.raw else form.frequencies
        self.space = tuple(i for i, c in enumerate(self.columns) if c != signature.time)
        self.spectral = config.decoder == "spectral" and bool(self.space)
        self.scattered = not self.spectral and not config.coarse
        self.periodic = not form.raw
        count = self._coordinates([torch.zeros(1)] * len(self.axes)).shape[-1]
        features = self.inputs.features + (count if form.places == "inputs" else 0)
        if config.coarse:
            # SiLU, but ReLU for inputs with jumps (App. B).
            rough = any(not entry.smooth for entry in signature.functions)
            activation = functional.relu if rough else functional.silu
            sizes = middle_count(config.fine, config.coarse), config.coarse
            self.down = Down(features, width, self.axes, sizes, activation)
            wanted = self.resolution(0)
            ends = middle_count(config.coarse, wanted), wanted
            self.up = Up(width, self.axes, ends)
        else:
            self.entry = nn.Linear(features, width)
        self.layers = nn.ModuleList(EncoderLayer(config, count) for _ in range(config.blocks))
        again, channels = count if form.places == "decoder" else 0, signature.channels
        if self.spectral:
            self.waves = config.modes or MODES[min(len(self.space), 3)]
            self.modes = (*[2 * self.waves] * (len(self.space) - 1), self.waves)
            sizes = form.latent, again, self.modes, form.projection
            self.decoder = TokenDecoder(width, *sizes, channels)
        else:
            self.decoder = TokenDecoder(width, width, again, (), width, channels)

    @classmethod
    def refusal(cls, signature: Signature, config: GalerkinConfig) -> str | None:
        """See :meth:`GridBackbone.refusal`."""
        columns = cls.grid_columns(signature)
        if not columns:
            return "its grid is that of space, and the problem has the time alone"
        if config.coarse and len(columns) not in CONVOLUTIONS:
            return f"its CNN has up to {max(CONVOLUTIONS)} axes, not {len(columns)}"
        if config.form.places != "inputs" and not signature.inputs:
            return "its tokens are inputs alone, and the problem has none"
        return super().refusal(signature, config)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Take the queries as tokens, or interpolate: see :meth:`Backbone.forward`.

        Each query has the quadrature weight 1/N, so queries should cover the domain evenly: the
        output at one depends on the others.
        """
        if not self.scattered:
            return super().forward(inputs, queries)
        self.check(inputs, queries)
        points = take_columns(queries, self.columns)
        coordinates = coordinate_features(points, self.axes, self.frequencies)
        known = self.inputs.at(inputs, queries)
        weights = known.new_full((queries.shape[1],), 1 / queries.shape[1])
        state = self.entry(self._features(known, coordinates))
        state = self._encoded(state, coordinates, weights)
        return self._on_walls(self.decoder(state, coordinates), points)

    def evaluate(self, inputs: Inputs, ticks: Sequence[Tensor]) -> Tensor:
        """Apply the layers: see :meth:`GridBackbone.evaluate`."""
        coarse, tokens, known_at = self.config.coarse, ticks, ticks
        if coarse:
            tokens, known_at = (
                [even_ticks(axis, count, ticks[0]) for axis in self.axes]
                for count in (coarse, self.config.fine)
            )
        embed = self.down if coarse else self.entry
        coordinates = self._coordinates(tokens)
        beside = self._coordinates(known_at) if coarse else coordinates
        state = embed(self._features(self.inputs(inputs, known_at), beside))
        grid = state.shape[1:-1]
        state = self._encoded(
            state.flatten(1, -2),
            coordinates.flatten(1, -2),
            quadrature_weights(tokens, self.axes, self.config.form.raw),
        )
        state = state.unflatten(1, grid)
        if coarse:
            state, coordinates = self.up(state), self._coordinates(ticks)
        return self._on_walls(self._decoded(state, coordinates, ticks), tensor_grid(ticks)[None])

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the biases that cancel in a softmax: see :meth:`Backbone.unused_parameters`."""
        if self.config.attention not in ("softmax", "linear"):
            return {}
        part = "norms.key.bias" if self.config.norm == "heads" else "key.bias"
        return {f"layers.*.attention.{part}": "adds the same to all tokens under a softmax"}

    def resolution(self, axis: int) -> int:
        """Points of the network's own grid: see :meth:`GridBackbone.resolution`."""
        if self.config.coarse:
            return self.config.fine if self.spectral else self.config.coarse
        least = FEWEST_POINTS[min(len(self.axes), 3)]
        count = max(4 * self.waves, least) if self._convolved(axis) else least
        return count if self.axes[axis].periodic else count + 1

    def resolves(self, axis: int, count: int) -> bool:
        """Whether tokens are the requested points: see :meth:`GridBackbone.resolves`."""
        if self.config.coarse:
            return False
        return not self._convolved(axis) or count > 2 * self.waves

    def _convolved(self, axis: int) -> bool:
        return self.spectral and axis in self.space

    def _features(self, values: Tensor, coordinates: Tensor) -> Tensor:
        """Join what is embedded: inputs, and coordinates where the form has them there."""
        joined = self.config.form.places == "inputs"
        return with_coordinates(values, coordinates) if joined else values

    def _encoded(self, state: Tensor, coordinates: Tensor, weights: Tensor) -> Tensor:
        for layer in self.layers:
            state = layer(state, coordinates, weights)
        return state

    def _decoded(self, state: Tensor, coordinates: Tensor, ticks: Sequence[Tensor]) -> Tensor:
        """Decode along space, each time by itself."""
        if not self.spectral:
            return self.decoder(state, coordinates)
        padding = 0.0 if self.config.form.raw else PADDING
        axes = [TransformAxis.along(self.axes[i], ticks[i], padding) for i in self.space]
        transform = FourierTransform(axes, self.modes, state)
        if len(self.space) == len(self.axes):
            return self.decoder(state, coordinates, transform)
        at = next(i for i in range(len(self.axes)) if i not in self.space)
        coordinates = coordinates.expand(state.shape[0], *coordinates.shape[1:])
        rows = [part.movedim(at + 1, 1) for part in (state, coordinates)]
        found = self.decoder(*(row.flatten(0, 1) for row in rows), transform)
        return found.unflatten(0, rows[0].shape[:2]).movedim(1, at + 1)

    def _coordinates(self, ticks: Sequence[Tensor]) -> Tensor:
        """Coordinates of a grid as features: ``[1, n_1, …, n_D, p]``."""
        known = coordinate_features(tensor_grid(ticks)[None], self.axes, self.frequencies)
        return known.unflatten(1, [len(tick) for tick in ticks])

    def _on_walls(self, values: Tensor, points: Tensor) -> Tensor:
        """Set outputs to zero on walls where the form requires it.

        Args:
            values: ``[B, n_1, …, n_D, C]`` or ``[B, N, C]``.
            points: ``[1 or B, N, D]``.
        """
        if not self.config.form.dirichlet:
            return values
        inside = torch.ones_like(points[..., 0])
        for i in self.space:
            axis = self.axes[i]
            scaled = (points[..., i] - axis.low) / (axis.high - axis.low)
            if not axis.periodic:
                inside = inside * ((scaled > WALL_TOLERANCE) & (scaled < 1 - WALL_TOLERANCE))
        return values * inside.reshape(points.shape[0], *values.shape[1:-1], 1)


WALL_TOLERANCE = 1e-5
"""Fraction of an axis within which a point lies on its wall."""


@final
class GalerkinTransformer(GridTransformer):
    """On the grid of all coordinates, the time among them."""


@final
class FinalGalerkinTransformer(GridTransformer):
    """On the grid of space: from the inputs to the state at the end of the time axis."""

    end_only = True
