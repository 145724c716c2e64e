"""Equations integrated over time: the residual, measured by the error that it causes.

An approximation u of an evolution ∂u/∂t = L u + N(u) that starts from the exact initial data has,
as far as the linear part L tells, the error (variation of constants)

    R(t) = ∫ exp((t − s) L) r(s) ds,   r = ∂u/∂t − L u − N(u).

Short waves that L damps have large residuals and small errors. They dominate the mean square of r,
but not that of R. R is found on a lattice of each function. Its times are those of a collocation
method with the matrix of differences D, so that the coefficients of each wave k are
R(k) = (D − L(k))⁻¹ r(k). Space is differentiated exactly for all waves of the lattice. So r is
found from values of the network alone, without its derivatives. See ``docs/math.md``, 20.

Sources: the preconditioner is own. Variation of constants as in Hochbruck & Ostermann 2010, sec. 2
(doi:10.1017/S0962492910000048); Lobatto collocation as in Hairer & Wanner 1996, sec. IV.5
(doi:10.1007/978-3-642-05221-7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import torch
from numpy.polynomial import Legendre
from sympy import Expr
from torch import Tensor

from piop.errors import UsageError
from piop.fields import InputFunction
from piop.forms.stream_plan import Index
from piop.forms.terms import unknown_derivatives
from piop.lowering import compile_expressions
from piop.residual.base import DerivedFunctions, Residual, ResidualValues
from piop.residual.grid import apply_along, fourier_differences
from piop.residual.known_functions import KnownField, ValueLift
from piop.residual.real_transforms import RealTransforms
from piop.residual.required_inputs import InputDerivatives

if TYPE_CHECKING:
    from piop.problem import Problem


JITTER = 0.9
"""Largest move of a time of collocation, in halves of the gap to its nearest neighbour."""


@dataclass(frozen=True)
class Lattice:
    """Points of one function: times of collocation × an even grid over the periodic box.

    Attributes:
        times: n, Lobatto nodes over the time axis, both of its ends among them.
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
        """Return the times as fractions of the axis ``[n]`` float64, 0 and 1 among them."""
        inner = Legendre.basis(self.times - 1).deriv().roots()
        nodes = np.concatenate([[-1.0], np.sort(inner.real), [1.0]])
        return torch.from_numpy((nodes + 1) / 2)


@final
class IntegralResidual(Residual):
    """The residual of an evolution on periodic boxes, integrated over time.

    Args:
        problem: An evolution of first order, all axes of space periodic, initial data met exactly.
        lattice: Points of each function.
        rates: Eigenvalues λ of the linear part L(k) of each wave of the lattice, ``[K, C]``
            complex128, K being a half spectrum as of ``torch.fft.rfftn``. Any L is consistent; the
            better it is, the nearer R is to the error.
        vectors: Its eigenvectors, as columns ``[K, C, C]``.
        rows: Maps residuals to coefficients of the eigenvectors ``[K, C, E]``; zero for waves that
            are left out.
        like: A tensor of the device and precision of what it is evaluated on.
        derived: Functions that lifts may contain beside the inputs.

    Attributes:
        lattice: Points of each function.
    """

    grid = None
    anywhere = False
    streams = 1

    def __init__(
        self,
        problem: Problem,
        lattice: Lattice,
        rates: Tensor,
        vectors: Tensor,
        rows: Tensor,
        like: Tensor,
        derived: DerivedFunctions | None = None,
    ) -> None:
        if problem.time is None:
            raise ValueError("a steady problem cannot be integrated over time")
        self.lattice, self.derived, self.trained = lattice, derived, ()
        self._low, self._length = problem.time.low, problem.time.length
        self._space, self._inputs = problem.space, problem.inputs
        symbols = tuple(c.symbol for c in problem.coordinates)
        self._symbols = symbols
        residuals = tuple(problem.residuals)
        self.input_derivatives = InputDerivatives(
            residuals, problem.inputs, symbols, problem.channels
        )
        wanted = unknown_derivatives(residuals, symbols, problem.channels)
        self._wanted = tuple(wanted.values())
        atoms = [*symbols, *self.input_derivatives.atoms, *wanted]
        self._combine = compile_expressions(residuals, atoms)
        orders = {(a, n) for _, index in self._wanted for a, n in enumerate(index) if a and n}
        self._matrices = {
            (a, n): fourier_differences(points, problem.coordinates[a].length, n).to(like)
            for a, n in sorted(orders)
            for points in lattice.points[a - 1 : a]
        }
        self._rates, self._vectors, self._rows = (t.to(like.device) for t in (rates, vectors, rows))
        self._transforms = RealTransforms(lattice.points, like)

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return a lattice for each function, moved at random by the points drawn.

        In space it goes through the first of them. Each time but the first and the last moves less
        than half of the way to its neighbours, so that the network meets the equations at all
        times.
        """
        drawn = draw()
        nodes = self.lattice.nodes().to(drawn.device)
        moves = (drawn[:, : len(nodes), 0] - self._low) / self._length - 0.5
        gaps = nodes.diff()
        reach = torch.zeros_like(nodes)
        reach[1:-1] = torch.minimum(gaps[:-1], gaps[1:])
        axes = [self._low + self._length * (nodes + JITTER * moves * reach).to(drawn)]
        for column, (axis, count) in enumerate(zip(self._space, self.lattice.points, strict=True)):
            step = axis.length / count
            offset = (drawn[:, :1, 1 + column] - axis.low).remainder(step)
            axes.append(axis.low + offset + step * torch.arange(count).to(drawn))
        batch, count = len(drawn), len(axes)
        shape = (batch, *(a.shape[1] for a in axes))
        columns = [
            a.reshape(batch, *(-1 if i == j else 1 for j in range(count))).expand(shape)
            for i, a in enumerate(axes)
        ]
        return torch.stack(columns, -1).flatten(1, -2)

    @torch.no_grad()
    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate what depends on functions and points alone.

        Args:
            functions: By name, hidden ones included.
            queries: ``[B, N, D]`` as :meth:`place` returns them.

        Returns:
            The inputs, and derivatives of inputs, that the equations contain ``[B, N]`` each; then
            D at all times but the first ``[B, n − 1, n]``, and (D − L)⁻¹/T of each wave as a real
            matrix ``[B, K, 2 (n − 1) C, 2 (n − 1) E]``, real parts before imaginary ones.
        """
        found = self.input_derivatives.at(functions, queries)
        times = queries[:, :: math.prod(self.lattice.points), 0].double()
        differences = difference_matrix(times)[:, 1:]
        return (*found, differences.to(queries), self._integration(differences).to(queries))

    def __call__(
        self,
        field: Any,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Integrate the residual of a field.

        Args:
            field: Callable on queries; it receives a plain tensor.
            queries: ``[B, N, D]`` as :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.
            parameters: None.

        Returns:
            R/T in the units of the residual ``[B, N, E]``, E = C, zero at the first time; no
            derivatives.

        Raises:
            UsageError: For other input values.
        """
        if len(input_values) != len(self.input_derivatives.entries) + 2:
            raise UsageError(
                f"input_values: got {len(input_values)} values; pass "
                f"residual.evaluate_inputs(functions, queries)"
            )
        *inputs, differences, inverse = input_values
        shape = (self.lattice.times, *self.lattice.points)
        values = field(queries).unflatten(1, shape)
        known = [v.unflatten(1, shape)[:, 1:] for v in (*queries.unbind(-1), *inputs)]
        found: dict[tuple[int, Index], Tensor] = {}
        slopes = torch.einsum("bij,bj...->bi...", differences, values)
        wanted = [self._derivative(values, slopes, c, index, found) for c, index in self._wanted]
        totals = self._combine([*known, *wanted])
        inner = (len(values), self.lattice.times - 1, *self.lattice.points)
        residual = torch.stack([total.expand(inner) for total in totals], -1)
        integrated = self._integrate(residual, inverse)
        start = torch.zeros_like(integrated[:, :1])
        return ResidualValues(torch.cat([start, integrated], 1).flatten(1, -2))

    def compile_lift(self, expressions: Sequence[Expr | None]) -> ValueLift:
        """Compile known functions, one expression per channel, to their values."""
        return ValueLift(KnownField(expressions, self._inputs, self._symbols, self.derived))

    def _derivative(
        self,
        values: Tensor,
        slopes: Tensor,
        channel: int,
        index: Index,
        found: dict[tuple[int, Index], Tensor],
    ) -> Tensor:
        """Differentiate one channel at all times but the first: ``[B, n − 1, n_1, …]``."""
        if (channel, index) not in found:
            axes = [axis for axis, n in enumerate(index) if n and axis]
            if axes:
                axis = axes[-1]
                lower = (*index[:axis], 0, *index[axis + 1 :])
                below = self._derivative(values, slopes, channel, lower, found)
                result = apply_along(self._matrices[axis, index[axis]], below, axis + 1)
            else:
                result = slopes[..., channel] if index[0] else values[:, 1:, ..., channel]
            found[channel, index] = result
        return found[channel, index]

    def _integrate(self, residual: Tensor, inverse: Tensor) -> Tensor:
        """Solve (D − L) R = r, wave by wave, for ``[B, n − 1, n_1, …, E]``."""
        times, modes = residual.shape[1], self._transforms.modes
        spectrum = self._transforms.forward(residual.movedim(-1, 2))  # [B, n − 1, E, 2, K]
        columns = spectrum.permute(0, 4, 3, 1, 2).flatten(2)  # [B, K, 2 (n − 1) E]
        solved = (inverse @ columns[..., None])[..., 0].unflatten(2, (2, times, -1))
        found = self._transforms.backward(solved.permute(0, 3, 4, 2, 1).unflatten(-1, modes))
        return found.movedim(2, -1)

    def _integration(self, differences: Tensor) -> Tensor:
        """Invert ∂/∂t − L at the times of collocation, over T.

        Args:
            differences: D at all times but the first ``[B, n − 1, n]``.

        Returns:
            ``[B, K, 2 (n − 1) C, 2 (n − 1) E]`` float64.
        """
        inner = differences[:, None, None, :, 1:].to(self._rates)  # the error is zero at the first
        one = torch.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        inverse = torch.linalg.inv(inner - self._rates[..., None, None] * one)  # [B, K, C, m, m]
        whole = torch.einsum("kcd,bkdij,kde->bkicje", self._vectors, inverse, self._rows)
        real, imaginary = torch.view_as_real(
            whole.flatten(4, 5).flatten(2, 3) / self._length
        ).unbind(-1)
        rows = torch.cat([real, -imaginary], -1), torch.cat([imaginary, real], -1)
        return torch.cat(rows, -2)


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
