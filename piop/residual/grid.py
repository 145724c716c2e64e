"""Residuals on a tensor grid: derivatives are matrices along the axes.

Space is differentiated spectrally along periodic axes, and by finite differences of the stated
order along others. The time is treated in one of two ways:

At every time
    by finite differences of the stated order.
In steps
    by the trapezoidal rule, of second order: time derivatives become differences over a step, and
    an equation that contains one is averaged over both ends of the step. An equation that contains
    none is evaluated at both ends separately.

Nothing is known of the equations but their symbols. See ``docs/math.md``.

A matrix acts by one product on all functions, channels and other axes at once, knows no complex
number, and is the same whatever compiles it.

Sources: L. N. Trefethen, Spectral Methods in MATLAB (2000), chapters 1 and 3,
https://doi.org/10.1137/1.9780898719598; B. Fornberg, Generation of finite difference formulas on
arbitrarily spaced grids, Math. Comp. 51 (1988) 699-706,
https://doi.org/10.1090/S0025-5718-1988-0935077-0, whose weights are the solution of the moment
equations below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.fields import InputFunction, tensor_grid
from piop.forms.stream_plan import Index
from piop.forms.terms import unknown_derivatives
from piop.lowering import compile_expressions
from piop.residual.base import DerivedFunctions, Residual, ResidualValues
from piop.residual.known_functions import GridLift, KnownField
from piop.residual.required_inputs import InputDerivatives, along_axes

if TYPE_CHECKING:
    from piop.problem import Problem


def fourier_differences(count: int, length: float, order: int) -> Tensor:
    """Differentiate values at n even points of a period: exact for every wave below n/2.

    Args:
        count: n, points on the period, its right end left out.
        length: The period, units of the coordinate.
        order: How often to differentiate.

    Returns:
        ``[n, n]`` float64, in inverse units to the power of ``order``. The wave n/2 of an even n
        has no odd derivative that the points could tell from zero, so odd orders drop it (Trefethen
        2000, p. 20).

    Example:
        >>> x = torch.arange(8).double() * (2 * math.pi / 8)
        >>> slope = fourier_differences(8, 2 * math.pi, 1) @ torch.sin(3 * x)
        >>> torch.allclose(slope, 3 * torch.cos(3 * x))
        True
    """
    steps = torch.arange(count)
    waves = torch.arange(1, (count + 1) // 2)
    angles = (2 * math.pi / count) * (steps[:, None] * waves).remainder(count).double()
    # Re((ik)^m e^{ikx}) is k^m times the m-th of cos, -sin, -cos, sin
    shifted = torch.cos(angles + (order % 4) * (math.pi / 2))
    total = 2 * (shifted * waves.double() ** order).sum(-1) + float(order == 0)
    if count % 2 == 0 and order % 2 == 0:
        nyquist = (count / 2) ** order * (-1) ** (order // 2)
        total = total + nyquist * torch.where(steps % 2 == 0, 1.0, -1.0)
    # The weight of one point for another depends on their distance alone.
    total = total[(steps[:, None] - steps).remainder(count)]
    return total / count * (2 * math.pi / length) ** order


def point_weights(nodes: Tensor, at: float, order: int) -> Tensor:
    """Weigh the values at nodes for a derivative at a point: exact for degrees below their number.

    Args:
        nodes: ``[s]`` float64, all different.
        at: The point, among them or not.
        order: How often to differentiate, below s; 0 interpolates.

    Returns:
        ``[s]`` float64.
    """
    scale = (nodes - at).abs().max()
    powers = torch.arange(len(nodes), dtype=torch.float64)
    moments = ((nodes - at) / scale) ** powers[:, None]
    wanted = torch.zeros(len(nodes), dtype=torch.float64)
    wanted[order] = math.factorial(order)
    return torch.linalg.solve(moments, wanted) / scale**order


def finite_differences(
    ticks: Tensor, order: int, accuracy: int, at: Tensor | None = None
) -> Tensor:
    """Differentiate by the nearest values along an axis that ends.

    Args:
        ticks: Positions of the values ``[n]``, increasing.
        order: How often to differentiate.
        accuracy: Order of the error in the step: p for an error of hᵖ.
        at: Points of the derivatives ``[m]``; by default the ticks.

    Returns:
        ``[m, n]`` float64. In the middle as many values on both sides are taken; at the ends, where
        there are none on one side, as many as give the same order.

    Raises:
        ValueError: If there are fewer ticks than such a formula takes.
    """
    ticks = ticks.double()
    points = ticks if at is None else at.double()
    out = torch.zeros(len(points), len(ticks), dtype=torch.float64)
    for row, point in enumerate(points.tolist()):
        first, size = _window(ticks, point, order + accuracy)
        if first < 0:
            raise ValueError(
                f"{len(ticks)} values for a derivative of order {order} with error order "
                f"{accuracy}: give at least {order + accuracy}"
            )
        out[row, first : first + size] = point_weights(ticks[first : first + size], point, order)
    return out


def _window(ticks: Tensor, point: float, ends: int) -> tuple[int, int]:
    """Choose the ticks around a point: symmetrical ones, which gain an order, where there are."""
    slack = 1e-9 * float(ticks[-1] - ticks[0])
    below = int((ticks < point - slack).sum())
    on_tick = below < len(ticks) and abs(float(ticks[below]) - point) <= slack
    half = (ends - on_tick) // 2
    size = 2 * half + on_tick
    first = below - half
    if first >= 0 and first + size <= len(ticks):
        return first, size
    return min(max(below - ends // 2, 0), len(ticks) - ends), ends  # negative where too few


STEP_ACCURACY = 2
"""Order in time of the residual of a step: that of the trapezoidal rule."""


@dataclass(frozen=True)
class TensorGrid:
    """A tensor grid, and how the time is treated on it.

    Attributes:
        ticks: Positions along each coordinate, time first, float64; periodic axes evenly divided,
            their right end left out.
        time: Index of the time among the coordinates; None for a steady problem.
        steps: Evaluate the residual of each step between two times, rather than at every time.
        accuracy: Order of finite differences, in time and along axes that are not periodic; for
            steps, along the latter alone.
        start_only: Evaluate at the first time alone.
    """

    ticks: tuple[Tensor, ...]
    time: int | None = 0
    steps: bool = False
    accuracy: int = 4
    start_only: bool = False

    def start(self) -> TensorGrid:
        """Return the same grid, evaluated at the first time alone."""
        return replace(self, start_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each coordinate."""
        return tuple(len(axis) for axis in self.ticks)

    @property
    def averages(self) -> bool:
        """Whether an equation that contains a time derivative is averaged over each step."""
        return self.steps and not self.start_only

    @property
    def time_axis(self) -> int:
        """Index of the time among the coordinates.

        Raises:
            ValueError: If the problem is steady.
        """
        if self.time is None:
            raise ValueError("the grid of a steady problem has no time")
        return self.time

    def time_differences(self, order: int) -> Tensor:
        """Return the matrix from values at the times to derivatives at the evaluation times.

        Args:
            order: Of the derivative, at least one.

        Returns:
            ``[evaluation times, times]`` float64. Of steps these are all beginnings, then all ends,
            with the same difference over the step at both.

        Raises:
            ValueError: If the problem is steady.
        """
        ticks = self.ticks[self.time_axis]
        accuracy = STEP_ACCURACY if self.steps else self.accuracy
        if self.averages:
            between = finite_differences(ticks, order, accuracy, (ticks[1:] + ticks[:-1]) / 2)
            return torch.cat([between, between])
        return finite_differences(ticks, order, accuracy, ticks[:1] if self.start_only else ticks)

    def at_evaluation_times(self, values: Tensor, axis: int) -> Tensor:
        """Select, along an axis of a tensor, the values at the evaluation times."""
        count = values.shape[axis]
        if self.start_only:
            return values.narrow(axis, 0, 1)
        if not self.steps:
            return values
        parts = [values.narrow(axis, 0, count - 1), values.narrow(axis, 1, count - 1)]
        return torch.cat(parts, axis)

    def average_steps(self, values: Tensor) -> Tensor:
        """Replace values ``[B, …]`` at both ends of each step by their mean."""
        axis = 1 + self.time_axis
        begin, end = values.chunk(2, axis)
        mean = (begin + end) / 2
        return torch.cat([mean, mean], axis)


@final
class GridResidual(Residual):
    """The compiled residual of expressions over a field on a fixed tensor grid.

    Args:
        problem: The problem.
        grid: The grid, and how the time is treated on it.
        expressions: Left side minus right side of each equation; by default the problem's.
        like: A tensor of the device and precision of what it is evaluated on.
        derived: Functions that lifts may contain beside the inputs.

    Attributes:
        grid: The grid.
        axes: Positions along each coordinate.
        points: Where the residual is evaluated ``[1, N', D]``, the time slowest. Of steps there are
            two blocks, the beginnings of all steps and then their ends.

    Raises:
        ValueError: If an axis has fewer points than its differences take.
    """

    anywhere = False

    def __init__(
        self,
        problem: Problem,
        grid: TensorGrid,
        expressions: Sequence[Expr] | None = None,
        like: Tensor | None = None,
        derived: DerivedFunctions | None = None,
    ) -> None:
        self.derived = derived
        like = torch.empty(0, dtype=torch.float64) if like is None else like
        self.grid = self._grid = grid
        self.streams, self.trained = 0, tuple(problem.infer)
        expressions = tuple(problem.residuals if expressions is None else expressions)
        symbols = tuple(c.symbol for c in problem.coordinates)
        self._symbols, self._inputs, self._channels = symbols, problem.inputs, problem.channels
        parameters = [sympy.Symbol(name, real=True) for name in self.trained]
        self.input_derivatives = InputDerivatives(
            expressions, problem.inputs, symbols, [*parameters, *problem.channels]
        )
        wanted = unknown_derivatives(expressions, symbols, problem.channels)
        self._wanted = tuple(wanted.values())
        atoms = [*symbols, *self.input_derivatives.atoms, *parameters, *wanted]
        self._combine = compile_expressions(expressions, atoms)
        self._averaged = tuple(
            grid.averages and self._contains_time_derivative(problem, e) for e in expressions
        )
        self.axes = tuple(axis.to(like) for axis in grid.ticks)
        ticks = self._evaluation_axes(self.axes)
        self._coordinates = along_axes(ticks)
        self.points = tensor_grid(ticks)[None]
        orders = {(a, n) for _, index in self._wanted for a, n in enumerate(index) if n}
        self._matrices = {
            (axis, order): self._matrix(problem, axis, order).to(like)
            for axis, order in sorted(orders)
        }

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return the points of the grid."""
        return self.points

    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate the inputs, and derivatives of inputs, that the equations contain on the grid.

        Args:
            functions: By name, hidden ones included.
            queries: A tensor of the device and precision wanted.

        Returns:
            ``[B, n_1, …, n_D]`` for each, with 1 in place of n along the axes that the input does
            not depend on.
        """
        axes = self._evaluation_axes([axis.to(queries) for axis in self.axes])
        return self.input_derivatives.on_grid(functions, axes)

    def __call__(
        self,
        field: Any,
        queries: Tensor | None = None,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Evaluate the residual of a field.

        Args:
            field: Its ``on_grid(axes)`` returns the values ``[B, n_1, …, n_D, C]``; called once.
            queries: The points, which are known; not read.
            input_values: As :meth:`evaluate_inputs` returns them.
            parameters: Value ``[]`` of each of ``trained``, through which gradients flow.

        Returns:
            The residuals ``[B, N', E]`` and the derivatives found on the way ``[B, N']``;
            differentiable by reverse mode.
        """
        self.input_derivatives.require(input_values)
        values = field.on_grid(self.axes)
        expected = (*self._grid.shape, len(self._channels))
        if tuple(values.shape[1:]) != expected:
            raise ValueError(
                f"the field returned values of shape {tuple(values.shape[1:])} per function; "
                f"expected {expected}"
            )
        known: dict[tuple[int, Index], Tensor] = {}
        wanted = [self._derivative(values, c, index, known) for c, index in self._wanted]
        totals = self._combine([*self._coordinates, *input_values, *parameters, *wanted])
        batch = max([len(values), *(len(v) for v in input_values)])
        shape = (batch, *(len(axis.flatten()) for axis in self._coordinates))
        stacked = [
            self._grid.average_steps(total.expand(shape)) if averaged else total.expand(shape)
            for total, averaged in zip(totals, self._averaged, strict=True)
        ]
        found = {(self._channels[c], index): v.flatten(1) for (c, index), v in known.items()}
        return ResidualValues(torch.stack(stacked, -1).flatten(1, -2), found)

    def compile_lift(self, expressions: Sequence[Expr | None]) -> GridLift:
        """Compile known functions, one expression per channel, to their values on the grid."""
        return GridLift(
            KnownField(expressions, self._inputs, self._symbols, self.derived), self.axes
        )

    def _derivative(
        self,
        values: Tensor,
        channel: int,
        index: Index,
        known: dict[tuple[int, Index], Tensor],
    ) -> Tensor:
        """Differentiate one channel ``[B, n_1, …, n_D]``, in time first; keep all in ``known``."""
        if (channel, index) not in known:
            axes = [axis for axis, n in enumerate(index) if n and axis != self._grid.time]
            if axes:
                axis = axes[-1]
                lower = (*index[:axis], 0, *index[axis + 1 :])
                found = self._derivative(values, channel, lower, known)
                found = apply_along(self._matrices[axis, index[axis]], found, axis + 1)
            else:
                found = self._in_time(values[..., channel], index)
            known[channel, index] = found
        return known[channel, index]

    def _in_time(self, values: Tensor, index: Index) -> Tensor:
        time = self._grid.time
        if time is None:
            return values
        if index[time]:
            return apply_along(self._matrices[time, index[time]], values, time + 1)
        return self._grid.at_evaluation_times(values, time + 1)

    def _evaluation_axes(self, axes: Sequence[Tensor]) -> list[Tensor]:
        """Replace the times by the evaluation times."""
        found = list(axes)
        if self._grid.time is not None:
            found[self._grid.time] = self._grid.at_evaluation_times(found[self._grid.time], 0)
        return found

    def _contains_time_derivative(self, problem: Problem, expression: Expr) -> bool:
        found = unknown_derivatives([expression], self._symbols, problem.channels)
        return any(self._grid.time is not None and i[self._grid.time] for _, i in found.values())

    def _matrix(self, problem: Problem, axis: int, order: int) -> Tensor:
        ticks, coordinate = self._grid.ticks[axis], problem.coordinates[axis]
        if axis == self._grid.time:
            return self._grid.time_differences(order)
        if coordinate.periodic:
            return fourier_differences(len(ticks), coordinate.high - coordinate.low, order)
        return finite_differences(ticks, order, self._grid.accuracy)


def apply_along(matrix: Tensor, values: Tensor, axis: int) -> Tensor:
    """Multiply along one axis by ``[m, n]``."""
    return torch.matmul(values.movedim(axis, -1), matrix.mT).movedim(-1, axis)
