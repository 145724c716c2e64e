"""The residual of a field that answers on a grid: its derivatives are matrices along the axes.

Space is differentiated spectrally along periodic axes, and by finite differences of the stated
order along others. The time is treated in one of two ways:

At ticks
    by finite differences of the stated order at every time.
In steps
    by the trapezoidal rule, of second order: time derivatives become differences over a step, and
    an equation that holds one is the mean of what it says at both ends. An equation that holds none
    is asked at both ends apart.

Nothing is known of the equations but their symbols. See ``docs/math.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.partitions import Index
from piop.lowering import compile_expressions
from piop.residual.compile import ResidualValues
from piop.residual.differences import finite_differences, fourier_differences
from piop.residual.inputs import (
    InputTerm,
    evaluate_terms_on_grid,
    input_terms,
    term_atoms,
    unknown_atoms,
    unknown_place,
)
from piop.residual.tensor_grid import GridLift, OnGrid, TensorGrid, along_axes


@final
class GridResidual:
    """The residual of expressions over a field on a fixed tensor grid.

    It is called as :class:`piop.residual.Residual` is; its queries are its own ``places``.

    Args:
        problem: Its coordinates, channels and inputs are read.
        grid: The grid, and how the time is treated on it.
        expressions: Left side minus right side of each equation; by default the problem's.
        like: A tensor of the device and precision of what it is evaluated on.

    Attributes:
        grid: The grid.
        trained: Names of the parameters to infer, which are given with every call.
        places: Where the residual is given ``[1, N', D]``, the time slowest. Of steps there are two
            blocks, the beginnings of all steps and then their ends.

    Raises:
        ValueError: If an axis has fewer points than its differences take.
    """

    def __init__(
        self,
        problem: Any,
        grid: TensorGrid,
        expressions: Sequence[Expr] | None = None,
        like: Tensor | None = None,
    ) -> None:
        like = torch.empty(0, dtype=torch.float64) if like is None else like
        self._problem, self.grid = problem, grid
        self._expressions = tuple(problem.residuals if expressions is None else expressions)
        self.coordinates = tuple(c.symbol for c in problem.coordinates)
        self.channels, self.inputs = tuple(problem.channels), tuple(problem.inputs)
        self.trained = tuple(problem.infer)
        parameters = [sympy.Symbol(name, real=True) for name in self.trained]
        self.input_terms: tuple[InputTerm, ...] = input_terms(
            self._expressions, [*self.coordinates, *parameters], self.channels
        )
        self._wanted = unknown_atoms(self._expressions, self.coordinates, self.channels)
        atoms = [*self.coordinates, *term_atoms(self.input_terms, self.inputs, self.coordinates)]
        atoms += parameters
        self._combine = compile_expressions(self._expressions, [*atoms, *self._wanted])
        self.axes = tuple(axis.to(like) for axis in grid.ticks)
        self._means = tuple(grid.averages and holds for holds in self._hold_time())
        ticks = self._at_places(self.axes)
        self._coordinates = along_axes(ticks)
        self.places = torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).flatten(0, -2)[None]
        self._matrices = {
            (axis, order): self._matrix(axis, order).to(like)
            for axis, order in sorted(self._differences())
        }

    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate what the equations need of the input functions at the places.

        Args:
            functions: By name, hidden ones included.
            queries: A tensor of the device and precision wanted.

        Returns:
            ``[B, n_1, …, n_D]`` for each term, with 1 in place of n along the axes that the input
            does not depend on.
        """
        axes = self._at_places([axis.to(queries) for axis in self.axes])
        return evaluate_terms_on_grid(
            self.input_terms, functions, axes, self.inputs, self.coordinates
        )

    def __call__(
        self,
        field: OnGrid,
        queries: Tensor | None = None,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Evaluate the residual of a field.

        Args:
            field: Is asked once, for its values on the grid.
            queries: The places, which are known; not read.
            input_values: As :meth:`evaluate_inputs` gives them.
            parameters: Value ``[]`` of each of ``trained``, through which gradients flow.

        Returns:
            The residuals ``[B, N', E]`` and the derivatives found on the way ``[B, N']``;
            differentiable by reverse mode.
        """
        values = field.on_grid(self.axes)
        expected = (*self.grid.shape, len(self.channels))
        if tuple(values.shape[1:]) != expected:
            raise ValueError(
                f"the field gave values of shape {tuple(values.shape[1:])} per function; expected "
                f"{expected}"
            )
        known: dict[tuple[int, Index], Tensor] = {}
        wanted = [
            self._derivative(values, unknown_place(a, self.coordinates, self.channels), known)
            for a in self._wanted
        ]
        totals = self._combine([*self._coordinates, *input_values, *parameters, *wanted])
        batch = max([len(values), *(len(v) for v in input_values)])
        shape = (batch, *(len(axis.flatten()) for axis in self._coordinates))
        stacked = [
            self._mean(total.expand(shape)) if mean else total.expand(shape)
            for total, mean in zip(totals, self._means, strict=True)
        ]
        found = {(self.channels[c], index): v.flatten(1) for (c, index), v in known.items()}
        return ResidualValues(torch.stack(stacked, -1).flatten(1, -2), found)

    def compile_lift(self, expressions: Sequence[Expr | None]) -> GridLift:
        """Compile known functions, one per channel, to their values on the grid."""
        return GridLift(self._problem, expressions, self.axes)

    def _derivative(
        self, values: Tensor, place: tuple[int, Index], known: dict[tuple[int, Index], Tensor]
    ) -> Tensor:
        """Differentiate one channel ``[B, n_1, …, n_D]``, keeping what was found on the way."""
        channel, index = place
        first = self.grid.time
        reached = tuple(0 if i != first else n for i, n in enumerate(index))
        if (channel, reached) not in known:
            known[channel, reached] = self._in_time(values[..., channel], index)
        for axis, order in enumerate(index):
            if axis != first and order:
                found = known[channel, reached]
                reached = (*reached[:axis], order, *reached[axis + 1 :])
                if (channel, reached) not in known:
                    known[channel, reached] = _apply(self._matrices[axis, order], found, axis + 1)
        return known[channel, reached]

    def _in_time(self, values: Tensor, index: Index) -> Tensor:
        time = self.grid.time
        if time is None:
            return values
        if index[time]:
            return _apply(self._matrices[time, index[time]], values, time + 1)
        return self.grid.at_places(values, time + 1)

    def _at_places(self, axes: Sequence[Tensor]) -> list[Tensor]:
        """Take the ticks of the time to those of the places."""
        places = list(axes)
        if self.grid.time is not None:
            places[self.grid.time] = self.grid.at_places(places[self.grid.time], 0)
        return places

    def _mean(self, values: Tensor) -> Tensor:
        """Give both ends of each step the mean over them."""
        assert self.grid.time is not None  # noqa: S101 - only steps have means
        begin, end = values.chunk(2, 1 + self.grid.time)
        mean = (begin + end) / 2
        return torch.cat([mean, mean], 1 + self.grid.time)

    def _hold_time(self) -> list[bool]:
        """Which equations hold a derivative in time."""
        found = []
        for expression in self._expressions:
            atoms = unknown_atoms([expression], self.coordinates, self.channels)
            orders = [unknown_place(a, self.coordinates, self.channels)[1] for a in atoms]
            found.append(any(self.grid.time is not None and o[self.grid.time] for o in orders))
        return found

    def _differences(self) -> set[tuple[int, int]]:
        """Pairs (axis, order) of the matrices that are needed."""
        places = [unknown_place(a, self.coordinates, self.channels) for a in self._wanted]
        return {(axis, n) for _, index in places for axis, n in enumerate(index) if n}

    def _matrix(self, axis: int, order: int) -> Tensor:
        ticks, coordinate = self.grid.ticks[axis], self._problem.coordinates[axis]
        if axis == self.grid.time:
            return self.grid.time_differences(order)
        if coordinate.periodic:
            return fourier_differences(len(ticks), coordinate.high - coordinate.low, order)
        return finite_differences(ticks, order, self.grid.accuracy)


def _apply(matrix: Tensor, values: Tensor, axis: int) -> Tensor:
    """Multiply along one axis by ``[m, n]``."""
    return torch.matmul(values.movedim(axis, -1), matrix.mT).movedim(-1, axis)
