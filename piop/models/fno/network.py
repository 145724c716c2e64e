"""Fourier neural operators: convolutions with few harmonics, and perceptrons at every point.

Z. Li et al., *Fourier Neural Operator for Parametric Partial Differential Equations*, ICLR 2021,
arXiv:2010.08895; the form with GELU and channel perceptrons is that of the package
``neuraloperator`` (github.com/neuraloperator/neuraloperator, 2.0.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.errors import UsageError
from piop.fields import tensor_grid
from piop.models.core.base import Inputs, Signature, require_choices
from piop.models.core.coordinates import absolute_axes, coordinate_features
from piop.models.core.grid import GridBackbone
from piop.models.core.spectral_convolution import (
    FourierTransform,
    SpectralConvolution,
    TransformAxis,
)

ACTIVATIONS = {"gelu": functional.gelu, "relu": functional.relu, "tanh": torch.tanh}

FORMS = ("plain", "inner", "outer")


@dataclass(frozen=True)
class FNOConfig:
    """Sizes and choices of a Fourier neural operator, all dimensionless.

    Attributes:
        width: Channels of the hidden functions.
        blocks: Fourier layers.
        modes: Wave numbers kept along each axis of space, −modes … modes − 1, on the last axis
            0 … modes − 1; 0 for 12, 6, 4 in one, two, three dimensions.
        time_modes: The same along the time.
        form: ``plain``, layers of the paper: activation of convolution plus linear map. ``inner``:
            a perceptron after each convolution, as in the authors' code of 2022. ``outer``: a
            perceptron of half the width around each layer, beside a gated skip; lifting by a
            perceptron; and the wave number ``modes`` itself on the last axis: ``neuraloperator``.
        projection: Hidden features of the last perceptron.
        padding: Length added to axes that are not periodic, as a fraction of theirs, where hidden
            functions are zero. With 0 every axis is taken as periodic, as published: quicker, but
            another operator on every grid.
        raw: Coordinates from 0 to 1 along all axes, as published, in place of harmonics along
            periodic axes, and of none along homogeneous ones.
        activation: ``gelu``, ``relu`` or ``tanh``.
        unused_norms: Keep the scale and shift of the batch norms that published code allocates and
            never applies, for its count of parameters.
    """

    width: int = 16
    blocks: int = 3
    modes: int = 0
    time_modes: int = 4
    form: str = "outer"
    projection: int = 64
    padding: float = 0.25
    raw: bool = False
    activation: str = "gelu"
    unused_norms: bool = False

    def __post_init__(self) -> None:
        require_choices(self, {"form": FORMS, "activation": ACTIVATIONS})
        if self.padding < 0:
            raise UsageError(f"padding = {self.padding}: give a fraction of the axis, 0 or more")


class FourierBlock(nn.Module):
    """One layer: convolution plus linear map (eq. 2 of the paper), and the perceptron of its form.

    Args:
        modes: Kept along each axis, as :class:`FourierTransform` counts them.
        config: Width, form and activation.
        last: Whether it is the last layer, which has no activation but that of its perceptron.
    """

    def __init__(self, modes: Sequence[int], config: FNOConfig, last: bool) -> None:
        super().__init__()
        width, self.form = config.width, config.form
        self.activate = nn.Identity() if last else ACTIVATIONS[config.activation]
        self.convolution = SpectralConvolution(width, width, modes)
        self.skip = nn.Linear(width, width)
        if self.form == "inner":
            self.mixing = Perceptron([width, width, width], config.activation)
        if self.form == "outer":
            self.mixing = Perceptron([width, round(width / 2), width], config.activation)
            self.gate = nn.Parameter(torch.ones(width))

    def forward(self, state: Tensor, transform: FourierTransform) -> Tensor:
        """Apply it to ``[B, n_1, …, n_D, width]``."""
        found = self.convolution(state, transform)
        if self.form == "inner":
            found = self.mixing(found)
        found = self.activate(found + self.skip(state))
        if self.form == "outer":
            found = self.activate(self.mixing(found) + self.gate * state)
        return found


class Perceptron(nn.Module):
    """Linear layers with an activation between them, applied at every point.

    Args:
        sizes: Features in, between, and out.
        activation: A key of ``ACTIVATIONS``.
    """

    def __init__(self, sizes: Sequence[int], activation: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.activate = ACTIVATIONS[activation]

    def forward(self, state: Tensor) -> Tensor:
        """Apply it to ``[…, features]``."""
        for layer in self.layers[:-1]:
            state = self.activate(layer(state))
        return self.layers[-1](state)


def keep_variance(module: nn.Module) -> None:
    """Initialise linear maps by Glorot & Bengio 2010, so that layers neither damp nor amplify.

    Published networks keep torch's default. With that of He et al. 2015, made for plain stacks of
    layers, skip connections and gates make the output of four blocks grow.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_normal_(module.weight)
        nn.init.zeros_(module.bias)


MODES = {0: 12, 1: 12, 2: 6, 3: 4}
"""Wave numbers kept along each axis by default, by the number of dimensions of space."""


class FourierOperator(GridBackbone):
    """Lifting, Fourier layers, projection, on the tensor grid of some of the coordinates.

    With padding the layers are integrals over the domain, so the same weights apply on any grid
    that resolves the hidden functions; outputs on a coarser one, and at scattered queries, are
    interpolated from a grid that does: exact for what that grid resolves, but no cheaper.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.
    """

    def __init__(self, signature: Signature, config: FNOConfig) -> None:
        super().__init__(signature, config)
        waves = config.modes or MODES[min(len(signature.space_columns), 3)]
        waves_of = {signature.time: config.time_modes}
        self.waves = tuple(waves_of.get(i, waves) for i in self.columns)
        closed = config.form == "outer"
        self.modes = (*(2 * m for m in self.waves[:-1]), self.waves[-1] + closed)
        self.known = self.columns if config.raw else absolute_axes(signature)
        known = self._coordinates([torch.zeros(1)] * len(self.axes)).shape[-1]
        width, hidden = config.width, [2 * config.width] if closed else []
        features = [self.inputs.features + known, *hidden, width]
        self.lifting = Perceptron(features, config.activation)
        self.blocks = nn.ModuleList(
            FourierBlock(self.modes, config, last=i + 1 == config.blocks)
            for i in range(config.blocks)
        )
        ends = [width, config.projection, signature.channels]
        self.projection = Perceptron(ends, config.activation)
        self.periodic = not config.raw
        if self.periodic:
            self.apply(keep_variance)
        if config.unused_norms:
            norms = (nn.BatchNorm1d(width, track_running_stats=False) for _ in self.blocks)
            self.norms = nn.ModuleList(norms)

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the norms kept for the count alone: see :meth:`Backbone.unused_parameters`."""
        unused = "published code allocates batch norms and never applies them"
        return {"norms.*": unused} if self.config.unused_norms else {}

    def evaluate(self, inputs: Inputs, ticks: Sequence[Tensor]) -> Tensor:
        """Apply the layers: see :meth:`GridBackbone.evaluate`."""
        known = self.inputs(inputs, ticks)
        coordinates = self._coordinates(ticks).expand(known.shape[0], *[-1] * (len(ticks) + 1))
        state = self.lifting(torch.cat([known, coordinates], -1))
        axes = [
            TransformAxis.along(axis, tick, self.config.padding)
            for axis, tick in zip(self.axes, ticks, strict=True)
        ]
        transform = FourierTransform(axes, self.modes, state)
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

    def _coordinates(self, ticks: Sequence[Tensor]) -> Tensor:
        """Coordinates of each point as features: ``[1, n_1, …, n_D, features]``."""
        places = [i for i, column in enumerate(self.columns) if column in self.known]
        axes, points = [self.axes[i] for i in places], tensor_grid(ticks)[None, :, places]
        known = coordinate_features(points, axes, int(not self.config.raw), walled=False)
        return known.unflatten(1, [len(tick) for tick in ticks])


@final
class FNO(FourierOperator):
    """On the grid of all coordinates, the time among them."""


@final
class FinalFNO(FourierOperator):
    """On the grid of space: from the inputs to the state at the end of the time axis."""

    end_only = True
