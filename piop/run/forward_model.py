"""The forward model: the classical solution at the points of the data, for given parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from piop.datasets import Dataset
from piop.errors import NotSupportedError
from piop.fields import grid_axis
from piop.models import AxisSignature
from piop.models.core.interpolation import interpolate_grid, interpolation_weights
from piop.problem import Coordinate, Problem
from piop.problem.capabilities import usual_tolerance
from piop.reference import solve_reference
from piop.training.batches.equations import interpolate_inputs
from piop.training.batches.training_grid import is_even

FIRST_TOLERANCE = 1e-4
"""Tolerance of solutions until the noise is known."""
REFINEMENT = 2
"""Cells of the grid of a solution per cell of ``save``, where the data lie on none."""


@final
class ForwardModel:
    """Parameters → the values that the data are compared with.

    Where the data lie on an even grid, the problem is solved there; elsewhere it is solved on the
    problem's ``save`` grid, refined, and is interpolated.

    Args:
        problem: With parameters to infer.
        data: Samples, whose inputs are interpolated from their sensors.

    Attributes:
        channels: Names of the unknowns that are compared.
        tolerance: Requested error estimate, relative L2.
        least: The usual one of the method.
        error: Largest error estimate of a solution so far, relative L2.

    Raises:
        NotSupportedError: If no solver covers the problem, or the data do not tell all inputs.
    """

    def __init__(self, problem: Problem, data: Dataset) -> None:
        self.least = usual_tolerance(problem)
        self.tolerance = max(self.least, FIRST_TOLERANCE)
        if not problem.domain.is_box:
            raise NotSupportedError("solutions on shapes are not compared with data yet")
        hidden = [i.name for i in problem.inputs if i.hidden and _is_used(problem, i.symbol)]
        if hidden:
            raise NotSupportedError(f"the data do not tell the hidden input {hidden[0]}")
        self.problem, self.data = problem, data
        self.functions = interpolate_inputs(problem, data.inputs)
        self.channels = tuple(n for n in problem.channels if n in data.values)
        self.error = 0.0
        self._ticks = [self._along(c) for c in problem.coordinates]
        self._axes = [AxisSignature(c.name, c.low, c.high, c.periodic) for c in problem.coordinates]

    def __call__(self, values: Mapping[str, float]) -> Tensor:
        """Solve: ``[n, P, C]``, the points of each sample in the order of :meth:`observed`.

        Raises:
            SolverError: If there is no solution at these values.
            SpecError: If the problem is ill posed at these values.
        """
        steady = self.problem.time is None
        space = self._ticks if steady else self._ticks[1:]
        solution = solve_reference(
            self.problem.at(values),
            self.functions,
            times=None if steady else self._ticks[0],
            shape=[len(ticks) for ticks in space],
            tolerance=self.tolerance,
        )
        self.error = max(self.error, float(solution.error_estimate.max()))
        grid = torch.stack([solution.values[name] for name in self.channels], -1)
        grid = grid.expand(len(self.data), *grid.shape[1:])
        if self.data.points is not None:
            return interpolate_grid(grid, self._ticks, self._axes, self.data.points.double())
        for place, (ticks, axis) in enumerate(zip(self._ticks, self._axes, strict=True), 1):
            wanted = self.data.axes[axis.name].double()
            if len(wanted) != len(ticks) or not torch.equal(wanted, ticks):
                moved = grid.movedim(place, -1) @ interpolation_weights(ticks, wanted, axis).mT
                grid = moved.movedim(-1, place)
        return grid.flatten(1, -2)

    def observed(self) -> Tensor:
        """Give the values of the data ``[n, P, C]``, NaN where there are none."""
        columns = [self.data.values[name].double().flatten(1) for name in self.channels]
        return torch.stack(columns, -1)

    def _along(self, coordinate: Coordinate) -> Tensor:
        """Return positions along an axis: those of the data where the solver can use them."""
        if self.data.points is None:
            ticks = self.data.axes[coordinate.name].double()
            if coordinate is self.problem.time:
                return ticks
            if is_even(ticks, coordinate):
                return grid_axis(coordinate.low, coordinate.high, len(ticks), coordinate.periodic)
        names = [c.name for c in self.problem.coordinates]
        cells = REFINEMENT * self.problem.save[names.index(coordinate.name)]
        count = cells + (not coordinate.periodic)
        return grid_axis(coordinate.low, coordinate.high, count, coordinate.periodic)


def neighbour_correlation(values: Tensor, data: Dataset) -> float | None:
    """Correlate values ``[n, P, C]`` of data on a grid with those beside them along the last axis.

    Returns:
        In [-1, 1], 0 up to chance for independent ones; None for scattered data.
    """
    if data.points is not None:
        return None
    last = len(list(data.axes.values())[-1])
    lines = values.reshape(len(values), -1, last, values.shape[-1])
    lines = lines / lines.square().mean((0, 1, 2)).clamp(min=1e-300).sqrt()
    found = (lines[:, :, 1:] * lines[:, :, :-1]).mean()
    return float(found) if math.isfinite(found) else None


def _is_used(problem: Problem, symbol: object) -> bool:
    initial = [e for data in problem.initial.values() for e in data]
    faces = [e for found in problem.boundary.values() for c in found for e in c.values]
    return any(e.has(symbol) for e in (*problem.residuals, *initial, *faces))
