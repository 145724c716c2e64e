"""Gaussian random fields as sums over the eigenfunctions of the Laplacian.

With orthonormal eigenfunctions φ_k of −Δ and eigenvalues λ_k, f = mean + Σ_k ξ_k √(scale (λ_k +
τ²)^(−α)) φ_k with independent standard normal ξ_k has covariance scale·(−Δ + τ²)^(−α).

Source: Li et al. 2021, App. A.3 (2010.08895), stated by covariance; the published generators
differ from their texts by constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.sampling.basis import TrigonometricBasis
from piop.sampling.prior import Prior
from piop.spec.laws import AxisBoundary, GaussianRandomField

if TYPE_CHECKING:
    from piop.problem import Coordinate

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
