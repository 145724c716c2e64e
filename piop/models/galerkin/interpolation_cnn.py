"""Interpolation-based CNNs: from a fine grid to tokens on a coarse one, and back.

S. Cao, *Choose a Transformer: Fourier or Galerkin*, NeurIPS 2021, arXiv:2105.14995, App. B, Fig. 6
and 7. Written for any number of axes, and round periodic ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from piop.models.core.base import AxisSignature

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def middle(fine: int, coarse: int) -> int:
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
    """3 × … × 3 convolution without bias that keeps the grid: zeros beyond walls, round periods.

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
    """Interpolation, convolution, interpolation.

    Args:
        width: d.
        axes: The D axes.
        sizes: Points per axis of the middle and of the fine grid.
        activation: Applied after the convolution.
    """

    def __init__(
        self, width: int, axes: Sequence[AxisSignature], sizes: tuple[int, int], activation: Any
    ) -> None:
        super().__init__()
        self.axes, self.sizes, self.activate = tuple(axes), sizes, activation
        self.convolution = Convolution(width, width, axes)

    def forward(self, state: Tensor) -> Tensor:
        """Turn ``[B, n_c, …, width]`` into ``[B, n_f, …, width]``."""
        state = resampled(state, self.sizes[0], self.axes)
        return resampled(self.activate(self.convolution(state)), self.sizes[1], self.axes)
