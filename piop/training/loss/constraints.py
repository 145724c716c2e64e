"""Soft constraints: terms of the loss that penalise initial data, boundary conditions and gauges.

Each is evaluated as the equations are: at points that are drawn, or on their grid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self, final

import sympy as sp
import torch
from torch import Tensor

from piop.boundary import BoundaryCondition
from piop.domain import FixedDomain
from piop.fields import Device, InputFunction, tensor_grid
from piop.forms.stream_plan import StreamPlan, plan_expressions
from piop.forms.terms import highest_space_order, split_terms, unknown_derivatives
from piop.problem import Coordinate, Input, Problem
from piop.problem.constraints import Constraints, InitialConstraint
from piop.residual import DerivedFunctions, GridResidual, PointwiseResidual, Residual, TensorGrid
from piop.sampling import Draws, boundary_points, initial_points
from piop.sampling.collocation import inside
from piop.spec.model import SensorPlacement
from piop.training.loss.known_functions import Functions

SLANTED = (sp.Rational(3, 5), sp.Rational(4, 5))
"""A unit vector, for the size of a condition on a face that is not straight."""


@dataclass(frozen=True)
class ConditionExpressions:
    """What a condition asks to vanish.

    Attributes:
        residuals: Expressions of the unknowns, which may hold inputs of the problem.
        inputs: Other functions that they hold, at points.
        start: Whether it holds at the first time alone.
    """

    residuals: Sequence[sp.Expr]
    inputs: Sequence[Input] = ()
    start: bool = False


@dataclass(frozen=True)
class ConditionSetting:
    """What all soft constraints of a loss share.

    Attributes:
        problem: The problem.
        scales: Typical size of each channel, by name.
        grid: That of the equations; None to draw points.
        like: A tensor of the device and precision of a step.
        derived: Functions that hard constraints may contain beside the inputs.
    """

    problem: Problem
    scales: Mapping[str, float]
    grid: TensorGrid | None = None
    like: Tensor | None = None
    derived: DerivedFunctions | None = None

    def compile(self, *conditions: ConditionExpressions) -> list[Residual]:
        """Compile expressions of the unknowns as if they were the equations of the problem.

        At points all of them have the same streams, so that one evaluation of a field serves all.
        """
        if self.grid is not None:
            grids = self.grid.start(), replace(self.grid, steps=False)
            return [
                GridResidual(self.problem, grids[not c.start], c.residuals, self.like, self.derived)
                for c in conditions
            ]
        inputs, infer = self.problem.inputs, tuple(self.problem.infer)
        return [
            PointwiseResidual(plan, c.residuals, (*inputs, *c.inputs), None, infer, self.derived)
            for c, plan in zip(conditions, self._plans(conditions), strict=True)
        ]

    def _plans(self, conditions: Sequence[ConditionExpressions]) -> list[StreamPlan]:
        """Plan the same streams for several conditions."""
        every = [residual for condition in conditions for residual in condition.residuals]
        symbols = tuple(c.symbol for c in self.problem.coordinates)
        channels = self.problem.channels
        trained = [sp.Symbol(name, real=True) for name in self.problem.infer]
        plan = plan_expressions(every, symbols, channels, trained=trained)
        if plan.coefficients and len(conditions) > 1:  # known where their own condition holds alone
            apart = [index for _, index in unknown_derivatives(every, symbols, channels).values()]
            plan = plan_expressions(every, symbols, channels, apart, trained)
        return plan.split([len(condition.residuals) for condition in conditions])


class SoftConstraint(ABC):
    """A condition that the loss penalises.

    Attributes:
        part: Part of the loss that it belongs to.
        problem: The problem.
        expressions: What it asks to vanish.
        residual: They, compiled like equations, by :func:`soft_constraints`.
        units: Size of each of them, its own units.
    """

    part: ClassVar[str] = "boundary"
    expressions: ConditionExpressions
    residual: Residual
    units: list[float]

    def __init__(self, setting: ConditionSetting) -> None:
        self.problem = setting.problem

    def place(self, draws: Draws, count: int) -> Tensor:
        """Return the points of its grid, or draw about ``count`` per function ``[B, N, D]``."""
        return self.residual.place(lambda: self.draw(draws, count))

    @abstractmethod
    def draw(self, draws: Draws, count: int) -> Tensor:
        """Draw about ``count`` points per function ``[B, N, D]``."""

    def known(self, functions: Functions) -> Functions:
        """Return the functions in its expressions, beside those that are drawn."""
        return functions

    def misfits(self, values: Tensor) -> Tensor:
        """Turn values of the expressions ``[B, N, E]`` into dimensionless misfits, perhaps fewer.

        Returns:
            ``[B, N', E]``, whose squares the loss sums over E and averages over the rest.
        """
        return values / values.new_tensor(self.units)


@final
class SoftInitialData(SoftConstraint):
    """∂ᵏu/∂tᵏ = its initial value at t0, for all initial data that are soft constraints.

    On a grid they are evaluated on its first slice.

    Args:
        setting: What all soft constraints share.
        data: The initial data.
    """

    part = "initial"

    def __init__(self, setting: ConditionSetting, data: Sequence[InitialConstraint]) -> None:
        super().__init__(setting)
        problem, time = setting.problem, setting.problem.coordinates[0]
        expressions = [
            sp.diff(problem.function(c.unknown), time.symbol, c.order)
            - problem.initial[c.unknown][c.order]
            for c in data
        ]
        self.expressions = ConditionExpressions(expressions, start=True)
        self.units = [setting.scales[c.unknown] / time.length**c.order for c in data]

    def draw(self, draws: Draws, count: int) -> Tensor:
        """Draw points at the initial time."""
        return initial_points(self.problem, draws, count)


@final
class SoftPeriodicity(SoftConstraint):
    """∂ᵏu/∂xᵏ the same at both ends of an axis, for every k below the order of the equation.

    Args:
        setting: What all soft constraints share.
        axis: The periodic axis.
    """

    def __init__(self, setting: ConditionSetting, axis: Coordinate) -> None:
        super().__init__(setting)
        problem, self.axis = setting.problem, axis
        highest = partial(highest_space_order, problem.pde, problem.residuals)
        terms = [(n, k) for n in problem.channels for k in range(max(1, highest([n])))]
        self.expressions = ConditionExpressions(
            [sp.diff(problem.function(name), axis.symbol, k) for name, k in terms]
        )
        self.units = [setting.scales[n] * (2 * torch.pi / axis.length) ** k for n, k in terms]

    def draw(self, draws: Draws, count: int) -> Tensor:
        """Draw half of the points at the left end, and repeat them at the right end."""
        left = boundary_points(self.problem, draws, count, f"{self.axis.name}.min")
        right = left.clone()
        column = [c.name for c in self.problem.coordinates].index(self.axis.name)
        right[..., column] = self.axis.high
        return torch.cat([left, right], 1)

    def misfits(self, values: Tensor) -> Tensor:
        """Take the differences between the ends ``[B, N/2, E]``."""
        left, right = values.chunk(2, dim=1)
        return (left - right) / values.new_tensor(self.units)


@final
class SoftFaceConditions(SoftConstraint):
    """The conditions on one face that are soft constraints.

    Args:
        setting: What all soft constraints share.
        face: Such as ``x.min``, or part of the boundary of a region.
        conditions: Those of the face.
    """

    def __init__(
        self, setting: ConditionSetting, face: str, conditions: Sequence[BoundaryCondition]
    ) -> None:
        super().__init__(setting)
        problem, domain, self.face = setting.problem, setting.problem.domain, face
        normal = slanted = domain.normal(face)
        components: list[Input] = []
        self._normal: dict[str, InputFunction] = {}
        if not all(n.is_number for n in normal):
            slanted, of = SLANTED, tuple(c.name for c in problem.space)
            for i, (name, symbol) in enumerate(zip(domain.normal_names, normal, strict=True)):
                components.append(
                    Input(name, of, None, None, True, True, (), SensorPlacement.UNIFORM, symbol)
                )
                self._normal[name] = OutwardNormal(domain.fixed, face, i)
        residuals, sized = (
            [problem.pde.condition_residual(face, c, n) for c in conditions]
            for n in (normal, slanted)
        )
        self.expressions = ConditionExpressions(residuals, components)
        self.units = [_size(problem, e, setting.scales) for e in sized]

    def draw(self, draws: Draws, count: int) -> Tensor:
        """Draw points on the face, at random times."""
        return boundary_points(self.problem, draws, count, self.face)

    def known(self, functions: Functions) -> Functions:
        """Add the normal of a face that is not straight."""
        return {**functions, **self._normal}


@final
class SoftGauge(SoftConstraint):
    """The mean over space of unknowns that the equations leave a constant to, at every time.

    Args:
        setting: What all soft constraints share.
        means: Unknown → its mean, its units.
    """

    def __init__(self, setting: ConditionSetting, means: Mapping[str, float]) -> None:
        super().__init__(setting)
        problem, grid, self.times = setting.problem, setting.grid, 1
        if grid is not None and grid.time is not None:
            self.times = len(grid.ticks[grid.time])
        self.expressions = ConditionExpressions(
            [problem.function(name) - mean for name, mean in means.items()]
        )
        self.units = [setting.scales[name] for name in means]

    def draw(self, draws: Draws, count: int) -> Tensor:
        """Place an even grid over space, at one random time for each function."""
        space, domain = self.problem.space, self.problem.domain.fixed
        fraction = domain.volume / math.prod(axis.length for axis in space)
        each = max(2, round((count / fraction) ** (1 / len(space))))
        cells = (torch.arange(each, dtype=torch.float64, device=draws.index.device) + 0.5) / each
        ticks = [axis.low + axis.length * cells for axis in space]
        grid = tensor_grid(ticks)
        grid = grid[inside(domain, grid)].expand(draws.batch, -1, -1)
        if self.problem.time is None:
            return grid
        time = self.problem.time
        at = time.low + time.length * draws.uniform("gauge/time", 1, 1)
        return torch.cat([at.expand(-1, grid.shape[1], -1), grid], -1)

    def misfits(self, values: Tensor) -> Tensor:
        """Take the means over space at each time ``[B, T, E]``; the time is slowest on a grid."""
        slices = values.unflatten(1, (self.times, -1))
        return slices.mean(2) / values.new_tensor(self.units)


def soft_constraints(
    constraints: Constraints, setting: ConditionSetting
) -> dict[str, SoftConstraint]:
    """Build all soft constraints, by a name such as ``initial``.

    Args:
        constraints: As decided; on a grid those of :meth:`Constraints.on_grid`.
        setting: What all soft constraints share.
    """
    problem = setting.problem
    found: dict[str, SoftConstraint] = {}
    if data := constraints.soft_initial:
        found["initial"] = SoftInitialData(setting, data)
    for periodic in constraints.soft_periodic:
        axis = problem.coordinate(periodic.axis)
        found[f"periodic/{axis.name}"] = SoftPeriodicity(setting, axis)
    for face, conditions in constraints.soft_faces.items():
        found[f"wall/{face}"] = SoftFaceConditions(setting, face, conditions)
    if means := problem.pde.means:
        found["gauge"] = SoftGauge(setting, means)
    compiled = setting.compile(*(condition.expressions for condition in found.values()))
    for condition, residual in zip(found.values(), compiled, strict=True):
        condition.residual = residual
    return found


def _size(problem: Problem, expression: sp.Expr, scales: Mapping[str, float]) -> float:
    """Typical size of a condition: the root of the sum of the squares of its terms in unknowns.

    A derivative counts as (2π/L)^k times the unknown, a coefficient that is no number as one.
    """
    total = 0.0
    for term in split_terms(problem.pde, expression)[0]:
        waves = [
            (2 * math.pi / c.length) ** n
            for c, n in zip(problem.coordinates, term.order, strict=True)
        ]
        factor = abs(float(term.coefficient)) if term.coefficient.is_number else 1.0
        total += (factor * scales[term.unknown] * math.prod(waves)) ** 2
    return math.sqrt(total) or 1.0


@final
class OutwardNormal(InputFunction):
    """A component of the outward normal of a face, at points on it.

    Args:
        domain: The domain.
        face: Part of it.
        component: 0 or 1.
    """

    def __init__(self, domain: FixedDomain, face: str, component: int) -> None:
        self.domain, self.face, self.component = domain, face, component

    @property
    def batch(self) -> int:
        """One function."""
        return 1

    @property
    def dimension(self) -> int:
        """Of two coordinates."""
        return 2

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``[B, N, 2]``: ``[B, N]``, the point of the face that is nearest.

        Raises:
            NotImplementedError: For a derivative, which no condition asks.
        """
        if any(order):
            raise NotImplementedError("a normal is known on the boundary alone")
        positions = points.double().cpu().reshape(-1, 2).numpy()
        found = torch.from_numpy(self.domain.normals(positions, self.face)[:, self.component])
        return found.reshape(points.shape[:-1]).to(points)

    def take(self, index: Tensor) -> Self:
        """The same for all functions."""
        return self

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """The same anywhere."""
        return self
