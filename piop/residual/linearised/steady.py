"""Steady equations on boxes: the residual, measured by the error that it causes.

The equations are collocated on a lattice of each function, Lobatto nodes between walls and even
ones along periodic axes, so that r is found from values of the network alone. J e = r and J e = b
are solved by least squares, equations and conditions each relative to its largest term. Where each
node of a wall has as many conditions as there are equations, the latter hold inside only and the
system is square but for corners; else, as for incompressible flow, whose pressure has no condition
on walls, they hold at all nodes. See ``docs/math.md``, 21.

Sources: collocation as in Trefethen 2000, ch. 7 and 13 (doi:10.1137/1.9780898719598); conditions
and equations in one system of least squares as in Eisen & Heinrichs 1992
(doi:10.1137/0729006).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.fields import InputFunction
from piop.linalg import least_squares
from piop.residual.base import DerivedFunctions
from piop.residual.lattice import Lattice, grid_points
from piop.residual.linearised.base import LinearisedResidual

if TYPE_CHECKING:
    from piop.forms.stream_plan import Index
    from piop.problem import Problem

CONDITION_WEIGHT = 100.0
"""Of a condition beside an equation in the least squares: conditions are to hold exactly, as far as
rounding allows."""

MOST_EACH_STEP = 700
"""Values of all unknowns up to which J e = r is solved in each step of a training."""
STEPS_PER_SOLUTION = 32
"""Beyond that, once in so many steps: with 1380 values a solution takes 0.3 s of one core and each
function, its step without it 0.013 s (``cavity_cvit``)."""


@final
class LinearisedSteady(LinearisedResidual):
    """The residual of a steady problem on a box, and its walls, as the error that it causes.

    Args:
        problem: A steady problem on a box; equations and conditions are smooth in the unknowns.
        lattice: Points of each function: one time, odd numbers along periodic axes.
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
        if problem.time is not None or not problem.domain.is_box:
            raise ValueError("this residual is for steady problems on boxes")
        pairs = zip(problem.space, lattice.points, strict=True)
        if any(axis.periodic and count % 2 == 0 for axis, count in pairs):
            raise ValueError("an even number of periodic nodes has a wave without derivatives")
        super().__init__(problem, lattice, sizes, 1.0, derived)
        self.given, self.same_points = len(problem.space), self.same
        self._lengths = [axis.length for axis in problem.space]
        self._gauges = {problem.channels.index(u): m for u, m in problem.pde.gauge.items()}
        numbers = torch.arange(lattice.size).reshape(lattice.points)
        faces, walls = {}, torch.zeros(lattice.points, dtype=torch.bool)
        for number, axis in enumerate(problem.space):
            for end, at in () if axis.periodic else (("min", 0), ("max", -1)):
                faces[f"{axis.name}.{end}"] = numbers.select(number, at).flatten()
                walls.select(number, at).fill_(True)
        conditions = [face for face, _ in problem.pde.face_conditions]
        self._rows = [faces[face] for face in conditions]
        equations = len(problem.residuals)
        square = all(conditions.count(face) == equations for face in faces)
        inside = numbers[~walls] if square and not self._gauges else numbers.flatten()
        self._rows = [inside] * equations + self._rows
        self._weights = [1.0] * equations + [CONDITION_WEIGHT] * len(conditions)
        self._highest = [max(index[a] for _, index in self.wanted) for a in range(self.given)]
        if not self.same and lattice.size * self._channels > MOST_EACH_STEP:
            self.steps_per_solution = STEPS_PER_SOLUTION

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return a lattice for each function, moved at random by the points drawn; walls stay.

        Where the matrix of the linearised equations is the same for all functions, so are their
        lattices: then it is factored once.
        """
        drawn = draw()
        if self.same_points:
            drawn = drawn[:1].expand_as(drawn)
        axes = [
            nodes.places(drawn[:, :1, axis].double()).to(drawn)
            for axis, nodes in enumerate(self.nodes)
        ]
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
            The inputs, and derivatives of inputs, that equations and conditions contain ``[B, N]``
            each; then, in float64, (∂/∂x)ᵏ along each axis for k = 0, 1, … ``[B, K, n, n]``.
        """
        found = self.input_derivatives.at(functions, queries)
        powers = [
            nodes.derivatives(places, highest)
            for nodes, places, highest in zip(
                self.nodes, self._places(queries), self._highest, strict=True
            )
        ]
        return (*found, *powers)

    def error(self, values: Tensor, queries: Tensor, input_values: Sequence[Tensor]) -> Tensor:
        """See :meth:`LinearisedResidual.error`."""
        inputs, powers = input_values[: -self.given], input_values[-self.given :]
        totals = self._evaluate(values, [*queries.unbind(-1), *inputs], powers)
        misfits, slopes = totals[: len(self.expressions)], totals[len(self.expressions) :]
        of = slice(1) if self.same else slice(None)
        volumes = self.fractions(queries[of])
        matrix, weights = self._matrix([s[of] for s in slopes], volumes, [p[of] for p in powers])
        sides = [misfit[:, rows] for rows, misfit in zip(self._rows, misfits, strict=True)]
        for channel, mean in self._gauges.items():
            sides.append((volumes * values[..., channel]).sum(1, keepdim=True) - mean)
        right = weights * torch.cat(sides, 1)
        if self.same:
            error = least_squares(matrix[0], right.mT).mT
        else:
            error = least_squares(matrix, right[..., None])
        return self.limit(error.reshape(values.shape))

    def _matrix(
        self, slopes: Sequence[Tensor], volumes: Tensor, powers: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Arrange J, and the weights of its rows that are in it: ``[B, R, N·C]``, ``[B, R]``."""
        scales = self._largest_terms(slopes)
        derivatives = {index: self._derivative(powers, index) for _, index in self.wanted}
        parts, weights = [], []
        for number, rows in enumerate(self._rows):
            weights.append(self._weights[number] * volumes[:, rows].sqrt() / scales[number])
            parts.append(
                volumes.new_zeros(len(volumes), len(rows), len(volumes[0]), self._channels)
            )
            for (of, channel, index), slope in zip(self.slopes, slopes, strict=True):
                if of == number:
                    parts[-1][..., channel] += slope[:, rows, None] * derivatives[index][:, rows]
        for channel in self._gauges:
            weights.append(torch.full_like(volumes[:, :1], CONDITION_WEIGHT / self._sizes[channel]))
            parts.append(volumes.new_zeros(len(volumes), 1, len(volumes[0]), self._channels))
            parts[-1][:, 0, :, channel] = volumes
        weight = torch.cat(weights, 1)
        return weight[..., None] * torch.cat(parts, 1).flatten(2), weight

    def interpolation_weights(self, queries: Tensor, places: Sequence[Tensor]) -> list[Tensor]:
        """See :meth:`LinearisedResidual.interpolation_weights`."""
        own = self._places(queries[None])
        return [n.weights(o[0], at) for n, o, at in zip(self.nodes, own, places, strict=True)]

    def fractions(self, queries: Tensor) -> Tensor:
        """See :meth:`LinearisedResidual.fractions`."""
        weights = [
            nodes.quadrature(places) / length
            for nodes, places, length in zip(
                self.nodes, self._places(queries), self._lengths, strict=True
            )
        ]
        return grid_points(weights).prod(-1)

    def _places(self, queries: Tensor) -> list[Tensor]:
        """Return the nodes along each axis ``[B, n_i]`` float64."""
        grid = queries.double().unflatten(1, self.lattice.points)
        last = [0] * self.given
        return [
            grid[(slice(None), *last[:a], slice(None), *last[a + 1 :], a)]
            for a in range(self.given)
        ]

    def _evaluate(
        self, values: Tensor, known: Sequence[Tensor], powers: Sequence[Tensor]
    ) -> list[Tensor]:
        """Evaluate equations, conditions and their partial derivatives ``[B, N]``."""
        wanted = []
        for channel, index in self.wanted:
            found = values[..., channel].unflatten(1, self.lattice.points)
            for axis, order in enumerate(index):
                if order:
                    along = found.movedim(axis + 1, 1)
                    found = powers[axis][:, order] @ along.reshape(*along.shape[:2], -1)
                    found = found.reshape(along.shape).movedim(1, axis + 1)
            wanted.append(found.flatten(1))
        totals = self._combine([*(v.double() for v in known), *wanted])
        return [total.expand(values.shape[:2]) for total in totals]

    def _derivative(self, powers: Sequence[Tensor], index: Index) -> Tensor:
        """Return the matrix of a derivative of values on the lattice ``[B, N, N]``."""
        axes = [powers[axis][:, order] for axis, order in enumerate(index)]
        return reduce(
            lambda a, b: torch.einsum("bij,bkl->bikjl", a, b).flatten(3).flatten(1, 2), axes
        )

    def _largest_terms(self, slopes: Sequence[Tensor]) -> list[Tensor]:
        """Return the size of the largest linear term of each expression ``[B, 1]``."""
        sizes: list[list[Tensor]] = [[] for _ in self.expressions]
        for (number, channel, index), slope in zip(self.slopes, slopes, strict=True):
            length = 1.0
            for axis, order in enumerate(index):
                length *= self._lengths[axis] ** order
            mean = slope.square().mean(1, keepdim=True).sqrt()
            sizes[number].append(mean * self._sizes[channel] / length)
        return [torch.stack(terms).amax(0).clamp(min=1e-300) for terms in sizes]
