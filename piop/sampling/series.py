"""Random Fourier series: few sines with random amplitude, wavenumber and phase.

Source: Dos Santos et al. 2023, sec. 4.
"""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.sampling.basis import TrigonometricBasis
from piop.sampling.functions import FourierFunction
from piop.sampling.gaussian import Prior, outer
from piop.sampling.random import Draws
from piop.spec.distributions import FourierSeries

if TYPE_CHECKING:
    from piop.problem import Coordinate


def series_bases(law: FourierSeries, axes: Sequence[Coordinate]) -> tuple[TrigonometricBasis, ...]:
    """Cosines, then sines, of every wavenumber of the law, amplitude 1, for each axis."""
    low, high = law.wavenumber
    numbers = torch.arange(low, high + 1)
    return tuple(
        TrigonometricBasis.periodic(numbers, axis.low, axis.high, unit=False) for axis in axes
    )


def draw_series(
    law: FourierSeries, axes: Sequence[Coordinate], draws: Draws, lane: str
) -> FourierFunction:
    """Draw functions, each a sum of products of the bases' functions.

    A sin(Σ_a θ_a + φ) is the imaginary part of A e^(iφ) Π_a (cos θ_a + i sin θ_a). Multiplied
    out, that is a sum of products of the bases' cosines and sines.
    """
    d, terms = len(axes), law.terms
    amplitude = _between(law.amplitude, draws.uniform(f"{lane}/amplitude", terms))
    phase = _between(law.phase, draws.uniform(f"{lane}/phase", terms))
    numbers = draws.integers(f"{lane}/wavenumber", *law.wavenumber, terms, d)
    # In one coordinate a sign would only rename the phase; the law is stated without it.
    signs = 2 * draws.integers(f"{lane}/sign", 0, 1, terms, d) - 1 if d > 1 else 1
    weight = torch.polar(torch.ones_like(phase), phase) * amplitude  # [B, terms]
    waves = _waves(law, numbers, signs)  # [B, terms, d, K]
    product = weight[..., None] * waves[:, :, 0]
    for axis in range(1, d):
        factor = waves[:, :, axis]
        product = product[..., None] * factor.unflatten(-1, (*[1] * axis, -1))
    coefficients = product.sum(1).imag.contiguous()
    bases = tuple(basis.to(coefficients.device, None) for basis in series_bases(law, axes))
    return FourierFunction(coefficients, bases)


def series_prior(law: FourierSeries, axes: Sequence[Coordinate]) -> Prior:
    """Mean and variance of the coefficients.

    Exact, and the coefficients uncorrelated, when the phases cover whole turns; otherwise their
    correlations are left out.
    """
    low, high = law.wavenumber
    d, share = len(axes), 1 / (high - low + 1)
    bases = series_bases(law, axes)
    chance = outer([torch.full((b.size,), share, dtype=torch.float64) for b in bases])
    sine = [(b.phase != 0).double() for b in bases]
    # One factor per axis: 1 for a cosine, i·sign for a sine, whose mean is 0 if the sign is random.
    square = outer([1 - 2 * s for s in sine])
    first = outer([1 - s + (1j * s if d == 1 else 0 * s) for s in sine]) * chance
    mean_a, square_a = _power_mean(law.amplitude, 1), _power_mean(law.amplitude, 2)
    mean = law.terms * mean_a * (first * _turn_mean(law.phase, 1)).imag
    second = square_a * chance * (1 - square * _turn_mean(law.phase, 2).real) / 2
    variance = law.terms * second - mean**2 / law.terms
    return Prior(bases, mean, variance.clamp_min(0.0))


def _waves(law: FourierSeries, numbers: Tensor, signs: Tensor | int) -> Tensor:
    """Coefficients of e^(±iθ) in cosines and sines per axis: complex ``[B, terms, d, K]``."""
    low, high = law.wavenumber
    one_hot = torch.nn.functional.one_hot(numbers - low, high - low + 1).double()
    sines = one_hot[..., 1:] if low == 0 else one_hot
    factor = signs[..., None] if isinstance(signs, Tensor) else signs
    return torch.cat((one_hot + 0j, 1j * factor * sines), -1)


def _between(ends: tuple[float, float], u: Tensor) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * u


def _power_mean(ends: tuple[float, float], power: int) -> float:
    """Mean of A^power for A uniform between the ends."""
    low, high = ends
    if low == high:
        return low**power
    return (high ** (power + 1) - low ** (power + 1)) / ((power + 1) * (high - low))


def _turn_mean(ends: tuple[float, float], turns: int) -> complex:
    """Mean of e^(i·turns·φ) for φ uniform between the ends."""
    low, high = ends
    if low == high:
        return cmath.exp(1j * turns * low)
    step = cmath.exp(1j * turns * high) - cmath.exp(1j * turns * low)
    return step / (1j * turns * (high - low))
