"""Fourier transforms on small grids as products with real matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor


@final
class RealTransforms:
    """Fourier transforms of real values on even grids, as products with real matrices.

    A complex number is a pair of real ones: compilers and automatic differentiation know no other
    operation than the product, which on these small grids takes no longer than a fast transform.

    Args:
        points: Points along each of d axes.
        like: A tensor of the device and precision.

    Attributes:
        modes: Waves along each axis: half a spectrum along the last one.
    """

    def __init__(self, points: Sequence[int], like: Tensor) -> None:
        *others, last = points
        self.modes = (*others, last // 2 + 1)
        waves = [torch.arange(count, dtype=torch.float64) for count in self.modes]
        self._forward, self._backward = [], []
        for k, n in zip(waves, points, strict=True):
            angles = 2 * math.pi / n * (k[:, None] * torch.arange(n)).remainder(n)  # [K, n]
            cosine, sine = angles.cos(), angles.sin()
            # exp(−ikx) takes pairs to pairs, exp(ikx)/n takes them back
            there = torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)])
            back = torch.cat(
                [torch.cat([cosine.mT, -sine.mT], 1), torch.cat([sine.mT, cosine.mT], 1)]
            )
            self._forward.append(there.to(like))
            self._backward.append((back / n).to(like))
        double = torch.full((self.modes[-1],), 2.0, dtype=torch.float64)
        double[0] = 1.0  # all others stand for their conjugates too
        if last % 2 == 0:
            double[-1] = 1.0
        self._forward[-1] = self._forward[-1][:, :last].contiguous()  # of real values
        self._backward[-1] = (self._backward[-1][:last] * double.repeat(2).to(like)).contiguous()

    def forward(self, values: Tensor) -> Tensor:
        """Transform values ``[…, n_1, …, n_d]`` to pairs ``[…, 2, K]``, K the product of modes."""
        d = len(self.modes)
        found = (values @ self._forward[-1].mT).unflatten(-1, (2, -1)).movedim(-2, -1 - d)
        for axis, matrix in enumerate(self._forward[:-1]):
            found = self._along(found, matrix, axis)
        return found.flatten(-d)

    def backward(self, spectrum: Tensor) -> Tensor:
        """Transform pairs ``[…, 2, *modes]`` to values ``[…, n_1, …, n_d]``."""
        d = len(self.modes)
        for axis, matrix in enumerate(self._backward[:-1]):
            spectrum = self._along(spectrum, matrix, axis)
        return spectrum.movedim(-1 - d, -2).flatten(-2) @ self._backward[-1].mT

    def _along(self, pairs: Tensor, matrix: Tensor, axis: int) -> Tensor:
        """Apply a matrix on pairs along one axis of ``[…, 2, n_1, …, n_d]``."""
        d = len(self.modes)
        place = axis - d
        moved = pairs.movedim(-1 - d, -1).movedim(place - 1, -1).flatten(-2)
        found = (moved @ matrix.mT).unflatten(-1, (2, -1))
        return found.movedim(-1, place - 1).movedim(-1, -1 - d)
