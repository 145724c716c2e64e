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

from piop.fields import FunctionSamples
from piop.models.core.base import Signature
from piop.models.core.grid import GridBackbone, GridInputs, at_points
from piop.models.core.interpolation import even_ticks
from piop.models.core.spectral import Ticks, Transform
from piop.models.galerkin.attention import EncoderLayer, SimpleAttention
from piop.models.galerkin.config import GalerkinConfig
from piop.models.galerkin.decoder import PointDecoder, SpectralDecoder
from piop.models.galerkin.interpolation_cnn import CONVOLUTIONS, Down, Up, middle
from piop.models.galerkin.tokens import mark_count, marks, mesh, shares

PADDING = 0.25
"""Length added beyond walls for the spectral decoder, as a share of the axis."""

OWN = {1: 32, 2: 32, 3: 16}
"""Points per axis of the network's own grid where no decoder asks for more, by its axes."""

MODES = {1: 16, 2: 6, 3: 4}
"""Wave numbers the spectral decoder keeps by default, by the axes of space."""

ACTIVATIONS = {"silu": functional.silu, "relu": functional.relu}


class TokenGrid(GridBackbone):
    """Reads inputs at every point, lets all points attend to each other, decodes.

    Where no convolution is used the tokens are the points asked for, on a grid or not. The spectral
    decoder needs a grid that resolves its harmonics, the interpolation CNN one of its own; what
    is asked for elsewhere is interpolated from there.

    Published networks take the normalisation of the answer out before they return, and the loss is
    in physical units; here answers are dimensionless and the operator around the network scales
    them, for every backbone alike.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    def __init__(self, signature: Signature, config: GalerkinConfig) -> None:
        super().__init__(signature, self.grid_columns(signature))
        self.config, form = config, config.form
        self.frequencies = 0 if form.raw else form.frequencies
        self.space = tuple(i for i, c in enumerate(self.columns) if c != signature.time)
        self.spectral = config.decoder == "spectral" and bool(self.space)
        self.scattered = not self.spectral and not config.coarse
        self.periodic = not form.raw
        width, count = config.width, mark_count(self.axes, self.frequencies)
        features = self.inputs.features + (count if form.places == "inputs" else 0)
        if config.coarse:
            self.down = Down(features, width, self.axes, self._sizes(), self._reading())
            wanted = config.fine if self.spectral else config.coarse
            ends = (middle(config.coarse, wanted), wanted)
            self.up = Up(width, self.axes, ends, functional.silu)
        else:
            self.entry = nn.Linear(features, width)
        self.layers = nn.ModuleList(_layer(config, count) for _ in range(config.blocks))
        again = count if form.places == "decoder" else 0
        if self.spectral:
            self.waves = config.modes or MODES[min(len(self.space), 3)]
            self.modes = (*[2 * self.waves] * (len(self.space) - 1), self.waves)
            self.decoder = SpectralDecoder(
                width, form.latent, again, self.modes, form.projection, signature.channels
            )
        else:
            self.decoder = PointDecoder(width, again, signature.channels)

    @classmethod
    def grid_columns(cls, signature: Signature) -> tuple[int, ...]:
        """Coordinates that the grid has: all."""
        return tuple(range(len(signature.coordinates)))

    @classmethod
    def refusal(cls, signature: Signature, config: GalerkinConfig) -> str | None:
        """Say what cannot be laid on a grid: see :meth:`Backbone.refusal`."""
        columns = cls.grid_columns(signature)
        if not columns:
            return "its grid is that of space, and the problem has the time alone"
        if config.coarse and len(columns) not in CONVOLUTIONS:
            return f"its CNN has up to {max(CONVOLUTIONS)} axes, not {len(columns)}"
        if config.form.places != "inputs" and not signature.inputs:
            return "it reads nothing but inputs, and the problem has none"
        return GridInputs.refusal(signature, columns)

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Take the queries for tokens, or interpolate: see :meth:`Backbone.forward`.

        Each query is one of N shares of the domain, so queries should cover it evenly: the answer
        at one depends on where the others are.
        """
        if not self.scattered:
            return super().forward(inputs, queries)
        self.check(inputs, queries)
        points = torch.cat([queries[..., i : i + 1] for i in self.columns], -1)
        places = marks(points, self.axes, self.frequencies)
        known = at_points(self.inputs, inputs, queries)
        share = known.new_full((queries.shape[1],), 1 / queries.shape[1])
        state = self._encoded(self._entered(known, places), places, share)
        return self._on_walls(self.decoder(state, places), points)

    def evaluate(self, inputs: Mapping[str, FunctionSamples], ticks: Sequence[Tensor]) -> Tensor:
        """Apply the layers: see :meth:`GridBackbone.evaluate`."""
        coarse, fine = self.config.coarse, self.config.fine
        tokens = ticks if not coarse else [even_ticks(a, coarse, ticks[0]) for a in self.axes]
        read = ticks if not coarse else [even_ticks(a, fine, ticks[0]) for a in self.axes]
        places = self._places(tokens)
        if coarse:
            known = self.inputs(inputs, read)
            if self.config.form.places == "inputs":
                known = torch.cat([self._places(read).expand(*known.shape[:-1], -1), known], -1)
            state = self.down(known)
        else:
            state = self._entered(self.inputs(inputs, ticks), places)
        grid = state.shape[1:-1]
        state = self._encoded(
            state.flatten(1, -2),
            places.flatten(1, -2),
            shares(tokens, self.axes, self.config.form.raw),
        )
        state = state.unflatten(1, grid)
        if coarse:
            state, places = self.up(state), self._places(ticks)
        return self._on_walls(self._decoded(state, places, ticks), mesh(ticks))

    def unused_parameters(self) -> Mapping[str, str]:
        """Name what softmax takes out: see :meth:`Backbone.unused_parameters`."""
        if self.config.attention not in ("softmax", "linear"):
            return {}
        part = "norms.key.bias" if self.config.norm == "heads" else "key.bias"
        return {f"layers.*.attention.{part}": "adds the same to all tokens under a softmax"}

    def resolution(self, axis: int) -> int:
        """Points of the network's own grid: see :meth:`GridBackbone.resolution`."""
        if self.config.coarse:
            return self.config.fine if self.spectral else self.config.coarse
        least = OWN[min(len(self.axes), 3)]
        count = max(4 * self.waves, least) if self._convolved(axis) else least
        return count if self.axes[axis].periodic else count + 1

    def resolves(self, axis: int, count: int) -> bool:
        """Whether tokens are the points asked for: see :meth:`GridBackbone.resolves`."""
        if self.config.coarse:
            return False
        return not self._convolved(axis) or count > 2 * self.waves

    def _convolved(self, axis: int) -> bool:
        return self.spectral and axis in self.space

    def _sizes(self) -> tuple[int, int]:
        return middle(self.config.fine, self.config.coarse), self.config.coarse

    def _reading(self) -> object:
        """Activation of the downward CNN: ReLU for inputs with jumps, else SiLU (App. B)."""
        rough = any(not entry.smooth for entry in self.signature.functions)
        return functional.relu if rough else functional.silu

    def _entered(self, known: Tensor, places: Tensor) -> Tensor:
        """Embed what is known at every token: ``[B, …, d]``."""
        if self.config.form.places != "inputs":
            return self.entry(known)
        batch = max(len(known), len(places))
        parts = [part.expand(batch, *part.shape[1:]) for part in (places, known)]
        return self.entry(torch.cat(parts, -1))

    def _encoded(self, state: Tensor, places: Tensor, share: Tensor) -> Tensor:
        for layer in self.layers:
            state = layer(state, places, share)
        return state

    def _decoded(self, state: Tensor, places: Tensor, ticks: Sequence[Tensor]) -> Tensor:
        """Decode along space, each time for itself."""
        if not self.spectral:
            return self.decoder(state, places)
        axes = [self._round(i, ticks[i]) for i in self.space]
        transform = Transform(axes, self.modes, state)
        if len(self.space) == len(self.axes):
            return self.decoder(state, places, transform)
        at = next(i for i in range(len(self.axes)) if i not in self.space)
        places = places.expand(len(state), *places.shape[1:])
        rows = [part.movedim(at + 1, 1) for part in (state, places)]
        found = self.decoder(*(row.flatten(0, 1) for row in rows), transform)
        return found.unflatten(0, rows[0].shape[:2]).movedim(1, at + 1)

    def _round(self, axis: int, positions: Tensor) -> Ticks:
        place = self.axes[axis]
        if place.periodic or self.config.form.raw:
            return Ticks.round(len(positions), positions.device)
        return Ticks.padded(positions, place.low, place.high, PADDING)

    def _places(self, ticks: Sequence[Tensor]) -> Tensor:
        """Coordinates of a grid as features: ``[1, n_1, …, n_D, p]``."""
        known = marks(mesh(ticks), self.axes, self.frequencies)
        return known.unflatten(1, [len(tick) for tick in ticks])

    def _on_walls(self, values: Tensor, points: Tensor) -> Tensor:
        """Answer zero on walls where the form says so.

        Args:
            values: ``[B, n_1, …, n_D, C]`` or ``[B, N, C]``.
            points: Where, ``[1 or B, N, D]``.
        """
        if not self.config.form.dirichlet:
            return values
        inside = torch.ones_like(points[..., 0])
        for i in self.space:
            axis = self.axes[i]
            share = (points[..., i] - axis.low) / (axis.high - axis.low)
            if not axis.periodic:
                inside = inside * ((share > EDGE) & (share < 1 - EDGE))
        return values * inside.reshape(len(points), *values.shape[1:-1], 1)


EDGE = 1e-5
"""Share of an axis within which a point lies on its wall."""


def _layer(config: GalerkinConfig, places: int) -> EncoderLayer:
    form = config.form
    attention = SimpleAttention(
        config.width,
        config.heads,
        places,
        config.attention,
        normed=config.norm == "heads",
        eps=form.eps,
        dropout=form.dropout,
        faults=form.faults,
    )
    activation = ACTIVATIONS[form.activation]
    return EncoderLayer(attention, config.width, config.norm, activation, form.eps, form.dropout)


@final
class GalerkinTransformer(TokenGrid):
    """On the grid of all coordinates, the time among them: any time is answered."""


@final
class FinalGalerkinTransformer(TokenGrid):
    """On the grid of space: from the inputs to the state at the end of the time axis."""

    end_only = True

    @classmethod
    def grid_columns(cls, signature: Signature) -> tuple[int, ...]:
        """Coordinates that the grid has: those of space."""
        return tuple(i for i in range(len(signature.coordinates)) if i != signature.time)
