"""Position-attention for physics: a point field whose kernels are smooth, relative, and move.

Its idea is that of J. Chen, K. Wu, *Positional Knowledge is All You Need: Position-induced
Transformer (PiT) for Operator Learning*, ICML 2024, arXiv:2405.09285; the network as published is
in ``published.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.attention import perceptron
from piop.models.core.base import (
    Backbone,
    Inputs,
    InputSignature,
    Signature,
    encode_scalars,
    real_points,
    standardised,
)
from piop.models.core.coordinates import (
    CoordinateEncoding,
    absolute_axes,
    cell_grid,
    squared_chords,
    take_columns,
)
from piop.models.core.harmonic_fit import TOKENS_PER_WAVE, HarmonicFit
from piop.models.core.sensor_encoder import GatedSkip
from piop.models.position_attention.attention import window_square
from piop.models.position_attention.smooth_kernels import (
    KernelCrossAttention,
    KernelPoints,
    PositionAttentionConfig,
    kernel_coordinates,
)

FEWEST_POINTS = {0: 1, 1: 32, 2: 12, 3: 6}
"""Latent points per axis at least, by the number of axes of space."""

SHARPEST_START = 16.0
"""√λ of the sharpest head that attends to sensors, at the start."""


@final
class PositionAttentionField(Backbone):
    """Sensors → latent mesh → processor → any query, by position-attention.

    Where it leaves the paper, and why:

    - Distances are chords and all kernels smooth, so that outputs have the derivatives of the
      equations; a smooth window (``window``), off by default, takes the place of a hard quantile
      mask.
    - Position enters by differences alone along homogeneous axes: one function teaches all its
      shifts. First moments make up for kernels that are all even (:class:`KernelCrossAttention`).
    - Kernels of a query widen and move with its time, and in later blocks with its state: one
      attention then represents diffusion and transport. Scores of the contents themselves
      (``content``, eq. 12) are off.
    - Smooth functions are evaluated from their harmonic fit on the latent mesh
      (:class:`PositionEncoder`).
    - A skip connection multiplies views by functions of the time (:class:`GatedSkip`), as in PIT.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    latent: Tensor

    def __init__(self, signature: Signature, config: PositionAttentionConfig) -> None:
        super().__init__(signature, config)
        width, axes, frequencies = config.width, signature.coordinates, config.frequencies
        self.columns = signature.space_columns
        self.space = tuple(axes[i] for i in self.columns)
        absolute = absolute_axes(signature)
        self.encoding = CoordinateEncoding(axes, absolute, frequencies)
        fixed = [self.columns.index(i) for i in absolute if i != signature.time]
        self.mesh_encoding = CoordinateEncoding(self.space, fixed, frequencies)
        scalars = signature.scalar_channels
        self.scalars = nn.Linear(scalars, width) if scalars else None
        # The latent mesh is fine enough for the bulk of every smooth input: [1, L, d].
        smooth = [entry for entry in signature.functions if entry.smooth]
        waves = [TOKENS_PER_WAVE[len(e.of)] * (e.bulk or e.waves) for e in smooth]
        count = max(FEWEST_POINTS[len(self.space)], *waves, 0)
        latent = cell_grid(self.space, [count] * len(self.space), torch.zeros(()))
        self.register_buffer("latent", latent, persistent=False)
        self.context_points = latent.shape[1]
        encoders = {e.name: PositionEncoder(signature, e, config) for e in signature.functions}
        self.encoders = nn.ModuleDict(encoders)
        self.ground = self.mesh_encoding.linear(width)
        attention = partial(KernelCrossAttention, config, self.space, count)
        self.processor = nn.ModuleList(
            ProcessorBlock(width, attention()) for _ in range(config.blocks)
        )
        self.control = self.encoding.linear(width)
        window = None
        if config.window < 1:
            squares = squared_chords(self.latent, self.latent, self.space)
            window = window_square(squares, config.window)
        control = width if self.encoding.columns else 0
        self.views = attention(control=control, window=window)
        self.transport = GatedSkip(self.encoding.features, width, signature.channels)
        self.start = nn.Linear(width, width)
        self.place = self.encoding.linear(width)
        content = width if config.content else 0
        self.reads = nn.ModuleList(
            QueryBlock(width, attention(width, content, window)) for _ in range(config.reads - 1)
        )
        self.decoder = perceptron(width, width, signature.channels)

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """See :meth:`Backbone.refusal`."""
        if signature.functions and not signature.space_columns:
            return "its attention is between points in space, and the problem has no axis of space"
        return None

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        tokens, points = self._tokens(inputs)
        at = kernel_coordinates(take_columns(queries, self.columns), self.space)
        coordinates = control = None
        if self.control is not None:
            coordinates = self.encoding(queries)
            control = torch.tanh(self.control(coordinates))
        views = self.views(tokens, points, at, control)
        gated, skip = self.transport(views, coordinates)
        state = views if self.place is None else views + self.place(coordinates)
        state = self.start(torch.tanh(state)) + gated
        for block in self.reads:
            state = block(state, tokens, points, at)
        return self.decoder(state) + skip

    def _tokens(self, inputs: Inputs) -> tuple[Tensor, KernelPoints]:
        """Encode all inputs on the latent mesh and process them there: ``[B, L, width]``."""
        points = KernelPoints(kernel_coordinates(self.latent, self.space))
        state: Any = 0.0
        for name, encode in self.encoders.items():
            state = state + encode(inputs[name], self.latent, points.at)
        scalars = encode_scalars(self.scalars, self.signature, inputs)
        state = state if scalars is None else state + scalars
        if self.ground is not None:
            state = state + self.ground(self.mesh_encoding(self.latent))
        for block in self.processor:
            state = block(state, points)
        return state, points


class PositionEncoder(nn.Module):
    """Encodes one function on the latent mesh.

    A smooth function of space is evaluated there from its harmonic fit, with gradients and
    antiderivatives, wherever its sensors are. Any other is lifted at its sensors (a smooth one on
    an even grid in place of them) and attended to along the axes of space that it depends on;
    softmax makes that a quadrature (eq. 9).

    Args:
        signature: The problem's shapes and scales.
        entry: The function.
        config: Sizes and choices.
    """

    def __init__(
        self, signature: Signature, entry: InputSignature, config: PositionAttentionConfig
    ) -> None:
        super().__init__()
        self.entry, self.axes, width = entry, signature.axes_of(entry), config.width
        columns = [signature.axis(name) for name in entry.of]
        self.shared = [i for i, column in enumerate(columns) if column != signature.time]
        self.in_space = [signature.space_columns.index(columns[i]) for i in self.shared]
        other = [i for i in range(len(columns)) if i not in self.shared]
        self.encoding = CoordinateEncoding(self.axes, other, config.frequencies)
        self.spectrum = HarmonicFit(entry, self.axes) if entry.smooth else None
        values = entry.channels * (1 + 2 * len(entry.of) if entry.smooth else 1)
        self.lift = nn.Linear(values + self.encoding.features, width)
        self.mix = nn.Linear(width, width)
        self.shared_axes = [self.axes[i] for i in self.shared]
        self.reading = None
        if other or not entry.smooth:
            self.reading = KernelCrossAttention(config, self.shared_axes, SHARPEST_START)

    def forward(self, samples: FunctionSamples, mesh: Tensor, at: Tensor) -> Tensor:
        """Encode.

        Args:
            samples: Its sensors.
            mesh: The latent mesh ``[1, L, d]``, physical.
            at: The same as :func:`kernel_coordinates`.

        Returns:
            ``[B, L, width]``.
        """
        if self.spectrum is None:
            points, mask = real_points(samples, self.axes[0].low), samples.mask
            columns = [standardised(self.entry, samples)]
        else:
            fit, mask, points = self.spectrum(samples), None, take_columns(mesh, self.in_space)
            if self.reading is not None:
                points = self.spectrum.token_grid(samples.points)
            columns = [self.spectrum.basis(points) @ fit, self.spectrum.features(fit, points)]
        if self.encoding.columns:
            columns.append(self.encoding(points).expand(columns[0].shape[0], -1, -1))
        tokens = self.mix(torch.tanh(self.lift(torch.cat(columns, -1))))
        if self.reading is None:
            return tokens
        shared = KernelPoints.of(take_columns(points, self.shared), self.shared_axes, mask)
        return self.reading(torch.tanh(tokens), shared, take_columns(at, self.in_space))


class ProcessorBlock(nn.Module):
    """U ← σ(MLP(σ(PosAtt(U))) + U W) on the latent mesh (sec. 2.3), σ the GELU.

    Args:
        width: Features.
        attention: The attention.
    """

    def __init__(self, width: int, attention: KernelCrossAttention) -> None:
        super().__init__()
        self.reading = attention
        self.perceptron = perceptron(width, width, width, activation=nn.GELU)
        self.skip = nn.Linear(width, width)

    def forward(self, state: Tensor, points: KernelPoints) -> Tensor:
        """Update ``[B, L, width]``."""
        found = F.gelu(self.reading(state, points, points.at))
        return F.gelu(self.perceptron(found) + self.skip(state))


class QueryBlock(nn.Module):
    """Cross-attention of a query to the latent mesh, its kernels moved by the state so far.

    Args:
        width: Features.
        attention: The attention, with a control.
    """

    def __init__(self, width: int, attention: KernelCrossAttention) -> None:
        super().__init__()
        self.reading = attention
        self.perceptron = perceptron(width, 2 * width, width)

    def forward(self, state: Tensor, tokens: Tensor, points: KernelPoints, at: Tensor) -> Tensor:
        """Update the state of the queries ``[B, N, width]``."""
        found = state + self.reading(tokens, points, at, state, state)
        return found + self.perceptron(found)
