"""Gaussian random fields and random Fourier series: coefficients in a trigonometric basis."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from torch import Tensor

from piop.fields import Device
from piop.sampling.functions import ProductFunction, TrigonometricBasis
from piop.sampling.random import Draws
from piop.spec.distribution_keys import AxisBoundary
from piop.spec.distributions import FourierSeries, GaussianRandomField

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

    def normal(self, draws: Draws, stream: str) -> ProductFunction:
        """Draw functions with normally distributed coefficients."""
        noise = draws.normal(stream, *self.variance.shape)
        moved = self.to(noise.device)
        return moved.function(moved.mean + moved.variance.sqrt() * noise)

    def function(self, coefficients: Tensor) -> ProductFunction:
        """Make functions of coefficients ``[B, K1, …, Kd]``."""
        bases = tuple(b.to(coefficients.device, coefficients.dtype) for b in self.bases)
        return ProductFunction(coefficients, bases, coefficients.new_tensor([self.offset]))

    def to(self, device: Device) -> Prior:
        """Move to a device."""
        bases = tuple(basis.to(device, None) for basis in self.bases)
        return replace(
            self, bases=bases, mean=self.mean.to(device), variance=self.variance.to(device)
        )

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the values, over all draws and the whole box."""
        constants = [basis.mean_square * (basis.frequency == 0) for basis in self.bases]
        # A constant function's mean is the root of its mean square; a sine of half waves has a mean
        # too, but no distribution here gives its coefficient one.
        mean = self.offset + float((self.mean * outer(constants).sqrt()).sum())
        second = float((self.mean_square * (self.mean**2 + self.variance)).sum())
        cross = 2 * self.offset * (mean - self.offset) + self.offset**2
        return mean, math.sqrt(max(0.0, second + cross - mean**2))


def outer(factors: list[Tensor]) -> Tensor:
    """Multiply vectors ``[K1], …, [Kd]`` into ``[K1, …, Kd]``."""
    return reduce(lambda product, factor: product[..., None] * factor, factors)


NEGLECTED_VARIANCE = 1e-8
"""Fraction of the variance that the default number of modes may leave out, where the cap allows."""

MAX_PERIODS = {1: 256, 2: 64, 3: 16, 4: 8}
"""Most periods per axis by default, by number of coordinates (twice as many half waves).

Rough fields (α − d/2 near 0) meet the cap first; state ``modes`` to keep more of them.
"""


def axis_boundary(field: GaussianRandomField, axis: Coordinate) -> AxisBoundary:
    """Boundary of the field: as stated, else periodic where the axis is, else neumann."""
    return field.boundary.get(axis.name, "periodic" if axis.periodic else "neumann")


def gaussian_prior(field: GaussianRandomField, axes: Sequence[Coordinate]) -> Prior:
    """Expand the field in the eigenfunctions of the Laplacian on the box of ``axes``.

    Raises:
        ValueError: If α ≤ d/2.
    """
    scale, tau, alpha = field.covariance(len(axes))
    kinds = [axis_boundary(field, axis) for axis in axes]
    counts = [field.modes] * len(axes) if field.modes else default_modes(tau, alpha, axes, kinds)
    bases = tuple(map(_basis, axes, kinds, counts))
    squares = _eigenvalues(bases)
    variance = scale * (squares + tau**2) ** -alpha
    if field.zero_mean:
        variance[squares == 0] = 0.0
    return Prior(bases, torch.zeros_like(variance), variance, field.mean)


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
    bases = [_basis(a, k, MAX_PERIODS[d] * h) for a, k, h in zip(axes, kinds, halves, strict=True)]
    shifted = _eigenvalues(bases) + tau**2
    kept = float((torch.where(shifted > 0, shifted, torch.inf) ** -alpha).sum())
    sphere = {1: 2.0, 2: 2 * math.pi, 3: 4 * math.pi, 4: 2 * math.pi**2}[d]
    density = sphere * math.prod(a.length / (2 * math.pi) for a in axes)
    power = 2 * alpha - d
    radius = (NEGLECTED_VARIANCE * kept * power / density) ** (-1 / power)
    periods = [math.ceil(radius * a.length / (2 * math.pi)) for a in axes]
    return [max(1, min(n, MAX_PERIODS[d])) * h for n, h in zip(periods, halves, strict=True)]


def _basis(axis: Coordinate, kind: str, count: int) -> TrigonometricBasis:
    if kind == "periodic":
        return TrigonometricBasis.periodic(torch.arange(count + 1), axis.low, axis.high, unit=True)
    shape = "cos" if kind == "neumann" else "sin"
    return TrigonometricBasis.half_waves(count, axis.low, axis.high, shape)


def _eigenvalues(bases: Sequence[TrigonometricBasis]) -> Tensor:
    """Eigenvalues of −Δ, the squared frequencies of a product's factors added ``[K1, …, Kd]``."""
    squares = [basis.frequency**2 for basis in bases]
    return reduce(lambda total, square: total[..., None] + square, squares)


def series_bases(
    series: FourierSeries, axes: Sequence[Coordinate]
) -> tuple[TrigonometricBasis, ...]:
    """Cosines, then sines, of every wavenumber, amplitude 1, for each axis."""
    low, high = series.wavenumber
    numbers = torch.arange(low, high + 1)
    ends = [(axis.low, axis.high) for axis in axes]
    return tuple(TrigonometricBasis.periodic(numbers, *e, unit=False) for e in ends)


def draw_series(
    series: FourierSeries, axes: Sequence[Coordinate], draws: Draws, stream: str
) -> ProductFunction:
    """Draw functions, each a sum of products of the bases' functions.

    A sin(Σ_a θ_a + φ) is the imaginary part of A e^(iφ) Π_a (cos θ_a + i sin θ_a). Multiplied
    out, that is a sum of products of the bases' cosines and sines.
    """
    d, terms = len(axes), series.terms
    amplitude = _between(series.amplitude, draws.uniform(f"{stream}/amplitude", terms))
    phase = _between(series.phase, draws.uniform(f"{stream}/phase", terms))
    numbers = draws.integers(f"{stream}/wavenumber", *series.wavenumber, terms, d)
    signs = torch.ones_like(numbers)
    if d > 1:  # in one coordinate a sign would only rename the phase: the series is without it
        signs = 2 * draws.integers(f"{stream}/sign", 0, 1, terms, d) - 1
    weight = torch.polar(torch.ones_like(phase), phase) * amplitude  # [B, terms]
    waves = _waves(series, numbers, signs)  # [B, terms, d, K]
    product = weight[..., None] * waves[:, :, 0]
    for axis in range(1, d):
        product = product[..., None] * waves[:, :, axis].unflatten(-1, (*[1] * axis, -1))
    coefficients = product.sum(1).imag.contiguous()
    bases = tuple(basis.to(coefficients.device, None) for basis in series_bases(series, axes))
    return ProductFunction(coefficients, bases, coefficients.new_zeros(1))


def series_prior(series: FourierSeries, axes: Sequence[Coordinate]) -> Prior:
    """Mean and variance of the coefficients.

    Exact, and the coefficients uncorrelated, when the phases cover whole turns; otherwise their
    correlations are left out.
    """
    low, high = series.wavenumber
    d, probability = len(axes), 1 / (high - low + 1)
    bases = series_bases(series, axes)
    chance = outer([torch.full((b.size,), probability, dtype=torch.float64) for b in bases])
    sine = [(b.phase != 0).double() for b in bases]
    # One factor per axis: 1 for a cosine, i·sign for a sine, whose mean is 0 if the sign is random.
    square = outer([1 - 2 * s for s in sine])
    first = outer([1 - s + (1j * s if d == 1 else 0 * s) for s in sine]) * chance
    mean_a, square_a = _power_mean(series.amplitude, 1), _power_mean(series.amplitude, 2)
    mean = series.terms * mean_a * (first * _turn_mean(series.phase, 1)).imag
    second = square_a * chance * (1 - square * _turn_mean(series.phase, 2).real) / 2
    variance = series.terms * second - mean**2 / series.terms
    return Prior(bases, mean, variance.clamp_min(0.0))


def _waves(series: FourierSeries, numbers: Tensor, signs: Tensor) -> Tensor:
    """Coefficients of e^(±iθ) in cosines and sines per axis: complex ``[B, terms, d, K]``."""
    low, high = series.wavenumber
    one_hot = torch.nn.functional.one_hot(numbers - low, high - low + 1).double()
    sines = one_hot[..., 1:] if low == 0 else one_hot
    return torch.cat((one_hot + 0j, 1j * signs[..., None] * sines), -1)


def _between(ends: tuple[float, float], u: Tensor) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * u


def _power_mean(ends: tuple[float, float], power: int) -> float:
    """Mean of A^power for A uniform between the ends; infinite where powers overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = np.array(ends)
        if low == high:
            return float(low**power)
        mean = (high ** (power + 1) - low ** (power + 1)) / ((power + 1) * (high - low))
    return float(mean)


def _turn_mean(ends: tuple[float, float], turns: int) -> complex:
    """Mean of e^(i·turns·φ) for φ uniform between the ends."""
    low, high = ends
    if low == high:
        return cmath.exp(1j * turns * low)
    step = cmath.exp(1j * turns * high) - cmath.exp(1j * turns * low)
    return step / (1j * turns * (high - low))
