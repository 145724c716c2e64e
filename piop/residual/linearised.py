"""Equations on one axis: the residual, measured by the error that it causes.

An approximation u of an evolution on an interval, with residual r(u) of its equations and b(u) of
its boundary conditions, has to first order the error e of Newton's method: J e = r inside and
J e = b on the walls, J the derivative of both at u, and e = 0 at the initial time. The loss takes e
in place of r and b, so that both count by what they do to the solution: a short wave that the
equations damp, what a wall reflects, and growth that the nonlinear part ends. Boundary conditions
that are no hard constraints need no weight of their own.

The equations are collocated on a lattice of each function: polynomials of degree five in each of
some elements of time; Lobatto nodes in space, or even ones where it is periodic. So r is found from
values of the network alone, without its derivatives, and e element after element from dense
matrices. See ``docs/math.md``, 21.

Sources: the loss is own. Newton's method for collocated evolutions as in Hairer & Wanner 1996,
sec. IV.8 (doi:10.1007/978-3-642-05221-7); boundary conditions in rows of the matrix as in Trefethen
2000, ch. 13 (doi:10.1137/1.9780898719598).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import sympy as sp
import torch
from sympy import Expr
from torch import Tensor

from piop.fields import InputFunction
from piop.lowering import compile_expressions
from piop.residual.axis_nodes import IntervalNodes, PeriodicNodes
from piop.residual.base import DerivedFunctions, ResidualValues
from piop.residual.lattice import (
    Lattice,
    LatticeResidual,
    difference_matrix,
    grid_points,
    interpolation_weights,
    lobatto_nodes,
    moved_times,
)

if TYPE_CHECKING:
    from piop.problem import Problem

DEGREE = 5
"""Of the polynomials in each element of time."""
BOUND = 3.0
"""Largest error, in sizes of its unknown: far from the solution Newton's method overshoots."""


@final
class LinearisedResidual(LatticeResidual):
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

    holds_walls = True

    def __init__(
        self,
        problem: Problem,
        lattice: Lattice,
        sizes: Sequence[float],
        derived: DerivedFunctions | None = None,
    ) -> None:
        if problem.time is None or len(problem.space) != 1:
            raise ValueError("this residual is for evolutions on one axis")
        conditions = problem.pde.face_conditions
        expressions = [
            *problem.residuals,
            *(problem.pde.condition_residual(face, condition) for face, condition in conditions),
        ]
        super().__init__(problem, lattice, expressions, derived)
        (self._axis,), self._channels = problem.space, len(problem.channels)
        self._bound = [BOUND * size for size in sizes]
        ends = {f"{self._axis.name}.min": 0, f"{self._axis.name}.max": lattice.points[0] - 1}
        self._walls = [(ends[f], problem.channels.index(c.unknown)) for f, c in conditions]
        unknowns = self.atoms[-len(self.wanted) :]
        slopes = _partial_derivatives(expressions, unknowns)
        self._slopes = [(number, *self.wanted[which]) for number, which in slopes]
        self._combine = compile_expressions([*expressions, *slopes.values()], self.atoms)
        self._highest = max(index[1] for _, index in self.wanted)
        nodes = PeriodicNodes if problem.pde.periodic else IntervalNodes
        self._nodes = nodes(self._axis, lattice.points[0])

    @property
    def _elements(self) -> int:
        return (self.lattice.times - 1) // DEGREE

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return a lattice for each function, moved at random by the points drawn.

        The walls, the first and the last time stay.
        """
        drawn = draw()
        times = moved_times(element_times(self._elements), drawn[..., 0], self._time)
        return grid_points([times, self._nodes.places(drawn[:, :1, 1].double()).to(drawn)])

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
        powers = self._nodes.derivatives(grid[:, 0, :, 1], self._highest)
        return (*found, in_time[:, :, 1:], powers)

    def __call__(
        self,
        field: Any,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Find the error of a field to first order.

        Args:
            field: Callable on queries; it receives a plain tensor.
            queries: ``[B, N, 2]`` as :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.
            parameters: None.

        Returns:
            e/T ``[B, N, C]``; no derivatives. Its gradient is that of the field's values less the
            corrected ones, which are held fixed.

        Raises:
            UsageError: For other input values.
        """
        self.require(input_values)
        values = field(queries)
        with torch.no_grad():
            now = values.detach()
            corrected = now - self.error(now.double(), queries, input_values).to(now)
        return ResidualValues((values - corrected) / self._time.length)

    def error(self, values: Tensor, queries: Tensor, input_values: Sequence[Tensor]) -> Tensor:
        """Solve J e = r for the errors of values.

        Args:
            values: ``[B, N, C]`` float64.
            queries: ``[B, N, 2]`` as :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.

        Returns:
            e ``[B, N, C]`` float64.
        """
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
            errors.append(torch.linalg.solve(inner, right))
        error = torch.cat(errors, 1).unflatten(1, (-1, self._channels))
        bound = error.new_tensor(self._bound)
        return torch.maximum(torch.minimum(error, bound), -bound)

    def interpolation_weights(
        self, queries: Tensor, times: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the weights by which values on a lattice are interpolated.

        Args:
            queries: Of one function ``[N, 2]`` as :meth:`place` returns them.
            times: Where in time ``[m]`` float64.
            places: Where in space ``[k]`` float64.

        Returns:
            Those of its times ``[m, T]`` and of its points ``[k, n]`` float64.
        """
        grid = queries.double().unflatten(0, (self.lattice.times, -1))
        own = grid[:, 0, 0].unfold(0, DEGREE + 1, DEGREE)
        element = torch.bucketize(times.contiguous(), own[1:, 0].contiguous(), right=True)
        in_time = times.new_zeros(len(times), self.lattice.times)
        for number, nodes in enumerate(own):
            rows, start = (element == number).nonzero()[:, 0], number * DEGREE
            weights = interpolation_weights(nodes, times[rows])
            in_time[rows, start : start + DEGREE + 1] = weights
        return in_time, self._nodes.weights(grid[0, :, 1], places)

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
        for (number, channel, (i, k)), slope in zip(self._slopes, slopes, strict=True):
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


def _partial_derivatives(
    expressions: Sequence[Expr], atoms: Sequence[Expr]
) -> dict[tuple[int, int], Expr]:
    """Differentiate expressions with respect to atoms: numbers of both → what is not zero."""
    names = [sp.Dummy(real=True) for _ in atoms]
    there, back = dict(zip(atoms, names, strict=True)), dict(zip(names, atoms, strict=True))
    found: dict[tuple[int, int], Expr] = {}
    for number, expression in enumerate(expressions):
        plain: Any = expression.xreplace(there)
        for which, name in enumerate(names):
            slope: Any = sp.diff(plain, name)
            if slope != 0:
                found[number, which] = slope.xreplace(back)
    return found
