"""Tensor products of collocation axes: nodes, differentiation, quadrature and interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import torch
from torch import Tensor

from piop.forms.linear_nonlinear_split import Order


@dataclass(frozen=True)
class CollocationAxis:
    """Nodes of one axis, and linear operators on values at them.

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


def chebyshev_axis(low: float, high: float, n: int, device: torch.device) -> CollocationAxis:
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
        difference = points[:, None] - nodes
        hit = difference == 0
        terms = signs / torch.where(hit, torch.ones_like(difference), difference)
        matrix = terms / terms.sum(1, keepdim=True)
        return torch.where(hit.any(1, keepdim=True), hit.to(matrix), matrix)

    weights = half * _clenshaw_curtis(n, device)
    return CollocationAxis(nodes, weights, False, derivative, interpolate, _lowered(n, device))


def fourier_axis(low: float, length: float, n: int, device: torch.device) -> CollocationAxis:
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
    return CollocationAxis(nodes, weights, True, derivative, interpolate, whole)


def _lowered(n: int, device: torch.device) -> Tensor:
    """Extrapolate to both ends from the other nodes, by barycentric weights (−1)^j sin² θ_j."""
    index = torch.arange(1, n - 1, dtype=torch.float64, device=device)
    angle = math.pi * index / (n - 1)
    signed = torch.where(index % 2 == 0, 1.0, -1.0) * torch.sin(angle) ** 2
    matrix = torch.eye(n, dtype=torch.float64, device=device)
    for row, difference in ((0, torch.sin(angle / 2) ** 2), (-1, torch.cos(angle / 2) ** 2)):
        terms = signed / difference
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


@final
class CollocationMesh:
    """Collocation points of a box.

    Args:
        space: The problem's space coordinates.
        sizes: Points per axis; odd along periodic ones.
        device: Where tensors live.
    """

    def __init__(self, space: Sequence[Any], sizes: Sequence[int], device: torch.device) -> None:
        self.sizes, self.device = tuple(sizes), device
        self.parts: tuple[CollocationAxis, ...] = tuple(
            fourier_axis(c.low, c.length, n, device)
            if c.periodic
            else chebyshev_axis(c.low, c.high, n, device)
            for c, n in zip(space, sizes, strict=True)
        )
        self.points = math.prod(self.sizes)
        weights = [a.weights / a.weights.sum() for a in self.parts]
        one = torch.ones((), dtype=torch.float64, device=device)
        self.weights = reduce(lambda a, b: a[..., None] * b, weights, one)

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis."""
        return tuple(a.nodes for a in self.parts)

    def derivative(self, values: Tensor, order: Order) -> Tensor:
        """∂^order of ``values [..., *sizes]``.

        A constant, whose derivative is zero, is taken off first, so that rounding is relative to
        how much the values vary. That of the constant itself, n² times machine precision, would
        make a solution drift.
        """
        for i, n in enumerate(order):
            if n:
                constant = values.narrow(i - len(self.sizes), 0, 1)
                values = self._along(values - constant, self.parts[i].derivative(n), i)
        return values

    def operator(self, order: Order) -> Tensor:
        """The matrix ``[points, points]`` of ∂^order."""
        parts = [a.derivative(n) for a, n in zip(self.parts, order, strict=True)]
        return reduce(torch.kron, parts, self.weights.new_ones(1, 1))

    def lowered(self) -> tuple[Tensor, Tensor]:
        """Nodes at walls, and a matrix that extrapolates to them by polynomials two degrees lower.

        Those go through the nodes off the walls, as the pressure of a flow does whose velocity goes
        through all of them: on equal terms it would have parts that no velocity depends on
        (Bernardi and Maday 1997, Spectral Methods, sec. 24-25, doi:10.1016/S1570-8659(97)80003-8).

        Returns:
            Indices ``[k]`` and a matrix ``[k, points]``.
        """
        matrix = reduce(torch.kron, [a.lowered for a in self.parts])
        nodes = (matrix.diagonal() == 0).nonzero().flatten()  # values off the walls stay
        return nodes, matrix[nodes]

    def norm(self, values: Tensor) -> Tensor:
        """Root mean square over the box ``[...]`` of ``values [..., *sizes]``."""
        dims = tuple(range(-len(self.sizes), 0))
        squares = values.square() * self.weights
        return (squares.sum(dims) if dims else squares).sqrt()

    def evaluate(self, values: Tensor, axes: Sequence[Tensor]) -> Tensor:
        """Interpolants of ``values [..., *sizes]`` on other axes: ``[..., m1, …, md]``."""
        for i, points in enumerate(axes):
            values = self._along(values, self.parts[i].interpolate(points), i)
        return values.contiguous()

    def _along(self, values: Tensor, matrix: Tensor, axis: int) -> Tensor:
        dim = axis - len(self.sizes)
        return torch.movedim(torch.movedim(values, dim, -1) @ matrix.T, -1, dim)
