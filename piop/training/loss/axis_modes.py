"""Modes of one axis: the functions that every derivative of an operator multiplies by a number.

Along a periodic axis they are waves. Between walls they are the polynomials that meet the
conditions there and of which ∂xx is a multiple at all Chebyshev points off the walls. The long ones
are sines or cosines to machine precision; but unlike a series of those, they converge exponentially
for smooth sources that do not vanish at the walls (``docs/math.md``, 18).

Source: diagonalisation of the collocation matrix, Haidvogel & Zang 1979, sec. 3
(doi:10.1016/0021-9991(79)90097-4); Haldenwang, Labrosse, Abboudi & Deville 1984, sec. 3
(doi:10.1016/0021-9991(84)90020-8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.forms.axis_conditions import AxisConditions, WallConditions
from piop.reference.chebyshev.mesh import chebyshev_axis, fourier_axis
from piop.sampling.chebyshev_basis import ChebyshevBasis
from piop.sampling.functions import Basis, TrigonometricBasis

CPU = torch.device("cpu")


@dataclass(frozen=True)
class AxisModes:
    """Modes of one axis.

    Attributes:
        nodes: Points at which a source is interpolated ``[N]``, physical.
        forward: Values at the nodes to parts of the modes ``[K, N]``.
        factors: What ∂x, where all orders occur, or else (∂xx)^(1/2), multiplies each mode by
            ``[K]`` complex, inverse units of x.
        backward: Parts of the modes to coefficients of the basis ``[M, K]``.
        basis: Functions of which the modes are sums.
        constant: Which mode is a constant; None where none is.
    """

    nodes: Tensor
    forward: Tensor
    factors: Tensor
    backward: Tensor
    basis: Basis
    constant: int | None

    def to(self, device: torch.device) -> Self:
        """Move to a device."""
        names = ("nodes", "forward", "factors", "backward")
        moved = {name: getattr(self, name).to(device) for name in names}
        return replace(self, basis=self.basis.to(device, None), **moved)


def axis_modes(axis: Coordinate, conditions: AxisConditions, count: int) -> AxisModes:
    """Find the modes of an axis.

    Args:
        axis: The axis.
        conditions: What holds at its ends.
        count: Points of the grid, walls included; odd along a periodic axis.
    """
    if isinstance(conditions, WallConditions):
        return _wall_modes(axis, conditions, count)
    return _waves(axis, count)


def _waves(axis: Coordinate, count: int) -> AxisModes:
    """Waves e^{ikx}, k = 0, ±1, … rounds, as cosines and sines."""
    nodes = fourier_axis(axis.low, axis.length, count, CPU).nodes
    highest = count // 2
    rounds = torch.arange(-highest, highest + 1, dtype=torch.float64)
    turns = 2 * math.pi / axis.length * rounds
    forward = torch.exp(-1j * turns[:, None] * (nodes - axis.low)) / count
    cosines = torch.arange(highest + 1)
    basis = TrigonometricBasis.periodic(cosines, axis.low, axis.high, unit=False)
    even, odd = torch.zeros(2, basis.size, count, dtype=torch.float64)
    even[cosines, highest + cosines] = even[cosines, highest - cosines] = 1.0
    sines = cosines[1:]
    odd[highest + sines, highest + sines] = 1.0
    odd[highest + sines, highest - sines] = -1.0
    backward = torch.complex(even, odd)  # e^{ikx} = cos kx + i sin kx
    return AxisModes(nodes, forward, 1j * turns, backward, basis, highest)


def _wall_modes(axis: Coordinate, conditions: WallConditions, count: int) -> AxisModes:
    """Polynomials p that meet homogeneous conditions with p'' = λ p at all points off the walls."""
    points = chebyshev_axis(axis.low, axis.high, count, CPU)
    values, slopes = torch.eye(count, dtype=torch.float64), points.derivative(1)
    low, high = conditions.vanish
    ends = torch.stack([(values if low else slopes)[0], (values if high else slopes)[-1]])
    whole = values[:, 1:-1].clone()  # values at all points from those off the walls
    whole[[0, -1]] = -torch.linalg.solve(ends[:, [0, -1]], ends[:, 1:-1])
    rates, vectors = torch.linalg.eig((points.derivative(2) @ whole)[1:-1])
    rates, order = rates.real.sort(descending=True)  # all are real; the slowest mode first
    vectors = vectors.real[:, order]
    constant = None
    if not low and not high:
        constant, rates[0], vectors[:, 0] = 0, 0.0, 1.0
    basis = ChebyshevBasis.of_size(count, axis.low, axis.high)
    backward = torch.linalg.solve(basis.table(points.nodes), whole @ vectors)
    forward, factors = torch.linalg.inv(vectors), 1j * (-rates).sqrt()
    nodes = points.nodes[1:-1]
    return AxisModes(nodes, forward, factors, backward, basis, constant)
