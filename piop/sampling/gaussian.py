"""Gaussian random fields in a trigonometric basis: prior, draws and conditioning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.sampling.basis import TrigonometricBasis
from piop.sampling.functions import FourierFunction
from piop.sampling.random import Draws
from piop.spec.distributions import AxisBoundary, GaussianRandomField

if TYPE_CHECKING:
    from piop.problem import Coordinate


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


NEGLECTED = 1e-8
"""Share of the variance that the default number of modes may leave out, where the cap allows."""

CAP = {1: 256, 2: 64, 3: 16}
"""Most periods per axis by default, by number of coordinates (twice as many half waves).

Rough fields (α − d/2 near 0) meet the cap first; state ``modes`` to keep more of them.
"""


def axis_boundary(law: GaussianRandomField, axis: Coordinate) -> AxisBoundary:
    """Boundary of the field: as stated, else periodic where the axis is, else neumann."""
    return law.boundary.get(axis.name, "periodic" if axis.periodic else "neumann")


def gaussian_prior(law: GaussianRandomField, axes: Sequence[Coordinate]) -> Prior:
    """Lay the law out in the eigenfunctions of the Laplacian on the box of ``axes``.

    Raises:
        ValueError: If α ≤ d/2.
    """
    scale, tau, alpha = law.covariance(len(axes))
    kinds = [axis_boundary(law, axis) for axis in axes]
    counts = [law.modes] * len(axes) if law.modes else default_modes(tau, alpha, axes, kinds)
    bases = tuple(map(_basis, axes, kinds, counts))
    squares = _sum([basis.frequency**2 for basis in bases])
    variance = scale * (squares + tau**2) ** -alpha
    if law.zero_mean:
        variance[squares == 0] = 0.0
    return Prior(bases, torch.zeros_like(variance), variance, law.mean)


def default_modes(
    tau: float, alpha: float, axes: Sequence[Coordinate], kinds: Sequence[str]
) -> list[int]:
    """Find the fewest waves per axis that leave out at most ``NEGLECTED`` of the variance.

    The variance beyond a ball of radius w in wavenumber space is bounded by an integral over
    eigenvalues, V/(2π)^d S_d ∫_w^∞ r^(d−1) (r² + τ²)^(−α) dr ≤ V/(2π)^d S_d w^(d−2α)/(2α − d),
    with V the volume and S_d the surface of the unit sphere; it is compared with the sum of the
    modes under the cap.

    Returns:
        Periods for periodic axes, half waves for the others, at most ``CAP`` periods.
    """
    d = len(axes)
    halves = [1 if kind == "periodic" else 2 for kind in kinds]
    bases = [_basis(a, k, CAP[d] * h) for a, k, h in zip(axes, kinds, halves, strict=True)]
    shifted = _sum([basis.frequency**2 for basis in bases]) + tau**2
    kept = float((torch.where(shifted > 0, shifted, torch.inf) ** -alpha).sum())
    sphere = {1: 2.0, 2: 2 * math.pi, 3: 4 * math.pi}[d]
    density = sphere * math.prod((a.high - a.low) / (2 * math.pi) for a in axes)
    power = 2 * alpha - d
    radius = (NEGLECTED * kept * power / density) ** (-1 / power)
    periods = [math.ceil(radius * (a.high - a.low) / (2 * math.pi)) for a in axes]
    return [max(1, min(n, CAP[d])) * h for n, h in zip(periods, halves, strict=True)]


def _basis(axis: Coordinate, kind: str, count: int) -> TrigonometricBasis:
    if kind == "periodic":
        return TrigonometricBasis.periodic(torch.arange(count + 1), axis.low, axis.high, unit=True)
    shape = "cos" if kind == "neumann" else "sin"
    return TrigonometricBasis.half_waves(count, axis.low, axis.high, shape)


def _sum(terms: Sequence[Tensor]) -> Tensor:
    """Add vectors ``[K1], …, [Kd]`` into ``[K1, …, Kd]``."""
    total = terms[0]
    for term in terms[1:]:
        total = total[..., None] + term
    return total
