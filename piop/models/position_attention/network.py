"""Position-attention for physics: a point field whose kernels are smooth, relative, and move.

Its idea is that of J. Chen, K. Wu, *Positional Knowledge is All You Need: Position-induced
Transformer (PiT) for Operator Learning*, ICML 2024, arXiv:2405.09285; the network as published is
in ``position_mesh.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.base import AxisSignature, Backbone, InputSignature, Signature, standardised
from piop.models.core.coordinates import absolute_axes, coordinate_features, squared_chords
from piop.models.core.harmonic_fit import TOKENS_PER_WAVE, HarmonicFit
from piop.models.core.sensor_encoder import GatedSkip
from piop.models.position_attention.attention import SHARPNESS, window_square
from piop.models.position_attention.kernels import (
    KernelCrossAttention,
    KernelPoints,
    kernel_coordinates,
)
from piop.models.position_attention.published import cell_centres

FEWEST_POINTS = {0: 1, 1: 32, 2: 12, 3: 6}
"""Latent points per axis at least, by the number of axes of space."""

SHARPEST_START = 16.0
"""√λ of the sharpest head that reads sensors, at the start."""


@dataclass(frozen=True)
class PositionAttentionConfig:
    """Sizes and choices of the default, dimensionless.

    Attributes:
        width: Features of a query and of a latent point.
        heads: H, kernels of each attention.
        blocks: Modules of the processor on the latent mesh.
        reads: Attentions of a query to the latent mesh, one after the other.
        frequencies: Sines and cosines of the time, and of axes that are not homogeneous.
        window: Quantile of the latent mesh that the smooth window of a reading holds; 1 is global.
        sharpness: How λ is had from what is trained: ``square``, ``tangent`` or ``sine_tangent``.
        content: Whether later readings add self-attention's scores (Self-PiT, eq. 12).
    """

    width: int = 64
    heads: int = 4
    blocks: int = 2
    reads: int = 2
    frequencies: int = 4
    window: float = 1.0
    sharpness: str = "square"
    content: bool = False

    def __post_init__(self) -> None:
        if self.sharpness not in SHARPNESS:
            allowed = ", ".join(SHARPNESS)
            raise UsageError(f"sharpness = {self.sharpness!r}: one of {allowed}")
        if not 0 < self.window <= 1:
            raise UsageError(f"window = {self.window}: a quantile lies in (0, 1]")
        if self.width % self.heads:
            raise UsageError(f"width = {self.width}: give a multiple of heads = {self.heads}")


@final
class PositionAttentionField(Backbone):
    """Sensors → latent mesh → processor → any query, by position-attention.

    Where it leaves the paper, and why:

    - Distances are chords and all kernels smooth, so that answers have the derivatives physics asks
      for; a hard quantile mask is had by a smooth window (``window``), off by default.
    - Position enters by differences alone along homogeneous axes: one function teaches all its
      shifts. First moments make up for kernels that are all even (:class:`KernelCrossAttention`).
    - Kernels of a query widen and move with its time, and in later readings with what it has read:
      diffusion and transport are then a matter of one reading. Scores of the contents themselves
      (``content``, eq. 12) are off.
    - Smooth functions are read off their harmonic fit on the latent mesh
      (:class:`PositionEncoder`).
    - Views times functions of the time go straight to the answer (:class:`GatedSkip`), as
      in PIT.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    latent: Tensor

    def __init__(self, signature: Signature, config: PositionAttentionConfig) -> None:
        super().__init__(signature)
        self.config = config
        width = config.width
        self.columns = [i for i in range(len(signature.coordinates)) if i != signature.time]
        self.space = tuple(signature.coordinates[i] for i in self.columns)
        self.absolute = absolute_axes(signature)
        known = len(self.absolute) * (1 + 2 * config.frequencies)
        fixed = [i for i in self.absolute if i != signature.time]
        scalars = sum(entry.channels for entry in signature.scalars)
        self.scalars = nn.Linear(scalars, width) if scalars else None
        self.register_buffer("latent", self._mesh(), persistent=False)
        count = round(self.latent.shape[1] ** (1 / max(1, len(self.space))))
        self.encoders = nn.ModuleDict(
            {e.name: PositionEncoder(signature, e, config, self.space) for e in signature.functions}
        )
        self.ground = nn.Linear(len(fixed) * (1 + 2 * config.frequencies), width) if fixed else None
        self.processor = nn.ModuleList(
            ProcessorBlock(width, self._reading(count)) for _ in range(config.blocks)
        )
        self.control = nn.Linear(known, width) if known else None
        window = None
        if config.window < 1:
            squares = squared_chords(self.latent, self.latent, self.space)
            window = window_square(squares, config.window)
        control = width if known else 0
        self.views = self._reading(count, control=control, window=window)
        self.transport = GatedSkip(known, width, signature.channels)
        self.start = nn.Linear(width, width)
        self.place = nn.Linear(known, width) if known else None
        content = width if config.content else 0
        self.reads = nn.ModuleList(
            QueryBlock(width, self._reading(count, control=width, content=content, window=window))
            for _ in range(config.reads - 1)
        )
        self.decoder = nn.Sequential(
            nn.Linear(width, width), nn.Tanh(), nn.Linear(width, signature.channels)
        )

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        tokens, places = self._tokens(inputs, queries)
        at = kernel_coordinates(_columns(queries, self.columns), self.space)
        known = control = None
        if self.control is not None:
            axes = [self.signature.coordinates[i] for i in self.absolute]
            known = coordinate_features(
                _columns(queries, self.absolute), axes, self.config.frequencies
            )
            control = torch.tanh(self.control(known))
        views = self.views(tokens, places, at, control)
        turned, straight = self.transport(views, known)
        state = views if self.place is None else views + self.place(known)
        state = self.start(torch.tanh(state)) + turned
        for step in self.reads:
            state = step(state, tokens, places, at)
        return self.decoder(state) + straight

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the latent points: see :meth:`Backbone.context_length`."""
        return self.latent.shape[1]

    def _tokens(
        self, inputs: Mapping[str, FunctionSamples], queries: Tensor
    ) -> tuple[Tensor, KernelPoints]:
        """Bring all inputs to the latent mesh and process them there: ``[B, L, width]``."""
        places = KernelPoints(kernel_coordinates(self.latent, self.space))
        state: Any = 0.0
        for name, encode in self.encoders.items():
            state = state + encode(inputs[name], self.latent, places.at)
        if self.scalars is not None:
            values = [standardised(e, inputs[e.name])[:, :1] for e in self.signature.scalars]
            state = state + self.scalars(torch.cat(values, -1))
        if self.ground is not None:
            fixed = [i for i in self.absolute if i != self.signature.time]
            axes = [self.signature.coordinates[i] for i in fixed]
            here = _columns(self.latent, [self.columns.index(i) for i in fixed])
            state = state + self.ground(coordinate_features(here, axes, self.config.frequencies))
        for module in self.processor:
            state = module(state, places)
        return state, places

    def _mesh(self) -> Tensor:
        """Lay the latent mesh fine enough for the bulk of every smooth input: ``[1, L, d]``."""
        dimension = len(self.space)
        count = FEWEST_POINTS[dimension]
        for entry in self.signature.functions:
            reach = entry.bulk or entry.waves
            count = max(count, TOKENS_PER_WAVE[len(entry.of)] * reach if entry.smooth else 0)
        return cell_centres(self.space, (count,) * dimension, torch.zeros(()))

    def _reading(
        self, count: int, control: int = 0, content: int = 0, window: float | None = None
    ) -> KernelCrossAttention:
        c = self.config
        return KernelCrossAttention(
            c.width, c.width, c.heads, self.space, c.sharpness, count, control, content, window
        )


class PositionEncoder(nn.Module):
    """Brings one function to the latent mesh.

    A smooth function of space is read there off its harmonic fit, with slopes and antiderivatives,
    which no scatter of sensors disturbs. Any other is lifted at its sensors (a smooth one on an
    even lattice in place of them) and attended to along the axes of space that it has; softmax
    makes that a quadrature (eq. 9).

    Args:
        signature: The problem's shapes and scales.
        entry: The function.
        config: Sizes and choices.
        space: Axes of space.
    """

    def __init__(
        self,
        signature: Signature,
        entry: InputSignature,
        config: PositionAttentionConfig,
        space: tuple[AxisSignature, ...],
    ) -> None:
        super().__init__()
        self.entry, self.frequencies = entry, config.frequencies
        self.axes = tuple(signature.coordinates[signature.axis(name)] for name in entry.of)
        names = [axis.name for axis in space]
        self.in_space = [names.index(name) for name in entry.of if name in names]
        self.shared = [i for i, name in enumerate(entry.of) if name in names]
        self.other = [i for i, name in enumerate(entry.of) if name not in names]
        features = entry.channels + len(self.other) * (1 + 2 * config.frequencies)
        self.spectrum = HarmonicFit(entry, self.axes) if entry.smooth else None
        features += 2 * len(entry.of) * entry.channels if entry.smooth else 0
        self.direct = entry.smooth and not self.other
        self.lift = nn.Linear(features, config.width)
        self.mix = nn.Linear(config.width, config.width)
        shared = [self.axes[i] for i in self.shared]
        self.reading = (
            None
            if self.direct
            else KernelCrossAttention(
                config.width, config.width, config.heads, shared, config.sharpness, SHARPEST_START
            )
        )

    def forward(self, samples: FunctionSamples, mesh: Tensor, at: Tensor) -> Tensor:
        """Encode.

        Args:
            samples: Its sensors.
            mesh: The latent mesh ``[1, L, d]``, physical.
            at: The same as a reading has it.

        Returns:
            ``[B, L, width]``.
        """
        points, there = samples.points, samples.mask
        columns = []
        if self.spectrum is None:
            columns.append(standardised(self.entry, samples))
        else:
            fit = self.spectrum(samples)
            points = _columns(mesh, self.in_space) if self.direct else self.spectrum.lattice(points)
            there = None
            columns += [self.spectrum.basis(points) @ fit, self.spectrum.features(fit, points)]
        if there is not None:
            points = points.masked_fill(~there[..., None], self.axes[0].low)
        if self.other:
            axes = [self.axes[i] for i in self.other]
            known = coordinate_features(_columns(points, self.other), axes, self.frequencies)
            columns.append(known.expand(len(columns[0]), -1, -1))
        tokens = self.mix(torch.tanh(self.lift(torch.cat(columns, -1))))
        if self.reading is None:
            return tokens
        shared = [self.axes[i] for i in self.shared]
        places = KernelPoints.of(_columns(points, self.shared), shared, there)
        return self.reading(torch.tanh(tokens), places, _columns(at, self.in_space))


class ProcessorBlock(nn.Module):
    """U ← σ(MLP(σ(PosAtt(U))) + U W) on the latent mesh (sec. 2.3), σ the GELU.

    Args:
        width: Features.
        reading: The attention.
    """

    def __init__(self, width: int, reading: KernelCrossAttention) -> None:
        super().__init__()
        self.reading = reading
        self.perceptron = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.skip = nn.Linear(width, width)

    def forward(self, state: Tensor, places: KernelPoints) -> Tensor:
        """Update ``[B, L, width]``."""
        found = F.gelu(self.reading(state, places, places.at))
        return F.gelu(self.perceptron(found) + self.skip(state))


class QueryBlock(nn.Module):
    """A query reads the latent mesh once more, its kernels moved by what it has read so far.

    Args:
        width: Features.
        reading: The attention, with a control.
    """

    def __init__(self, width: int, reading: KernelCrossAttention) -> None:
        super().__init__()
        self.reading = reading
        self.perceptron = nn.Sequential(
            nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width)
        )

    def forward(self, state: Tensor, tokens: Tensor, places: KernelPoints, at: Tensor) -> Tensor:
        """Update the state of the queries ``[B, N, width]``."""
        found = state + self.reading(tokens, places, at, state, state)
        return found + self.perceptron(found)


def _columns(points: Any, columns: Sequence[int]) -> Any:
    """Columns of points, in the order given."""
    if not columns:
        return points[..., :0]
    return torch.cat([points[..., i : i + 1] for i in columns], -1)
