"""A tensor grid on which a field answers: its places, its scheme in time, known values on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.fields import InputFunction
from piop.lowering import compile_expressions
from piop.residual.differences import finite_differences
from piop.residual.inputs import evaluate_terms_on_grid, input_terms, term_atoms

STEP_ACCURACY = 2
"""Order in time of the residual of a step: that of the trapezoidal rule."""


class OnGrid(Protocol):
    """A field that can be asked for its values on a tensor grid."""

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """Give ``[B, n_1, …, n_D, C]``."""
        ...


@dataclass(frozen=True)
class TensorGrid:
    """A tensor grid, and how the time is treated on it.

    Attributes:
        ticks: Positions along each coordinate, time first, float64; periodic axes evenly divided,
            their right end left out.
        time: Index of the time among the coordinates; None for a steady problem.
        steps: Ask for the residual of each step between two times, rather than at every time.
        accuracy: Order of finite differences, in time and along axes that are not periodic; for
            steps, along the latter alone.
        begins: Ask at the first time alone.
    """

    ticks: tuple[Tensor, ...]
    time: int | None = 0
    steps: bool = False
    accuracy: int = 4
    begins: bool = False

    def start(self) -> TensorGrid:
        """Give the same grid, asked at the first time alone."""
        return replace(self, begins=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each coordinate."""
        return tuple(len(axis) for axis in self.ticks)

    @property
    def averages(self) -> bool:
        """Whether what holds a derivative in time is a mean over the ends of a step."""
        return self.steps and not self.begins

    def time_differences(self, order: int) -> Tensor:
        """Give the matrix from values at the times to derivatives where they are asked for.

        Args:
            order: Of the derivative, at least one.

        Returns:
            ``[places, times]`` float64. Of steps the places are all beginnings, then all ends, with
            the same difference over the step at both.
        """
        assert self.time is not None  # noqa: S101 - no steady problem holds such derivatives
        ticks = self.ticks[self.time]
        accuracy = STEP_ACCURACY if self.steps else self.accuracy
        if self.averages:
            between = finite_differences(ticks, order, accuracy, (ticks[1:] + ticks[:-1]) / 2)
            return torch.cat([between, between])
        return finite_differences(ticks, order, accuracy, ticks[:1] if self.begins else ticks)

    def at_places(self, values: Tensor, axis: int) -> Tensor:
        """Take values at the times, along an axis of a tensor, to where they are asked for."""
        count = values.shape[axis]
        if self.begins:
            return values.narrow(axis, 0, 1)
        if not self.steps:
            return values
        parts = [values.narrow(axis, 0, count - 1), values.narrow(axis, 1, count - 1)]
        return torch.cat(parts, axis)


@final
class GridLift:
    """Values on a grid of one known function per channel, as :class:`piop.residual.Lift` at points.

    Args:
        problem: Its coordinates and inputs are read.
        expressions: For each channel an expression in coordinates and inputs; None stands for zero.
        axes: The grid.
    """

    def __init__(
        self, problem: Any, expressions: Sequence[Expr | None], axes: Sequence[Tensor]
    ) -> None:
        known = [sympy.S.Zero if e is None else sympy.sympify(e) for e in expressions]
        self.inputs, self.axes = tuple(problem.inputs), tuple(axes)
        self.coordinates = tuple(c.symbol for c in problem.coordinates)
        self.terms = input_terms(known, self.coordinates)
        atoms = [*self.coordinates, *term_atoms(self.terms, self.inputs, self.coordinates)]
        self._values = compile_expressions(known, atoms)

    @torch.no_grad()
    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate on the grid.

        Args:
            functions: By name.
            queries: A tensor of the device and precision wanted; the grid is that of the lift.

        Returns:
            ``[1, B, n_1, …, n_D, C]``, with 1 in place of n along the axes on which nothing
            depends.
        """
        axes = [axis.to(queries) for axis in self.axes]
        terms = evaluate_terms_on_grid(self.terms, functions, axes, self.inputs, self.coordinates)
        found = self._values([*along_axes(axes), *terms])
        shape = torch.broadcast_shapes(*(v.shape for v in found), (1,) * (len(axes) + 1))
        return torch.stack([v.to(queries).expand(shape) for v in found], -1)[None]

    def attach(self, rows: Tensor, queries: Any) -> Tensor:
        """Give the values among what calling the lift gave."""
        return rows[0]


def along_axes(axes: Sequence[Tensor]) -> list[Tensor]:
    """Give each axis the shape ``[1, …, n, …, 1]`` in which it broadcasts over a batch of grids."""
    count = len(axes)
    return [a.reshape([1] * (i + 1) + [-1] + [1] * (count - 1 - i)) for i, a in enumerate(axes)]
