"""Conditions as training meets them: the lift that builds data in, and the terms that penalise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, final

import sympy as sp
import torch
from torch import Tensor

from piop.boundary import BoundaryCondition
from piop.fields import InputFunction
from piop.forms.lift import lift_expression
from piop.forms.streams import plan_expressions
from piop.forms.terms import split_terms
from piop.lowering import compile_expressions
from piop.problem import Coordinate, Problem
from piop.problem.constraints import Constraints, space_order
from piop.residual import GridLift, PointwiseResidual, Residual
from piop.residual.inputs import InputDerivatives
from piop.sampling import Draws, boundary_points, initial_points
from piop.sampling.regions import inside
from piop.training.batches.normals import KnownInput, normals_on

SLANTED = (sp.Rational(3, 5), sp.Rational(4, 5))
"""A unit vector, for the size of a condition whose normal turns."""


class KnownField:
    """Expressions of the coordinates and inputs, evaluated at points without gradient.

    Args:
        problem: Whose coordinates and inputs they use.
        expressions: K of them, free of unknowns.

    Attributes:
        expressions: The expressions.
        names: The inputs that occur in them.
    """

    def __init__(self, problem: Problem, expressions: Sequence[sp.Expr]) -> None:
        self.expressions = tuple(sp.sympify(e) for e in expressions)
        self._inputs = problem.inputs
        self._symbols = tuple(c.symbol for c in problem.coordinates)
        self._derivatives = InputDerivatives(self.expressions, self._inputs, self._symbols)
        atoms = [*self._symbols, *self._derivatives.atoms]
        self._values = compile_expressions(self.expressions, atoms)
        used = {name for name, _ in self._derivatives.entries}
        self.names = tuple(item.name for item in problem.inputs if item.name in used)

    @torch.no_grad()
    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate at ``queries [B or 1, N, D]``: ``[B, N, K]``."""
        inputs = self._derivatives.at(functions, queries)
        found = self._values([*queries.unbind(-1), *inputs])
        shape = torch.broadcast_shapes(queries.shape[:-1], *(v.shape for v in found))
        return torch.stack([v.to(queries).expand(shape) for v in found], -1)

    @torch.no_grad()
    def on_grid(self, functions: Mapping[str, InputFunction], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on the tensor grid of ``axes``.

        Returns:
            ``[B, n_1, …, n_D, K]``, with 1 in place of n along the axes on which nothing depends.
        """
        lift = GridLift(self.expressions, self._inputs, self._symbols, axes)
        return lift(functions, axes[0])[0]


def hard_constraint_lift(
    problem: Problem, conditions: Constraints, mean: Sequence[float]
) -> KnownField | None:
    """Give what is added to the network so that initial data and wall values hold exactly.

    Args:
        problem: The problem.
        conditions: Which data are built in.
        mean: Constant of each channel without built-in data, its units.

    Returns:
        For each channel what :func:`piop.forms.lift.lift_expression` writes; None where nothing
        is built in.
    """
    if not conditions.lifts:
        return None
    expressions = [
        lift_expression(problem.pde, channel, order, faces, 0.0 if order else constant)
        for channel, order, faces, constant in zip(
            problem.channels, conditions.lift, conditions.walls, mean, strict=True
        )
    ]
    return KnownField(problem, [e for e in expressions if e is not None])


class SoftConstraint(ABC):
    """A condition that the loss penalises.

    Attributes:
        part: Which part of the loss it belongs to.
        residual: Its expressions, compiled like equations.
        units: Size of each of them, its own units.
    """

    part: ClassVar[str]
    residual: Residual
    units: list[float]

    @abstractmethod
    def place(self, draws: Draws, count: int) -> Tensor:
        """Place about ``count`` points per function ``[B, N, D]``."""

    def known(self, functions: Mapping[str, InputFunction]) -> Mapping[str, InputFunction]:
        """Give the functions that its expressions hold, beside those that are drawn."""
        return functions

    @abstractmethod
    def misfits(self, values: Tensor) -> Tensor:
        """Turn values of the expressions ``[B, N, E]`` into dimensionless misfits, perhaps fewer.

        Returns:
            ``[B, N', E]``, whose squares the loss sums over E and averages over the rest.
        """


@final
class SoftInitialData(SoftConstraint):
    """∂ᵏu/∂tᵏ = its initial value at t0, for all initial data that are not built in.

    Args:
        problem: The problem.
        data: (unknown, k) of each.
        scales: Typical size of each channel, by name.
    """

    part = "initial"

    def __init__(
        self, problem: Problem, data: Sequence[tuple[str, int]], scales: Mapping[str, float]
    ) -> None:
        assert problem.time is not None  # noqa: S101 - initial data exist
        time = problem.time
        expressions = [
            sp.diff(problem.function(name), time.symbol, k) - problem.initial[name][k]
            for name, k in data
        ]
        self.problem = problem
        self.residual = residual_of(problem, expressions)
        self.units = [scales[name] / time.length**k for name, k in data]

    def place(self, draws: Draws, count: int) -> Tensor:
        """Place points at the initial time."""
        return initial_points(self.problem, draws, count)

    def misfits(self, values: Tensor) -> Tensor:
        """Divide by the units of the data ``[B, N, E]``."""
        return values / values.new_tensor(self.units)


@final
class SoftPeriodicity(SoftConstraint):
    """∂ᵏu/∂xᵏ the same at both ends of an axis, for every k below the order of the equation.

    Args:
        problem: The problem.
        axis: The periodic axis.
        scales: Typical size of each channel, by name.
    """

    part = "boundary"

    def __init__(self, problem: Problem, axis: Coordinate, scales: Mapping[str, float]) -> None:
        terms = [
            (name, k)
            for name in problem.channels
            for k in range(max(1, space_order(problem, name)))
        ]
        expressions = [sp.diff(problem.function(name), axis.symbol, k) for name, k in terms]
        self.problem, self.axis = problem, axis
        self.residual = residual_of(problem, expressions)
        self.units = [scales[n] * (2 * torch.pi / axis.length) ** k for n, k in terms]

    def place(self, draws: Draws, count: int) -> Tensor:
        """Place half of the points at the left end, and the same at the right end after them."""
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
    """What the conditions on one face ask, for all of them that are not built in.

    Args:
        problem: The problem.
        face: Such as ``x.min``, or part of the boundary of a shape.
        conditions: Those of the face.
        scales: Typical size of each channel, by name.
    """

    part = "boundary"

    def __init__(
        self,
        problem: Problem,
        face: str,
        conditions: Sequence[BoundaryCondition],
        scales: Mapping[str, float],
    ) -> None:
        normal, inputs = problem.domain.normal(face), ()
        self._normal: dict[str, InputFunction] = {}
        if turns := not all(n.is_number for n in normal):
            inputs, self._normal = normals_on(problem, face)
        expressions = [problem.pde.condition_residual(face, c, normal) for c in conditions]
        self.problem, self.face = problem, face
        self.residual = residual_of(problem, expressions, inputs)
        slanted = SLANTED if turns else normal
        sized = [problem.pde.condition_residual(face, c, slanted) for c in conditions]
        self.units = [_size(problem, e, scales) for e in sized]

    def place(self, draws: Draws, count: int) -> Tensor:
        """Place points on the face, at random times."""
        return boundary_points(self.problem, draws, count, self.face)

    def known(self, functions: Mapping[str, InputFunction]) -> Mapping[str, InputFunction]:
        """Add the normal where it turns."""
        return {**functions, **self._normal}

    def misfits(self, values: Tensor) -> Tensor:
        """Divide by the units of the conditions ``[B, N, E]``."""
        return values / values.new_tensor(self.units)


@final
class SoftGauge(SoftConstraint):
    """The mean over space of unknowns that the equations leave a constant to, at every time.

    Args:
        problem: The problem.
        means: Unknown → its mean, its units.
        scales: Typical size of each channel, by name.
    """

    part = "boundary"

    def __init__(
        self, problem: Problem, means: Mapping[str, float], scales: Mapping[str, float]
    ) -> None:
        self.problem = problem
        self.residual = residual_of(
            problem, [problem.function(name) - mean for name, mean in means.items()]
        )
        self.units = [scales[name] for name in means]

    def place(self, draws: Draws, count: int) -> Tensor:
        """Place an even grid over space, at one random time for each function."""
        space, domain = self.problem.space, self.problem.domain.fixed
        fraction = domain.volume / math.prod(axis.length for axis in space)
        each = max(2, round((count / fraction) ** (1 / len(space))))
        cells = (torch.arange(each, dtype=torch.float64, device=draws.device) + 0.5) / each
        ticks = [axis.low + axis.length * cells for axis in space]
        grid = torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).flatten(0, -2)
        grid = grid[inside(domain, grid)].expand(draws.batch, -1, -1)
        if self.problem.time is None:
            return grid
        time = self.problem.time
        at = time.low + time.length * draws.uniform("gauge/time", 1, 1)
        return torch.cat([at.expand(-1, grid.shape[1], -1), grid], -1)

    def misfits(self, values: Tensor) -> Tensor:
        """Take the means over the grid ``[B, 1, E]``."""
        return values.mean(1, keepdim=True) / values.new_tensor(self.units)


def soft_constraints(
    problem: Problem, conditions: Constraints, scales: Mapping[str, float]
) -> dict[str, SoftConstraint]:
    """Build the penalty of all that is not built in, by a name such as ``initial``."""
    found: dict[str, SoftConstraint] = {}
    if conditions.initial:
        found["initial"] = SoftInitialData(problem, conditions.initial, scales)
    for axis in problem.space:
        if axis.name in conditions.penalised_periodic:
            found[f"periodic/{axis.name}"] = SoftPeriodicity(problem, axis, scales)
    faces = dict.fromkeys(face for face, _ in conditions.boundary)
    for face in faces:
        asked = [c for f, c in conditions.boundary if f == face]
        found[f"wall/{face}"] = SoftFaceConditions(problem, face, asked, scales)
    means = dict(problem.gauge) | {a.name: a.mean for a in problem.auxiliaries if a.gauged}
    if means:
        found["gauge"] = SoftGauge(problem, means, scales)
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


def residual_of(
    problem: Problem, expressions: Sequence[sp.Expr], more: Sequence[KnownInput] = ()
) -> PointwiseResidual:
    """Compile expressions of the unknowns as if they were the equations of the problem.

    Args:
        problem: The problem.
        expressions: They may hold its inputs.
        more: Other functions that they hold.
    """
    symbols = tuple(c.symbol for c in problem.coordinates)
    trained = [sp.Symbol(name, real=True) for name in problem.infer]
    plan = plan_expressions(expressions, symbols, problem.channels, trained=trained)
    inputs = (*problem.inputs, *more)
    return PointwiseResidual(plan, expressions, inputs, trained=tuple(problem.infer))
