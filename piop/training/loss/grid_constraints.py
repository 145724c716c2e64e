"""Conditions of a network that answers on a grid: which are built in, and those that penalise.

Periods need no harmonics of the coordinates, since spectra know nothing else. A slope at the start
that is built in as u0 + (t - t0)·v0 is not felt by differences in time, which find as small a
residual for any other slope; it is penalised, as are data that are not smooth enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import final

import sympy as sp
from torch import Tensor

from piop.problem import Problem
from piop.problem.constraints import Constraint, Constraints
from piop.residual import GridResidual, TensorGrid
from piop.sampling import Draws
from piop.training.loss.constraints import SoftConstraint


def conditions_on_grid(problem: Problem, conditions: Constraints) -> Constraints:
    """Change what is decided for points to what a grid can have.

    Args:
        problem: The problem.
        conditions: As :func:`piop.problem.constraints.decide_constraints` gives them.
    """
    slopes = [
        (channel, 1)
        for channel, order in zip(problem.channels, conditions.lift, strict=True)
        if order == 2
    ]
    axes = tuple(c.name for c in problem.space if c.periodic)
    decisions = [
        Constraint(d.what, True, "through differentiation by spectra")
        if d.what.startswith("periodic in ")
        else d
        for d in conditions.decisions
    ]
    decisions = [
        replace(d, built_in=False, why="differences in time do not feel a slope that is built in")
        if problem.time is not None and _is_slope(problem, d, {name for name, _ in slopes})
        else d
        for d in decisions
    ]
    return Constraints(
        lift=tuple(min(order, 1) for order in conditions.lift),
        initial=(*conditions.initial, *slopes),
        periodic=axes,
        penalised_periodic=(),
        decisions=tuple(decisions),
        walls=conditions.walls,
    )


def _is_slope(problem: Problem, decision: Constraint, names: set[str]) -> bool:
    assert problem.time is not None  # noqa: S101 - asked for evolution problems alone
    return any(decision.what.startswith(f"d{problem.time.name}({name}) at ") for name in names)


@final
class InitialOnGrid(SoftConstraint):
    """∂ᵏu/∂tᵏ = its initial value on the first slice, for all data that are not built in.

    Args:
        problem: The problem.
        conditions: Which they are.
        scales: Typical size of each channel, by name.
        grid: That of the equations.
        like: A tensor of the device and precision of a step.
    """

    part = "initial"

    def __init__(
        self,
        problem: Problem,
        conditions: Constraints,
        scales: Mapping[str, float],
        grid: TensorGrid,
        like: Tensor,
    ) -> None:
        assert problem.time is not None  # noqa: S101 - initial data exist
        time, data = problem.time, conditions.initial
        expressions = [
            sp.diff(problem.function(name), time.symbol, k) - problem.initial[name][k]
            for name, k in data
        ]
        self.residual = residual = GridResidual(problem, grid.start(), expressions, like)
        self.points = residual.points
        self.units = [scales[name] / time.length**k for name, k in data]

    def place(self, draws: Draws, count: int) -> Tensor:
        """Give the first slice of the grid."""
        return self.points

    def misfits(self, values: Tensor) -> Tensor:
        """Divide by the units of the data ``[B, N, E]``."""
        return values / values.new_tensor(self.units)


@final
class GaugeOnGrid(SoftConstraint):
    """The mean over space of unknowns that the equations leave a constant to, at every time.

    Args:
        problem: The problem.
        means: Unknown → its mean, its units.
        scales: Typical size of each channel, by name.
        grid: That of the equations.
        like: A tensor of the device and precision of a step.
    """

    part = "boundary"

    def __init__(
        self,
        problem: Problem,
        means: Mapping[str, float],
        scales: Mapping[str, float],
        grid: TensorGrid,
        like: Tensor,
    ) -> None:
        expressions = [problem.function(name) - mean for name, mean in means.items()]
        self.residual = residual = GridResidual(
            problem, replace(grid, steps=False), expressions, like
        )
        self.points = residual.points
        self.times = 1 if grid.time is None else len(grid.ticks[grid.time])
        self.units = [scales[name] for name in means]

    def place(self, draws: Draws, count: int) -> Tensor:
        """Give the grid."""
        return self.points

    def misfits(self, values: Tensor) -> Tensor:
        """Take the means over each slice ``[B, T, E]``; the time is the slowest coordinate."""
        slices = values.unflatten(1, (self.times, -1))
        return slices.mean(2) / values.new_tensor(self.units)


def penalised_on_grid(
    problem: Problem,
    conditions: Constraints,
    scales: Mapping[str, float],
    grid: TensorGrid,
    like: Tensor,
) -> dict[str, SoftConstraint]:
    """Build the penalty of all that is not built in, by a name such as ``initial``."""
    found: dict[str, SoftConstraint] = {}
    if conditions.initial:
        found["initial"] = InitialOnGrid(problem, conditions, scales, grid, like)
    means = dict(problem.gauge) | {a.name: a.mean for a in problem.auxiliaries if a.gauged}
    if means:
        found["gauge"] = GaugeOnGrid(problem, means, scales, grid, like)
    return found
