"""The first two moments of a law in a trigonometric basis: drawn from, and interpolated under."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from piop.sampling.basis import TrigonometricBasis
from piop.sampling.functions import FourierFunction
from piop.sampling.random import Draws


@final
@dataclass(frozen=True)
class Prior:
    """f = offset + Σ_k c_k φ_k with uncorrelated c_k of this mean and variance.

    Attributes:
        bases: One basis per coordinate; φ_k are their products.
        mean: Of the coefficients ``[K1, …, Kd]``, float64.
        variance: Of the coefficients ``[K1, …, Kd]``, float64.
        offset: Constant, units of the input.
    """

    bases: tuple[TrigonometricBasis, ...]
    mean: Tensor
    variance: Tensor
    offset: float = 0.0

    @property
    def mean_square(self) -> Tensor:
        """Averages of φ_k² over the box ``[K1, …, Kd]``."""
        return outer([basis.mean_square for basis in self.bases])

    def normal(self, draws: Draws, lane: str) -> FourierFunction:
        """Draw functions with normally distributed coefficients."""
        noise = draws.normal(lane, *self.variance.shape)
        moved = self.to(noise.device)
        return moved.function(moved.mean + moved.variance.sqrt() * noise)

    def function(self, coefficients: Tensor) -> FourierFunction:
        """Make functions of coefficients ``[B, K1, …, Kd]``."""
        bases = tuple(b.to(coefficients.device, coefficients.dtype) for b in self.bases)
        return FourierFunction(coefficients, bases, self.offset)

    def to(self, device: torch.device | str | None) -> Prior:
        """Move to a device."""
        bases = tuple(basis.to(device, None) for basis in self.bases)
        return replace(
            self, bases=bases, mean=self.mean.to(device), variance=self.variance.to(device)
        )

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the values, over all draws and the whole box."""
        constants = [basis.mean_square * (basis.frequency == 0) for basis in self.bases]
        # A constant function's mean is the root of its mean square; a sine of half waves has a mean
        # too, but no law here gives its coefficient one.
        mean = self.offset + float((self.mean * outer(constants).sqrt()).sum())
        second = float((self.mean_square * (self.mean**2 + self.variance)).sum())
        cross = 2 * self.offset * (mean - self.offset) + self.offset**2
        return mean, math.sqrt(max(0.0, second + cross - mean**2))


def outer(factors: list[Tensor]) -> Tensor:
    """Multiply vectors ``[K1], …, [Kd]`` into ``[K1, …, Kd]``."""
    product = factors[0]
    for factor in factors[1:]:
        product = product[..., None] * factor
    return product
