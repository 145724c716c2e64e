"""Chebyshev polynomials as a basis of one coordinate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, final

import torch
from torch import Tensor

from piop.fields import Device
from piop.sampling.functions import Basis


@final
@dataclass(frozen=True)
class ChebyshevBasis(Basis):
    """T_k((2x − low − high)/(high − low)), k = 0 … K − 1, on [low, high].

    Attributes:
        low: Low end of the axis.
        high: High end.
        slope: Coefficients of the derivative of each function ``[K, K]``, inverse units of x:
            T_k' = Σ_j slope[j, k] T_j.
    """

    low: float
    high: float
    slope: Tensor

    @classmethod
    def of_size(cls, size: int, low: float, high: float) -> Self:
        """Take the first ``size`` polynomials, in float64.

        Source: T_k' = 2k (T_{k−1} + T_{k−3} + …), the last term halved where it is T_0; Mason &
        Handscomb 2003, Chebyshev Polynomials, eq. 2.49.
        """
        row, column = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        below = (row < column) & ((column - row) % 2 == 1)
        slope = torch.where(below, 2.0 * column, 0.0).double()
        slope[0] /= 2
        return cls(low, high, slope * (2 / (high - low)))

    @property
    def size(self) -> int:
        """K, the number of functions."""
        return len(self.slope)

    def table(self, x: Tensor, order: int = 0) -> Tensor:
        """See the base class; points outside the axis count as its ends."""
        unit = (2 * x - self.low - self.high) / (self.high - self.low)
        index = torch.arange(self.size, dtype=x.dtype, device=x.device)
        table = torch.cos(torch.acos(unit.clamp(-1, 1))[..., None] * index)
        return table @ torch.linalg.matrix_power(self.slope, order) if order else table

    def to(self, device: Device, dtype: torch.dtype | None) -> Self:
        """Move to a device or dtype."""
        return replace(self, slope=self.slope.to(device=device, dtype=dtype))
