"""Layers around the attention: quadrature weights, decoders, interpolation-based CNNs.

S. Cao, *Choose a Transformer: Fourier or Galerkin*, NeurIPS 2021, arXiv:2105.14995; the CNNs, from
a fine grid to tokens on a coarse one and back, are those of App. B, Fig. 6 and 7, written for any
number of axes, periodic ones too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.models.core.base import AxisSignature
from piop.models.core.spectral_convolution import (
    FourierTransform,
    SpectralConvolution,
    TransformAxis,
)


def quadrature_weights(
    ticks: Sequence[Tensor], axes: Sequence[AxisSignature], alike: bool
) -> Tensor:
    """Quadrature weights of the points of a grid, as fractions of the domain.

    Args:
        ticks: Positions along each axis.
        axes: The D axes.
        alike: Give all points 1/n; else those of the trapezoid rule along axes with walls, which
            are of second order where 1/n is of first.

    Returns:
        ``[n_1 ⋯ n_D]``, one in total.
    """
    weights = ticks[0].new_ones(1)
    for axis, tick in zip(axes, ticks, strict=True):
        if axis.periodic or alike:
            part = torch.full_like(tick, 1 / len(tick))
        else:
            part = TransformAxis.padded(tick, axis.low, axis.high, 0.0).weight.to(tick)
        weights = (weights[:, None] * part).flatten()
    return weights


LAYERS = 2
"""Spectral convolutions of a decoder, in all examples of the paper."""


class SpectralLayer(nn.Module):
    """SiLU of a spectral convolution plus a linear map: a layer of an FNO without batch norm.

    Args:
        inputs: Channels in.
        outputs: Channels out.
        modes: Wave numbers along each axis, as :class:`FourierTransform` counts them.
    """

    def __init__(self, inputs: int, outputs: int, modes: tuple[int, ...]) -> None:
        super().__init__()
        self.convolution = SpectralConvolution(inputs, outputs, modes)
        self.skip = nn.Linear(inputs, outputs)

    def forward(self, state: Tensor, transform: FourierTransform) -> Tensor:
        """Apply it to ``[B, n_1, …, n_D, inputs]``."""
        return functional.silu(self.convolution(state, transform) + self.skip(state))


class TokenDecoder(nn.Module):
    """Decodes at every point, after spectral convolutions where solutions are smooth.

    With convolutions it is the spectral decoder of the paper (sec. 4 and Table 5), without them a
    perceptron at every point, for solutions with jumps (sec. 4, ex. 5.3).

    Args:
        width: d, channels in.
        latent: Channels of the convolutions; d without them.
        coordinates: Features of coordinates that join the channels before a linear map to
            ``latent``; with 0 the first layer maps from d.
        modes: Wave numbers along each axis, as :class:`FourierTransform` counts them; empty
            for no convolutions.
        projection: Hidden features of the last perceptron.
        channels: C.
    """

    def __init__(
        self,
        width: int,
        latent: int,
        coordinates: int,
        modes: tuple[int, ...],
        projection: int,
        channels: int,
    ) -> None:
        super().__init__()
        self.entry = nn.Linear(width + coordinates, latent) if coordinates else None
        sizes = [latent if coordinates else width, *[latent] * LAYERS]
        pairs = pairwise(sizes) if modes else ()
        self.layers = nn.ModuleList(SpectralLayer(a, b, modes) for a, b in pairs)
        self.hidden, self.out = nn.Linear(latent, projection), nn.Linear(projection, channels)

    def forward(self, state: Tensor, coordinates: Tensor, *transform: FourierTransform) -> Tensor:
        """Decode.

        Args:
            state: ``[B, n_1, …, n_D, width]``, or ``[B, N, width]`` without convolutions.
            coordinates: Coordinates as features ``[1 or B, n_1, …, n_D, p]``.
            *transform: That of the grid where there are convolutions.

        Returns:
            ``[B, n_1, …, n_D, channels]``.
        """
        if self.entry is not None:
            state = self.entry(with_coordinates(state, coordinates))
        for layer in self.layers:
            state = layer(state, *transform)
        return self.out(functional.silu(self.hidden(state)))


def with_coordinates(state: Tensor, coordinates: Tensor) -> Tensor:
    """Concatenate coordinates and features: ``[B, …, p + c]``."""
    return torch.cat([coordinates.expand(state.shape[0], *coordinates.shape[1:]), state], -1)


CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def middle_count(fine: int, coarse: int) -> int:
    """Points per axis of the grid between two: n_m ≈ √(n_f n_c)."""
    return round(math.sqrt(fine * coarse))


def linear_weights(count: int, wanted: int, periodic: bool, like: Tensor) -> Tensor:
    """Linear interpolation between two even grids that share their ends, or their start.

    Args:
        count: n, points of the given grid.
        wanted: m, points of the other.
        periodic: Whether the axis closes, so that the last cell leads to the first point.
        like: A tensor of the dtype and device wanted.

    Returns:
        ``[m, n]``; in two dimensions their products are bilinear interpolation.
    """
    cells, others = (count, wanted) if periodic else (count - 1, wanted - 1)
    step = torch.arange(wanted, dtype=torch.float64, device=like.device) * (cells / max(others, 1))
    away = (step[:, None] - torch.arange(count, device=like.device)).abs()
    if periodic:
        away = torch.minimum(away, count - away)
    return (1 - away).clamp(min=0).to(like.dtype)


def resampled(state: Tensor, wanted: int, axes: Sequence[AxisSignature]) -> Tensor:
    """Interpolate ``[B, n_1, …, n_D, c]`` to ``wanted`` points along each axis."""
    for place, axis in enumerate(axes, start=1):
        if state.shape[place] != wanted:
            weights = linear_weights(state.shape[place], wanted, axis.periodic, state)
            state = (weights @ state.movedim(place, -2)).movedim(-2, place)
    return state


class Convolution(nn.Module):
    """3 × … × 3 convolution without bias that keeps the grid, periodic or with zeros beyond walls.

    Args:
        inputs: Channels in.
        outputs: Channels out.
        axes: The D axes.
    """

    def __init__(self, inputs: int, outputs: int, axes: Sequence[AxisSignature]) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.layer = CONVOLUTIONS[len(self.axes)](inputs, outputs, 3, bias=False)

    def forward(self, state: Tensor) -> Tensor:
        """Apply it to ``[B, n_1, …, n_D, inputs]``."""
        for place, axis in enumerate(self.axes, start=1):
            first, last = state.narrow(place, 0, 1), state.narrow(place, state.shape[place] - 1, 1)
            before, after = (last, first) if axis.periodic else (torch.zeros_like(first),) * 2
            state = torch.cat([before, state, after], place)
        return self.layer(state.movedim(-1, 1)).movedim(1, -1)


class Down(nn.Module):
    """Convolution, interpolation, three convolutions side by side in channels, interpolation.

    Args:
        inputs: Channels of the fine grid.
        width: d, channels of the coarse one.
        axes: The D axes.
        sizes: Points per axis of the middle and of the coarse grid.
        activation: Applied after every step.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        axes: Sequence[AxisSignature],
        sizes: tuple[int, int],
        activation: Any,
    ) -> None:
        super().__init__()
        self.axes, self.sizes, self.activate = tuple(axes), sizes, activation
        third = width // 3
        self.first = Convolution(inputs, width, axes)
        ends = [width, third, third, width - 2 * third]
        self.chain = nn.ModuleList(Convolution(a, b, axes) for a, b in pairwise(ends))

    def forward(self, state: Tensor) -> Tensor:
        """Turn ``[B, n_f, …, inputs]`` into ``[B, n_c, …, width]``."""
        state = self.activate(self.first(state))
        state = self.activate(resampled(state, self.sizes[0], self.axes))
        found = []
        for layer in self.chain:
            state = self.activate(layer(state))
            found.append(state)
        return self.activate(resampled(torch.cat(found, -1), self.sizes[1], self.axes))


class Up(nn.Module):
    """Interpolation, convolution and SiLU, interpolation.

    Args:
        width: d.
        axes: The D axes.
        sizes: Points per axis of the middle and of the fine grid.
    """

    def __init__(self, width: int, axes: Sequence[AxisSignature], sizes: tuple[int, int]) -> None:
        super().__init__()
        self.axes, self.sizes = tuple(axes), sizes
        self.convolution = Convolution(width, width, axes)

    def forward(self, state: Tensor) -> Tensor:
        """Turn ``[B, n_c, …, width]`` into ``[B, n_f, …, width]``."""
        state = self.convolution(resampled(state, self.sizes[0], self.axes))
        return resampled(functional.silu(state), self.sizes[1], self.axes)
