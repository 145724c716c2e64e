"""Fourier neural operators: convolutions with few harmonics, and perceptrons at every point.

Z. Li et al., *Fourier Neural Operator for Parametric Partial Differential Equations*, ICLR 2021,
arXiv:2010.08895; the form with GELU and channel perceptrons is that of the package
``neuraloperator`` (github.com/neuraloperator/neuraloperator, 2.0.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Signature
from piop.models.core.coordinates import absolute_axes, angles
from piop.models.core.grid import GridBackbone, GridInputs
from piop.models.core.spectral import Ticks, Transform
from piop.models.fno.layers import ChannelScale, FNOConfig, FourierBlock, Perceptron, keep_variance

MODES = {0: 12, 1: 12, 2: 6, 3: 4}
"""Wave numbers kept along each axis by default, by the number of dimensions of space."""


class FourierOperator(GridBackbone):
    """Lifting, Fourier layers, projection, on the tensor grid of some of the coordinates.

    With padding the layers are integrals over the domain, so the same weights answer on any grid
    that resolves the hidden functions; a coarser one is answered by interpolation from a grid that
    does. On that grid scattered queries are answered too, round periods by harmonics, elsewhere by
    cubics: exact for what the grid resolves, but no cheaper than the grid.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    def __init__(self, signature: Signature, config: FNOConfig) -> None:
        super().__init__(signature, self.grid_columns(signature))
        self.config = config
        space = len(signature.coordinates) - (signature.time is not None)
        waves = config.modes or MODES[min(space, 3)]
        self.waves = tuple(
            config.time_modes if i == signature.time else waves for i in self.columns
        )
        closed = config.form == "outer"
        self.modes = (*(2 * m for m in self.waves[:-1]), self.waves[-1] + closed)
        self.known = self.columns if config.raw else absolute_axes(signature)
        width, features = config.width, self.inputs.features + self._coordinate_features()
        hidden = [2 * width] if closed else []
        self.lifting = Perceptron([features, *hidden, width], config.activation)
        self.blocks = nn.ModuleList(
            FourierBlock(self.modes, config, last=i + 1 == config.blocks)
            for i in range(config.blocks)
        )
        ends = [width, config.projection, signature.channels]
        self.projection = Perceptron(ends, config.activation)
        self.periodic = not config.raw
        if not config.raw:
            self.apply(keep_variance)
        if config.unused_norms:
            self.norms = nn.ModuleList(ChannelScale(width) for _ in range(config.blocks))

    @classmethod
    def grid_columns(cls, signature: Signature) -> tuple[int, ...]:
        """Coordinates that the grid has: all."""
        return tuple(range(len(signature.coordinates)))

    @classmethod
    def refusal(cls, signature: Signature, config: FNOConfig) -> str | None:
        """Say which input cannot be laid on a grid: see :meth:`Backbone.refusal`."""
        return GridInputs.refusal(signature, cls.grid_columns(signature))

    def unused_parameters(self) -> Mapping[str, str]:
        """Name what is kept for a count alone: see :meth:`Backbone.unused_parameters`."""
        unused = "published code allocates batch norms and never applies them"
        return {"norms.*": unused} if self.config.unused_norms else {}

    def evaluate(self, inputs: Mapping[str, FunctionSamples], ticks: Sequence[Tensor]) -> Tensor:
        """Apply the layers: see :meth:`GridBackbone.evaluate`."""
        known = self.inputs(inputs, ticks)
        places = self._coordinates(ticks).expand(len(known), *[-1] * (len(ticks) + 1))
        state = self.lifting(torch.cat([known, places], -1))
        transform = Transform(
            [self._ticks(i, tick) for i, tick in enumerate(ticks)], self.modes, state
        )
        for block in self.blocks:
            state = block(state, transform)
        return self.projection(state)

    def resolution(self, axis: int) -> int:
        """Points of the network's own grid along one of its axes: two for each that is kept."""
        count = max(4 * self.waves[axis], 16)
        return count if self.axes[axis].periodic else count + 1

    def resolves(self, axis: int, count: int) -> bool:
        """Whether the layers are evaluated on a grid of so many points, not interpolated to it."""
        return self.config.padding == 0 or count > 2 * self.waves[axis]

    def _ticks(self, axis: int, positions: Tensor) -> Ticks:
        place = self.axes[axis]
        if place.periodic or self.config.padding == 0:
            return Ticks.round(len(positions), positions.device)
        return Ticks.padded(positions, place.low, place.high, self.config.padding)

    def _coordinate_features(self) -> int:
        if self.config.raw:
            return len(self.columns)
        known = [self.signature.coordinates[i] for i in self.known if i in self.columns]
        return sum(2 if axis.periodic else 1 for axis in known)

    def _coordinates(self, ticks: Sequence[Tensor]) -> Tensor:
        """What each point knows of its place: ``[1, n_1, …, n_D, features]``."""
        grid = [len(tick) for tick in ticks]
        columns = []
        for i, (axis, tick) in enumerate(zip(self.axes, ticks, strict=True)):
            share = (tick - axis.low) / (axis.high - axis.low)
            if self.columns[i] not in self.known:
                continue
            if self.config.raw:
                parts = [share]
            elif axis.periodic:
                turn = angles(tick[:, None], [axis])[:, 0]
                parts = [turn.cos(), turn.sin()]
            else:
                parts = [2 * share - 1]
            shape = [1] * len(ticks)
            shape[i] = -1
            columns += [part.reshape(shape).expand(grid) for part in parts]
        return torch.stack(columns, -1)[None] if columns else ticks[0].new_zeros(1, *grid, 0)


@final
class FNO(FourierOperator):
    """On the grid of all coordinates, the time among them: any time is answered."""


@final
class FinalFNO(FourierOperator):
    """On the grid of space: from the inputs to the state at the end of the time axis."""

    end_only = True

    @classmethod
    def grid_columns(cls, signature: Signature) -> tuple[int, ...]:
        """Coordinates that the grid has: those of space."""
        return tuple(i for i in range(len(signature.coordinates)) if i != signature.time)
