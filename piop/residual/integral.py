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
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.stream_plan import Index
from piop.lowering import compile_expressions
from piop.residual.base import DerivedFunctions, ResidualValues
from piop.residual.grid import apply_along, fourier_differences
from piop.residual.lattice import (
    Lattice,
    LatticeResidual,
    difference_matrix,
    grid_points,
    moved_times,
)
from piop.residual.real_transforms import RealTransforms

if TYPE_CHECKING:
    from piop.problem import Problem


@final
class IntegralResidual(LatticeResidual):
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
    """

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
        super().__init__(problem, lattice, problem.residuals, derived)
        self._time = problem.time
        self._space = problem.space
        self._combine = compile_expressions(problem.residuals, self.atoms)
        orders = {(a, n) for _, index in self.wanted for a, n in enumerate(index) if a and n}
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
        axes = [moved_times(self.lattice.nodes(), drawn[..., 0], self._time)]
        for column, (axis, count) in enumerate(zip(self._space, self.lattice.points, strict=True)):
            step = axis.length / count
            offset = (drawn[:, :1, 1 + column] - axis.low).remainder(step)
            axes.append(axis.low + offset + step * torch.arange(count).to(drawn))
        return grid_points(axes)

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
        self.require(input_values)
        *inputs, differences, inverse = input_values
        shape = (self.lattice.times, *self.lattice.points)
        values = field(queries).unflatten(1, shape)
        known = [v.unflatten(1, shape)[:, 1:] for v in (*queries.unbind(-1), *inputs)]
        found: dict[tuple[int, Index], Tensor] = {}
        slopes = torch.einsum("bij,bj...->bi...", differences, values)
        wanted = [self._derivative(values, slopes, c, index, found) for c, index in self.wanted]
        totals = self._combine([*known, *wanted])
        inner = (len(values), self.lattice.times - 1, *self.lattice.points)
        residual = torch.stack([total.expand(inner) for total in totals], -1)
        integrated = self._integrate(residual, inverse)
        start = torch.zeros_like(integrated[:, :1])
        return ResidualValues(torch.cat([start, integrated], 1).flatten(1, -2))

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
            whole.flatten(4, 5).flatten(2, 3) / self._time.length
        ).unbind(-1)
        rows = torch.cat([real, -imaginary], -1), torch.cat([imaginary, real], -1)
        return torch.cat(rows, -2)
