"""Convolution by a few harmonics: the spectral layer of Fourier neural operators.

Z. Li et al., *Fourier Neural Operator for Parametric Partial Differential Equations*, ICLR 2021,
arXiv:2010.08895, eq. 4 and 5. Here the transform is a product with matrices of cosines and sines,
axis by axis: for few modes as quick as a fast transform, free of complex numbers, so that weights
are real pairs that any optimiser takes and ONNX can express.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from piop.models.core.base import AxisSignature


@dataclass(frozen=True)
class TransformAxis:
    """Points along one axis of a grid within a period, with quadrature weights.

    Attributes:
        angle: Position of each point within the period ``[n]``, radians, float64.
        weight: Quadrature weight of each point ``[n]``, one over a whole period, float64.
        even: Whether the points divide the period evenly, so that n/2 is their highest wave number.
    """

    angle: Tensor
    weight: Tensor
    even: bool

    @classmethod
    def padded(cls, positions: Tensor, low: float, high: float, padding: float) -> TransformAxis:
        """Embed an interval in a longer period, with functions zero beyond its ends.

        The weight of a point is the interval between the midpoints to its neighbours: the trapezoid
        rule where the ends are among the points, the midpoint rule for cell centres.

        Args:
            positions: Increasing positions ``[n]`` from ``low`` to ``high``, units of the axis.
            low: Lower end.
            high: Upper end.
            padding: Length that is added to the period, as a fraction of the interval.
        """
        at = positions.double()
        period = (1 + padding) * (high - low)
        inner = (at[1:] + at[:-1]) / 2
        edges = torch.cat([torch.full_like(at[:1], low), inner, torch.full_like(at[:1], high)])
        weight = (edges[1:] - edges[:-1]) / period
        return cls((at - low) * (2 * math.pi / period), weight, False)

    @classmethod
    def along(cls, axis: AxisSignature, positions: Tensor, padding: float) -> TransformAxis:
        """Take a periodic axis for the period, and pad any other; with no padding, take both.

        A period is divided evenly, from anywhere: convolutions commute with shifts.

        Args:
            axis: The axis.
            positions: Increasing positions ``[n]`` along it.
            padding: Length that is added to an axis that is not periodic, as a fraction of its own.
        """
        if axis.periodic or not padding:
            count = len(positions)
            steps = torch.arange(count, dtype=torch.float64, device=positions.device)
            return cls(steps * (2 * math.pi / count), torch.full_like(steps, 1 / count), True)
        return cls.padded(positions, axis.low, axis.high, padding)


class FourierTransform:
    """Truncated discrete Fourier transform of real functions on a tensor grid, and its inverse.

    Along the last axis the wave numbers are 0 … K − 1, since those of real functions come in
    conjugate pairs; along every other one −⌊K/2⌋ … ⌈K/2⌉ − 1. Coefficients are means,
    (1/n) Σ_j x_j exp(−i k θ_j), so they do not depend on the grid once it resolves the function. On
    a grid too coarse for K, the wave numbers it has are kept. That of n/2 (Nyquist's) enters by
    its cosine alone: its sine vanishes at all points.

    Args:
        axes: The D axes.
        modes: K along each axis.
        like: A tensor of the dtype and device of the functions.
    """

    def __init__(self, axes: Sequence[TransformAxis], modes: Sequence[int], like: Tensor) -> None:
        sizes = [len(axis.angle) for axis in axes]
        self.kept = [min(k, n) for k, n in zip(modes[:-1], sizes, strict=False)]
        highest = sizes[-1] // 2 + 1 if axes[-1].even else modes[-1]
        self.kept.append(min(modes[-1], highest))
        lowest = [-(k // 2) for k in self.kept[:-1]] + [0]
        self.analysis: list[Tensor] = []
        self.synthesis: list[Tensor] = []
        for axis, first, count in zip(axes, lowest, self.kept, strict=True):
            waves = torch.arange(first, first + count, device=axis.angle.device)
            phase = waves[:, None].to(axis.angle) * axis.angle
            pair = torch.stack([phase.cos(), phase.sin()])  # [2, K, n]
            self.analysis.append(pair * axis.weight)
            self.synthesis.append(pair.mT)
        # Each wave number of the last axis represents its conjugate too; 0 and n/2 have none.
        alone = axes[-1].even and 2 * (self.kept[-1] - 1) == sizes[-1]
        factors = [1.0] + [2.0] * (self.kept[-1] - 1)
        factors[-1] = 1.0 if alone else factors[-1]
        twice = axes[-1].angle.new_tensor(factors)
        sign = twice.new_tensor([1.0, -1.0])[:, None, None]
        # Rows, or columns, alternate between real and imaginary parts.
        self.analysis[-1] = (self.analysis[-1] * sign).transpose(0, 1).flatten(0, 1)
        self.synthesis[-1] = (self.synthesis[-1] * sign * twice).permute(1, 2, 0).flatten(1)
        self.analysis = [matrix.to(like) for matrix in self.analysis]
        self.synthesis = [matrix.to(like) for matrix in self.synthesis]

    def forward(self, values: Tensor) -> Tensor:
        """Transform ``[B, n_1, …, n_D, c]`` into ``[B, K_1, …, K_D, 2, c]``, real parts first."""
        *before, _, channels = values.shape
        state = self.analysis[-1] @ values
        state = state.reshape(*before, self.kept[-1], 2, channels)
        for axis in reversed(range(len(self.analysis) - 1)):
            state = multiply_phases(state, self.analysis[axis], axis + 1, -1.0)
        return state

    def inverse(self, coefficients: Tensor) -> Tensor:
        """Evaluate ``[B, K_1, …, K_D, 2, c]`` on the grid: ``[B, n_1, …, n_D, c]``."""
        state = coefficients
        for axis, matrix in enumerate(self.synthesis[:-1]):
            state = multiply_phases(state, matrix, axis + 1, 1.0)
        return self.synthesis[-1] @ state.flatten(-3, -2)


def multiply_phases(state: Tensor, matrix: Tensor, axis: int, sign: float) -> Tensor:
    """Multiply by exp(± i φ) and sum along an axis.

    Args:
        state: Complex numbers as pairs ``[…, n, …, 2, c]``.
        matrix: cos φ and sin φ ``[2, m, n]``.
        axis: That of n.
        sign: That of the exponent.

    Returns:
        ``[…, m, …, 2, c]``.
    """
    before, after = state.shape[:axis], state.shape[axis + 1 :]
    rows = state.reshape(-1, matrix.shape[-1], math.prod(after))
    parts = (matrix.flatten(0, 1) @ rows).reshape(*before, 2, matrix.shape[1], *after)
    cosine, sine = parts.unbind(len(before))
    real = cosine[..., 0, :] - sign * sine[..., 1, :]
    imaginary = cosine[..., 1, :] + sign * sine[..., 0, :]
    return torch.stack([real, imaginary], -2)


class SpectralConvolution(nn.Module):
    """Multiplies the low Fourier coefficients of a function by matrices, and drops the rest.

    The weights of a wave number are the same on every grid, so the layer is a convolution with a
    smooth kernel, whatever the grid.

    Args:
        inputs: Channels in.
        outputs: Channels out.
        modes: K along each axis, as :class:`FourierTransform` counts them.

    Attributes:
        weight: Real and imaginary parts ``[2, K_1, …, K_D, inputs, outputs]``, drawn so that a
            coefficient keeps its variance.
    """

    def __init__(self, inputs: int, outputs: int, modes: Sequence[int]) -> None:
        super().__init__()
        self.modes = tuple(modes)
        size = (inputs + outputs) ** -0.5
        self.weight = nn.Parameter(size * torch.randn(2, *self.modes, inputs, outputs))

    def forward(self, values: Tensor, transform: FourierTransform) -> Tensor:
        """Convolve.

        Args:
            values: ``[B, n_1, …, n_D, inputs]``.
            transform: That of the grid, which layers share.

        Returns:
            ``[B, n_1, …, n_D, outputs]``.
        """
        return transform.inverse(self.mix(transform.forward(values)))

    def mix(self, coefficients: Tensor) -> Tensor:
        """Multiply coefficients ``[B, K_1, …, K_D, 2, inputs]`` by the weights."""
        batch, *kept, _, _ = coefficients.shape
        weight = self.weight
        for axis, (count, full) in enumerate(zip(kept, self.modes, strict=True), start=1):
            last = axis == len(kept)
            weight = weight.narrow(axis, 0 if last else full // 2 - count // 2, count)
        real, imaginary = weight.flatten(1, -3).unbind(0)  # [K, inputs, outputs] each
        rows = coefficients.flatten(1, -3).permute(1, 2, 0, 3).flatten(1, 2)  # [K, 2 B, inputs]
        by_real, by_imaginary = rows @ real, rows @ imaginary
        parts = (
            by_real[:, :batch] - by_imaginary[:, batch:],
            by_real[:, batch:] + by_imaginary[:, :batch],
        )
        mixed = torch.stack(parts, 1)
        return mixed.permute(2, 0, 1, 3).reshape(batch, *kept, 2, -1)
