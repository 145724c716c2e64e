"""A tensor product of axes: fields on it, their derivatives, norms and interpolants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, final

import torch
from torch import Tensor

from piop.problem.split import Order
from piop.reference.chebyshev.axis import Axis, chebyshev_axis, fourier_axis


@final
class Mesh:
    """Collocation points of a box.

    Args:
        space: The problem's space coordinates.
        sizes: Points per axis; odd along periodic ones.
        device: Where tensors live.
    """

    def __init__(self, space: Sequence[Any], sizes: Sequence[int], device: torch.device) -> None:
        self.sizes, self.device = tuple(sizes), device
        self.parts: tuple[Axis, ...] = tuple(
            fourier_axis(c.low, c.length, n, device)
            if c.periodic
            else chebyshev_axis(c.low, c.high, n, device)
            for c, n in zip(space, sizes, strict=True)
        )
        self.points = math.prod(self.sizes)
        weights = [a.weights / a.weights.sum() for a in self.parts]
        self.weights = reduce(lambda a, b: a[..., None] * b, weights)

    def axes(self) -> tuple[Tensor, ...]:
        """Coordinates along each axis."""
        return tuple(a.nodes for a in self.parts)

    def derivative(self, values: Tensor, order: Order) -> Tensor:
        """∂^order of ``values [..., *sizes]``."""
        for i, n in enumerate(order):
            if n:
                values = self._along(values, self.parts[i].derivative(n), i)
        return values

    def operator(self, order: Order) -> Tensor:
        """The matrix ``[points, points]`` of ∂^order."""
        return reduce(torch.kron, [a.derivative(n) for a, n in zip(self.parts, order, strict=True)])

    def lowered(self) -> tuple[Tensor, Tensor]:
        """Nodes at walls, and what gives values there by polynomials two degrees lower.

        Those go through the nodes off the walls, as the pressure of a flow does whose velocity goes
        through all of them: on equal terms it would have parts that no velocity feels (Bernardi and
        Maday 1997, Spectral Methods, sec. 24-25, doi:10.1016/S1570-8659(97)80003-8).

        Returns:
            Indices ``[k]`` and a matrix ``[k, points]``.
        """
        along = [a.lowered for a in self.parts]
        inner = [torch.ones(len(a.nodes), dtype=torch.bool, device=self.device) for a in self.parts]
        for keep, part in zip(inner, self.parts, strict=True):
            if not part.periodic:
                keep[[0, -1]] = False
        mask = reduce(lambda a, b: a[..., None] & b, inner).flatten()
        nodes = (~mask).nonzero().flatten()
        return nodes, reduce(torch.kron, along)[nodes]

    def norm(self, values: Tensor) -> Tensor:
        """Root mean square over the box ``[...]`` of ``values [..., *sizes]``."""
        dims = tuple(range(-len(self.sizes), 0))
        return (values.square() * self.weights).sum(dims).sqrt()

    def evaluate(self, values: Tensor, axes: Sequence[Tensor]) -> Tensor:
        """Interpolants of ``values [..., *sizes]`` on other axes: ``[..., m1, …, md]``."""
        for i, points in enumerate(axes):
            values = self._along(values, self.parts[i].interpolate(points), i)
        return values.contiguous()

    def _along(self, values: Tensor, matrix: Tensor, axis: int) -> Tensor:
        dim = axis - len(self.sizes)
        return torch.movedim(torch.movedim(values, dim, -1) @ matrix.T, -1, dim)
