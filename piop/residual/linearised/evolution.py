"""Evolutions on one axis: the residual, measured by the error that it causes.

The loss takes the error e of Newton's method, see :mod:`piop.residual.linearised.base`, in place of
the residuals of equations and conditions, so that both count by what they do to the solution: a
short wave that the equations damp, what a wall reflects, and growth that the nonlinear part ends.
Boundary conditions that are no hard constraints need no weight of their own.

The equations are collocated on a lattice of each function: polynomials of degree five in each of
some elements of time; Lobatto nodes in space, or even ones where it is periodic. So r is found from
values of the network alone, without its derivatives, and e element after element from dense
matrices, with e = 0 at the initial time. See ``docs/math.md``, 21.

Sources: the loss is own. Newton's method for collocated evolutions as in Hairer & Wanner 1996,
sec. IV.8 (doi:10.1007/978-3-642-05221-7); boundary conditions in rows of the matrix as in Trefethen
2000, ch. 13 (doi:10.1137/1.9780898719598).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, final

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from piop.fields import InputFunction
from piop.linalg import solve_without_gradient
from piop.residual.base import DerivedFunctions
from piop.residual.lattice import (
    Lattice,
    difference_matrix,
    grid_points,
    interpolation_weights,
    lobatto_nodes,
    moved_times,
)
from piop.residual.linearised.base import LinearisedResidual

if TYPE_CHECKING:
    from piop.problem import Problem

DEGREE = 5
"""Of the polynomials in each element of time."""


@final
class LinearisedEvolution(LinearisedResidual):
    """The residual of an evolution on one axis, and its walls, as the error that it causes.

    Args:
        problem: An evolution of first order in time on one axis, initial data met exactly; equation
            i holds the time derivative of unknown i alone; between walls of at most second order in
            space, and each condition on a wall is one on an unknown.
        lattice: Points of each function; of its times one begins, and each element adds
            :data:`DEGREE`.
        sizes: Typical size of each unknown, its own units.
        derived: Functions that lifts may contain beside the inputs.
    """

    def __init__(
        self,
        problem: Problem,
        lattice: Lattice,
        sizes: Sequence[float],
        derived: DerivedFunctions | None = None,
    ) -> None:
        if problem.time is None or len(problem.space) != 1:
            raise ValueError("this residual is for evolutions on one axis")
        super().__init__(problem, lattice, sizes, problem.time.length, derived)
        self._time, (axis,), count = problem.time, problem.space, lattice.points[0]
        ends = {f"{axis.name}.min": 0, f"{axis.name}.max": count - 1}
        conditions = problem.pde.face_conditions
        self._walls = [(ends[f], problem.channels.index(c.unknown)) for f, c in conditions]
        self._highest = max(index[1] for _, index in self.wanted)

    @property
    def _elements(self) -> int:
        return (self.lattice.times - 1) // DEGREE

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return a lattice for each function, moved at random by the points drawn.

        The walls, the first and the last time stay.
        """
        drawn = draw()
        times = moved_times(element_times(self._elements), drawn[..., 0], self._time)
        return grid_points([times, self.nodes[0].places(drawn[:, :1, 1].double()).to(drawn)])

    @torch.no_grad()
    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate what depends on functions and points alone.

        Args:
            functions: By name, hidden ones included.
            queries: ``[B, N, 2]`` as :meth:`place` returns them.

        Returns:
            The inputs, and derivatives of inputs, that equations and conditions contain ``[B, N]``
            each; then, in float64, ∂/∂t in each element at all its times but the first
            ``[B, elements, DEGREE, DEGREE + 1]``, and (∂/∂x)ᵏ for k = 0, 1, … ``[B, K, n, n]``.
        """
        found = self.input_derivatives.at(functions, queries)
        grid = queries.double().unflatten(1, (self.lattice.times, -1))
        times = grid[:, :, 0, 0].unfold(1, DEGREE + 1, DEGREE)
        in_time = difference_matrix(times.flatten(0, 1)).unflatten(0, times.shape[:2])
        powers = self.nodes[0].derivatives(grid[:, 0, :, 1], self._highest)
        return (*found, in_time[:, :, 1:], powers)

    def error(self, values: Tensor, queries: Tensor, input_values: Sequence[Tensor]) -> Tensor:
        """See :meth:`LinearisedResidual.error`."""
        *inputs, in_time, powers = input_values
        shape = self.lattice.times, *self.lattice.points
        known = [v.double().unflatten(1, shape) for v in (*queries.unbind(-1), *inputs)]
        found = self._evaluate(values.unflatten(1, shape), known, in_time, powers)
        count = self._channels + len(self._walls)
        misfit = self._rows(found[:count])
        matrix = self._matrix(found[count:], in_time, powers)
        errors = [torch.zeros_like(misfit[:, 0, : matrix.shape[-1] - matrix.shape[-2]])]
        first = errors[0].shape[1]
        for element in range(self._elements):
            before = errors[-1][:, -first:, None]
            start, inner = matrix[:, element].split((first, matrix.shape[-2]), -1)
            right = misfit[:, element] - (start @ before)[..., 0]
            errors.append(solve_without_gradient(inner, right[..., None])[..., 0])
        return self.limit(torch.cat(errors, 1).unflatten(1, (-1, self._channels)))

    def interpolation_weights(self, queries: Tensor, places: Sequence[Tensor]) -> list[Tensor]:
        """See :meth:`LinearisedResidual.interpolation_weights`."""
        times, along = places
        grid = queries.double().unflatten(0, (self.lattice.times, -1))
        own = grid[:, 0, 0].unfold(0, DEGREE + 1, DEGREE)
        element = torch.bucketize(times.contiguous(), own[1:, 0].contiguous(), right=True)
        in_time = times.new_zeros(len(times), self.lattice.times)
        for number, nodes in enumerate(own):
            rows, start = (element == number).nonzero()[:, 0], number * DEGREE
            weights = interpolation_weights(nodes, times[rows])
            in_time[rows, start : start + DEGREE + 1] = weights
        return [in_time, self.nodes[0].weights(grid[0, :, 1], along)]

    def fractions(self, queries: Tensor) -> Tensor:
        """See :meth:`LinearisedResidual.fractions`."""
        grid = queries.double().unflatten(1, (self.lattice.times, -1))
        in_space = self.nodes[0].quadrature(grid[:, 0, :, 1])
        places, weights = (torch.from_numpy(v).to(grid) for v in leggauss(DEGREE // 2 + 1))
        found = []
        for own in grid:
            ends = own[::DEGREE, 0, 0]
            times = (ends[:-1, None] + ends.diff()[:, None] * (places + 1) / 2).flatten()
            of = (ends.diff()[:, None] * weights / 2).flatten()
            in_time, _ = self.interpolation_weights(own.flatten(0, 1), [times, own[0, :, 1]])
            found.append(of @ in_time)
        whole = grid_points([torch.stack(found), in_space]).prod(-1)
        return whole / whole.sum(1, keepdim=True)

    def _evaluate(
        self, values: Tensor, known: Sequence[Tensor], in_time: Tensor, powers: Tensor
    ) -> list[Tensor]:
        """Evaluate equations, conditions and their partial derivatives ``[B, elements, 5, n]``."""
        elements = values.unfold(1, DEGREE + 1, DEGREE)  # [B, elements, n, C, DEGREE + 1]
        plain = elements[..., 1:].movedim(-1, 2)
        slopes = torch.einsum("beij,bencj->beinc", in_time, elements)
        wanted = [
            torch.einsum("bnm,beim->bein", powers[:, k], (slopes if i else plain)[..., channel])
            for channel, (i, k) in self.wanted
        ]
        inner = [v[:, 1:].unflatten(1, (self._elements, DEGREE)) for v in known]
        return [total.expand(inner[0].shape) for total in self._combine([*inner, *wanted])]

    def _rows(self, totals: Sequence[Tensor]) -> Tensor:
        """Arrange r, on walls b in its place: ``[B, elements, DEGREE·n·C]``."""
        rows = torch.stack(list(totals[: self._channels]), -1)
        for (wall, channel), total in zip(self._walls, totals[self._channels :], strict=True):
            rows[..., wall, channel] = total[..., wall]
        return rows.flatten(2)

    def _matrix(self, slopes: Sequence[Tensor], in_time: Tensor, powers: Tensor) -> Tensor:
        """Arrange J: ``[B, elements, DEGREE·n·C, (DEGREE + 1)·n·C]``."""
        batch, elements = in_time.shape[:2]
        (count,), channels = self.lattice.points, self._channels
        whole = (batch, elements, DEGREE, count, channels, DEGREE + 1, count, channels)
        matrix = in_time.new_zeros(whole)
        at_time = torch.eye(DEGREE + 1).to(in_time)[1:].expand_as(in_time)
        inside = in_time.new_ones(channels, count)
        for wall, channel in self._walls:
            inside[channel, wall] = 0.0
        for (number, channel, (i, k)), slope in zip(self.slopes, slopes, strict=True):
            time = in_time if i else at_time
            if number < channels:
                entries = torch.einsum(
                    "bein,beij,bnm->beinjm", slope * inside[number], time, powers[:, k]
                )
                matrix[:, :, :, :, number, :, :, channel] += entries
            else:
                wall, row = self._walls[number - channels]
                entries = torch.einsum(
                    "bei,beij,bm->beijm", slope[..., wall], time, powers[:, k, wall]
                )
                matrix[:, :, :, wall, row, :, :, channel] += entries
        return matrix.flatten(5).flatten(2, 4)


def element_times(elements: int) -> Tensor:
    """Return the times of all elements as fractions of the axis, ends of elements once.

    Example:
        >>> element_times(2)[[0, 5, 10]].tolist()
        [0.0, 0.5, 1.0]
    """
    inner = lobatto_nodes(DEGREE + 1)[:-1] + torch.arange(elements)[:, None]
    return torch.cat([inner.flatten(), torch.full((1,), elements)]) / elements
