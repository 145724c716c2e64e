"""Lattices: points of a function at which equations are collocated, from values of the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.polynomial import Legendre
from sympy import Expr
from torch import Tensor

from piop.errors import UsageError
from piop.forms.terms import unknown_derivatives
from piop.residual.base import DerivedFunctions, Residual
from piop.residual.known_functions import KnownField, ValueLift
from piop.residual.required_inputs import InputDerivatives

if TYPE_CHECKING:
    from piop.domain import Coordinate
    from piop.problem import Problem

JITTER = 0.9
"""Largest move of a time of collocation, in halves of the gap to its nearest neighbour."""


@dataclass(frozen=True)
class Lattice:
    """Points of one function: times of collocation × points in space.

    Attributes:
        times: n, both ends of the time axis among them; 1 of a steady problem.
        points: Points along each axis of space.
    """

    times: int
    points: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int]) -> Self:
        """Build a lattice from its times and points."""
        times, *points = shape
        return cls(times, tuple(points))

    @property
    def size(self) -> int:
        """Number of points."""
        return self.times * math.prod(self.points)

    def nodes(self) -> Tensor:
        """Return as many Lobatto nodes as it has times: fractions of the axis ``[n]`` float64."""
        return lobatto_nodes(self.times)


class LatticeResidual(Residual):
    """A residual that is evaluated on a lattice of each function, from values of a field alone.

    Args:
        problem: The problem.
        lattice: Points of each function.
        expressions: What vanishes for a solution.
        derived: Functions that lifts may contain beside the inputs.

    Attributes:
        lattice: Points of each function.
        input_derivatives: The inputs, and derivatives of inputs, in the expressions.
        atoms: Coordinates, those inputs, and the unknowns and their derivatives in the expressions.
        wanted: Channel and multi-index of each of the latter, which are the last atoms.
    """

    grid = None
    anywhere = False
    streams = 1
    given = 2
    """What is given beside the inputs, by :meth:`evaluate_inputs`."""

    def __init__(
        self,
        problem: Problem,
        lattice: Lattice,
        expressions: Sequence[Expr],
        derived: DerivedFunctions | None = None,
    ) -> None:
        self.lattice, self.derived, self.trained = lattice, derived, ()
        self._inputs = problem.inputs
        self._symbols = tuple(c.symbol for c in problem.coordinates)
        self.input_derivatives = InputDerivatives(
            expressions, problem.inputs, self._symbols, problem.channels
        )
        wanted = unknown_derivatives(expressions, self._symbols, problem.channels)
        self.wanted = tuple(wanted.values())
        self.atoms: list[Any] = [*self._symbols, *self.input_derivatives.atoms, *wanted]

    def require(self, input_values: Sequence[Tensor]) -> None:
        """Make sure that input values are those of :meth:`evaluate_inputs`, by their number.

        Raises:
            UsageError: If not.
        """
        if len(input_values) != len(self.input_derivatives.entries) + self.given:
            raise UsageError(
                f"input_values: got {len(input_values)} values; pass "
                f"residual.evaluate_inputs(functions, queries)"
            )

    def compile_lift(self, expressions: Sequence[Expr | None]) -> ValueLift:
        """Compile known functions, one expression per channel, to their values."""
        return ValueLift(KnownField(expressions, self._inputs, self._symbols, self.derived))


def lobatto_nodes(count: int) -> Tensor:
    """Return the Legendre–Gauss–Lobatto nodes of [0, 1], both ends among them: ``[n]`` float64."""
    inner = Legendre.basis(count - 1).deriv().roots()
    nodes = np.concatenate([[-1.0], np.sort(inner.real), [1.0]])
    return torch.from_numpy((nodes + 1) / 2)


def grid_points(axes: Sequence[Tensor]) -> Tensor:
    """Return the points of the grid of each function, the last axis fastest.

    Args:
        axes: Positions along each axis ``[B, n_i]``.

    Returns:
        ``[B, N, D]``.
    """
    count = len(axes)
    columns = [
        axis.unflatten(1, tuple(-1 if i == j else 1 for j in range(count)))
        for i, axis in enumerate(axes)
    ]
    return torch.stack(torch.broadcast_tensors(*columns), -1).flatten(1, -2)


def moved_times(nodes: Tensor, drawn: Tensor, axis: Coordinate) -> Tensor:
    """Move times of collocation at random, all but the first and the last.

    Each moves less than half of the way to its neighbours, so that their order stays.

    Args:
        nodes: Fractions of the axis ``[n]`` float64, ascending.
        drawn: Random times ``[B, n or more]``, of which the first n are used.
        axis: The time axis.

    Returns:
        ``[B, n]``, of the precision of what is drawn.
    """
    nodes = nodes.to(drawn.device)
    moves = (drawn[:, : len(nodes)] - axis.low) / axis.length - 0.5
    gaps = nodes.diff()
    reach = torch.zeros_like(nodes)
    reach[1:-1] = torch.minimum(gaps[:-1], gaps[1:])
    return axis.low + axis.length * (nodes + JITTER * moves * reach).to(drawn)


def difference_matrix(nodes: Tensor) -> Tensor:
    """Differentiate the polynomial through values at nodes ``[B, n]``: ``[B, n, n]`` float64.

    Source: Berrut & Trefethen 2004, eq. 9.4 and 9.5 (doi:10.1137/S0036144502417715).

    Example:
        >>> nodes = torch.tensor([[0.0, 0.5, 2.0]], dtype=torch.float64)
        >>> (difference_matrix(nodes) @ nodes[..., None] ** 2)[0, :, 0].tolist()
        [0.0, 1.0, 4.0]
    """
    one = torch.eye(nodes.shape[-1], dtype=nodes.dtype, device=nodes.device)
    gaps = nodes[:, :, None] - nodes[:, None] + one
    weights = 1 / gaps.prod(-1)
    between = (weights[:, None] / weights[:, :, None]) / gaps * (1 - one)
    return between - torch.diag_embed(between.sum(-1))


def interpolation_weights(nodes: Tensor, at: Tensor) -> Tensor:
    """Evaluate the polynomial through values at nodes ``[n]`` at positions ``[m]``: ``[m, n]``.

    Source: Berrut & Trefethen 2004, eq. 4.2 (doi:10.1137/S0036144502417715).

    Example:
        >>> nodes = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
        >>> (interpolation_weights(nodes, nodes.new_tensor([1.0, 0.5])) @ nodes**2).tolist()
        [1.0, 0.25]
    """
    gaps = nodes[:, None] - nodes + torch.eye(len(nodes)).to(nodes)
    away = at[:, None] - nodes
    hit = away == 0
    terms = 1 / gaps.prod(1) / away.masked_fill(hit, 1.0)
    terms = terms / terms.sum(1, keepdim=True)
    return torch.where(hit.any(1, keepdim=True), hit.to(terms), terms)
