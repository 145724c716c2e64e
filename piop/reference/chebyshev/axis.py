"""One axis of a collocation mesh: nodes, differentiation, quadrature and interpolation.

Walled axes have Chebyshev points of the second kind, both walls among them; periodic axes an odd
number of even points, so that no mode is ambiguous.

Source: Trefethen 2000, Spectral Methods in MATLAB, ch. 3, 6 and 12
(doi:10.1137/1.9780898719598); differences of nodes by products of sines and diagonals by negative
sums as in Baltensperger and Trummer 2003 (doi:10.1137/S1064827501388182), higher derivatives by
the recursion of Welfert 1997 (doi:10.1137/S0036142993295545); barycentric interpolation as in
Berrut and Trefethen 2004 (doi:10.1137/S0036144502417715).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Axis:
    """Nodes of one axis and what is linear in values at them.

    Attributes:
        nodes: Ascending ``[n]`` (physical).
        weights: Of the quadrature over the axis ``[n]`` (physical).
        periodic: Whether the ends are one point.
        derivative: Order → matrix ``[n, n]``.
        interpolate: Points ``[m]`` → matrix ``[m, n]``.
        lowered: Values at the nodes ``[n, n]`` of the polynomial through those off the walls.
    """

    nodes: Tensor
    weights: Tensor
    periodic: bool
    derivative: Callable[[int], Tensor]
    interpolate: Callable[[Tensor], Tensor]
    lowered: Tensor


def chebyshev_axis(low: float, high: float, n: int, device: torch.device) -> Axis:
    """Chebyshev points of the second kind on [low, high], ``n`` of them, walls included."""
    half = (high - low) / 2
    index = torch.arange(n, dtype=torch.float64, device=device)
    nodes = low + half * (1 - torch.cos(math.pi * index / (n - 1)))
    nodes[-1] = high
    signs = torch.where(index % 2 == 0, 1.0, -1.0).to(nodes)
    signs[[0, -1]] *= 0.5
    step = math.pi / (2 * (n - 1))
    gaps = (
        2 * torch.sin((index[:, None] + index) * step) * torch.sin((index[:, None] - index) * step)
    )
    gaps = half * gaps + torch.eye(n, dtype=torch.float64, device=device)  # 1 where i = j
    matrices = [torch.eye(n, dtype=torch.float64, device=device)]

    def derivative(order: int) -> Tensor:
        while len(matrices) <= order:
            last, k = matrices[-1], len(matrices)
            ratio = signs / signs[:, None]
            matrix = k / gaps * (ratio * last.diagonal()[:, None] - last)
            matrix.fill_diagonal_(0)
            matrices.append(matrix - torch.diag(matrix.sum(1)))
        return matrices[order]

    def interpolate(points: Tensor) -> Tensor:
        apart = points[:, None] - nodes
        hit = apart == 0
        terms = signs / torch.where(hit, torch.ones_like(apart), apart)
        matrix = terms / terms.sum(1, keepdim=True)
        return torch.where(hit.any(1, keepdim=True), hit.to(matrix), matrix)

    weights = half * _clenshaw_curtis(n, device)
    return Axis(nodes, weights, False, derivative, interpolate, _lowered(n, device))


def fourier_axis(low: float, length: float, n: int, device: torch.device) -> Axis:
    """An odd number of even points on [low, low + length), the right end left out."""
    index = torch.arange(n, dtype=torch.float64, device=device)
    nodes = low + length / n * index
    waves = torch.fft.rfft(torch.eye(n, dtype=torch.float64, device=device), dim=0)
    numbers = torch.arange(n // 2 + 1, dtype=torch.float64, device=device) * (2 * math.pi / length)

    def derivative(order: int) -> Tensor:
        return torch.fft.irfft((1j * numbers[:, None]) ** order * waves, n=n, dim=0).contiguous()

    def interpolate(points: Tensor) -> Tensor:
        angle = math.pi / length * (points[:, None] - nodes)
        below = n * torch.sin(angle)
        hit = below.abs() < 1e-12
        matrix = torch.sin(n * angle) / torch.where(hit, torch.ones_like(below), below)
        return torch.where(hit, torch.ones_like(matrix), matrix)

    weights = torch.full((n,), length / n, dtype=torch.float64, device=device)
    whole = torch.eye(n, dtype=torch.float64, device=device)
    return Axis(nodes, weights, True, derivative, interpolate, whole)


def _lowered(n: int, device: torch.device) -> Tensor:
    """Extrapolate to both ends from the other nodes, by barycentric weights (−1)^j sin² θ_j."""
    index = torch.arange(1, n - 1, dtype=torch.float64, device=device)
    angle = math.pi * index / (n - 1)
    signed = torch.where(index % 2 == 0, 1.0, -1.0) * torch.sin(angle) ** 2
    matrix = torch.eye(n, dtype=torch.float64, device=device)
    for row, apart in ((0, torch.sin(angle / 2) ** 2), (-1, torch.cos(angle / 2) ** 2)):
        terms = signed / apart
        matrix[row, 1:-1] = terms / terms.sum()
        matrix[row, [0, -1]] = 0.0
    return matrix


def _clenshaw_curtis(n: int, device: torch.device) -> Tensor:
    """Weights on [−1, 1]: exact for polynomials of degree n − 1, by their Chebyshev moments."""
    index = torch.arange(n, dtype=torch.float64, device=device)
    polynomials = torch.cos(math.pi / (n - 1) * index[:, None] * index)  # [degree, node]
    halved = torch.ones(n, dtype=torch.float64, device=device)
    halved[[0, -1]] = 0.5
    moments = torch.where(index % 2 == 0, 2 / (1 - index**2 + (index == 1)), 0.0)
    return 2 / (n - 1) * halved * ((halved * moments) @ polynomials)
