"""The loss: equations, soft constraints and data, each made dimensionless, summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from piop.problem import Problem
from piop.problem.describe import equation_texts
from piop.residual import Field, KnownField, Lift, Residual, evaluate_once, join_points
from piop.training.batches.batch import Batch, CollocationPoints, Observations
from piop.training.config import LossConfig
from piop.training.loss.constraints import SoftConstraint
from piop.training.loss.weighting.base import Outcome, Weightings
from piop.training.loss.weighting.tangent_kernel import EQUATIONS, probe, probe_data
from piop.training.operator import Operator, OperatorField


@dataclass(frozen=True)
class WeightedResiduals:
    """The equations at their points, dimensionless.

    Attributes:
        values: Residuals ``[B, N, E]``.
        weight: Fixed weight of their squares, ``[B, N]`` or what broadcasts to that.
    """

    values: Tensor
    weight: Tensor | float

    @property
    def squares(self) -> Tensor:
        """Sum of the weighed squares at each point ``[B, N]``."""
        return (self.values**2).sum(-1) * self.weight


class ResidualLoss(nn.Module):
    """Batch → the parts of the loss and their weighted sum.

    All derivatives are taken inside ``forward``, so that a wrapper such as
    ``DistributedDataParallel`` sees one ordinary module.

    Args:
        problem: The problem.
        operator: What is trained.
        residual: The compiled equations; None without physics.
        conditions: Soft constraints, by name.
        known: What hard constraints add; None for nothing.
        scales: Typical size of each equation's residual ``[E]``, its own units.
        config: Fixed weights.
        weightings: Adaptive weights.
        rounds_data: Let matrix products of the data's part take bfloat16, which no derivative with
            respect to the coordinates goes through.
    """

    scales: Tensor

    def __init__(
        self,
        problem: Problem,
        operator: Operator,
        residual: Residual | None,
        conditions: Mapping[str, SoftConstraint],
        known: KnownField | None,
        scales: Sequence[float],
        config: LossConfig,
        weightings: Weightings | None = None,
        rounds_data: bool = False,
    ) -> None:
        super().__init__()
        self.operator = operator
        self.residual = residual
        self.conditions = dict(conditions)
        self.lifts: dict[str, Lift] = {}
        if known is not None:
            terms = {EQUATIONS: residual} if residual is not None else {}
            if residual is None or residual.grid is None:  # else all terms share the values on it
                terms |= {name: condition.residual for name, condition in conditions.items()}
            self.lifts = {n: r.compile_lift(known.expressions) for n, r in terms.items()}
        self.config, self.rounds_data = config, rounds_data
        self.weightings = weightings or Weightings()
        at_points = residual is not None and residual.grid is None
        self._rooted = config.root and at_points and not self.weightings.balances_squares
        self.register_buffer("scales", torch.tensor(scales, dtype=torch.float64), persistent=False)
        self.equations = equation_texts(problem) if residual is not None else ()
        self._slopes = {  # what makes each first derivative in space dimensionless: (L/2π)/scale
            (channel, tuple(int(c == axis) for c in problem.coordinates)): axis.length
            / (2 * torch.pi * scale)
            for channel, scale in zip(problem.channels, operator.scale.tolist(), strict=True)
            for axis in problem.space
        }

    def forward(self, batch: Batch) -> Outcome:
        """Compute the loss.

        Returns:
            First the parts, dimensionless scalars that are means over the functions (times the
            batch's fraction of them, so that processes add up to the mean): ``loss``, then the
            mean squares ``residual``, ``initial``, ``boundary`` and ``data`` as far as they occur.
            The loss is the weighted sum of these, or with ``root``, at random points without data,
            the mean over the functions of its root for each. Second the statistics that adaptive
            weights learn from: detached sums over the samples, which processes add up.
        """
        parts: dict[str, Tensor] = {}
        statistics: dict[str, Tensor] = {}
        total = self.scales.new_zeros(())
        of_functions: list[Tensor] = []  # weighted squares of the terms, [B] each
        whole = None
        if batch.equations is not None and self.residual is not None and self.residual.grid:
            whole = self._field(batch, EQUATIONS, batch.equations)  # all terms share its values
        if batch.equations is not None:
            found = self.misfits(batch, batch.equations, whole)
            squares = found.squares
            queries = batch.equations.queries.expand(len(squares), -1, -1)
            statistics = self.weightings.observe(squares, queries)
            if len(self.equations) > 1:  # to name the one that fails
                statistics["equations"] = (found.values.detach() ** 2).sum((0, 1))
            squares = squares * self.weightings.of_points(batch.weights, queries)
            own = squares.mean(-1)
            of_functions.append(own * self._part_weight(batch, "residual"))
            parts["residual"] = own.mean() * batch.fraction
            term = probe(batch.weights, EQUATIONS, found.values, found.weight)
            total = total + term * batch.fraction
        weight = self._function_weight(batch)
        fields = self._condition_fields(batch, whole)
        for (name, points), field in zip(batch.conditions.items(), fields, strict=True):
            condition = self.conditions[name]
            known = points.input_values, self._trained()
            values = condition.residual(field, points.queries, *known).values
            misfits = condition.misfits(values)
            own = ((misfits**2).sum(-1) * weight).mean(-1)
            of_functions.append(own * self._part_weight(batch, condition.part))
            part = own.mean() * batch.fraction
            parts[condition.part] = parts.get(condition.part, 0.0) + part
            total = total + probe(batch.weights, name, misfits, weight) * batch.fraction
        if batch.observations is not None:
            misfits, known = self._data(batch.observations)
            parts["data"] = (misfits**2).sum() / known
            total = total + parts["data"] * self._part_weight(batch, "data")
            total = total + probe_data(batch.weights, misfits, known)
        if of_functions:
            squares = reduce(torch.add, of_functions)
            rooted = self._rooted and batch.observations is None
            sizes = root_of_squares(squares) if rooted else squares
            total = total + sizes.mean() * batch.fraction
        return {"loss": total, **parts}, statistics

    def misfits(
        self, batch: Batch, points: CollocationPoints, whole: OperatorField | None = None
    ) -> WeightedResiduals:
        """Evaluate the equations for the functions of a batch.

        Args:
            batch: The functions.
            points: Where.
            whole: The field on the grid of all terms, where there is one.
        """
        if self.residual is None:
            raise ValueError("a loss without physics has no equations to evaluate")
        field = whole or self._field(batch, EQUATIONS, points)
        found = self.residual(field, points.queries, points.input_values, self._trained())
        slopes = [
            found.derivatives[k] * u for k, u in self._slopes.items() if k in found.derivatives
        ]
        weight = self._function_weight(batch) * front_weight(slopes, self.config.front)
        weight = weight if points.weight is None else weight * points.weight
        return WeightedResiduals(found.values / self.scales, weight)

    def field(self, batch: Batch) -> OperatorField:
        """Return the operator on the functions of a batch, as the equations see it.

        Raises:
            ValueError: For a batch without equations.
        """
        if batch.equations is None:
            raise ValueError("a batch without equations has no points of theirs")
        return self._field(batch, EQUATIONS, batch.equations)

    def _part_weight(self, batch: Batch, part: str) -> Tensor | float:
        """Weight of a part of the loss, fixed times adaptive."""
        return self.config.weights[part] * self.weightings.of_part(batch.weights, part)

    def _trained(self) -> tuple[Tensor, ...]:
        """Present values ``[]`` of the parameters that are trained."""
        inferred = self.operator.inferred
        return () if inferred is None else inferred()

    def _function_weight(self, batch: Batch) -> Tensor | float:
        """``[B, 1]``, or one where all functions count the same."""
        if batch.size is None or not self.config.relative:
            return 1.0
        return relative_weight(batch.size)[:, None]

    def _field(self, batch: Batch, term: str, points: CollocationPoints) -> OperatorField:
        return OperatorField(self.operator, batch.inputs, self.lifts.get(term), points.lift)

    def _condition_fields(self, batch: Batch, whole: OperatorField | None) -> Sequence[Field]:
        """Evaluate the network once at the points of all conditions, where that is possible."""
        terms = batch.conditions
        if whole is not None:
            return [whole] * len(terms)
        if len(terms) > 1:
            residuals = [self.conditions[name].residual for name in terms]
            places = [points.queries for points in terms.values()]
            lift, rows = self.lifts.get(next(iter(terms))), None
            if lift is not None:
                rows = join_points([p.lift for p in terms.values() if p.lift is not None], 1)
            field = OperatorField(self.operator, batch.inputs, lift, rows)
            if (found := evaluate_once(field, residuals, places)) is not None:
                return found
        return [self._field(batch, name, points) for name, points in terms.items()]

    def _data(self, seen: Observations) -> tuple[Tensor, Tensor]:
        """Errors relative to each trajectory's own size ``[B, N, C]``, and how many are known."""
        device = seen.queries.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.rounds_data, cache_enabled=False):
            if seen.layout is not None:
                values = self.operator.on_layout(seen.inputs, seen.layout, seen.lift)
            else:
                values = self.operator(seen.inputs, seen.queries, seen.lift)
        known = seen.targets.isfinite()
        error = torch.where(known, values - seen.targets, 0.0) / self.operator.scale
        size = seen.size.nan_to_num(0.0)  # of a channel without data, whose errors are zero
        weight = relative_weight(size / self.operator.scale**2)
        return error * weight.sqrt()[:, None, :], seen.known


def relative_weight(size: Tensor, floor: float = 0.1) -> Tensor:
    """Weigh each function by the inverse of the size of its solution: 1/(floor + size).

    The error that counts is relative to each solution, so the loss is too: without it functions
    of large amplitude rule the batch.

    Args:
        size: Mean square of each function's data over its mean under the distribution ``[B]``.
        floor: Keeps the smallest functions from ruling instead, dimensionless.

    Returns:
        ``[B]``.

    Source: own (docs/training.md).
    """
    return 1 / (floor + size)


def root_of_squares(squares: Tensor) -> Tensor:
    """Return √s, with a gradient at s = 0 too.

    Mean squares are dominated by the few functions whose residuals are largest. The root counts
    every function by its norm, as the mean of relative errors does.

    Args:
        squares: Weighted mean square of the residuals of each function ``[B]``, dimensionless.

    Returns:
        ``[B]``.

    Source: own (docs/training.md); losses on data of Li et al. 2021 (2010.08895) are such means.
    """
    return (squares + torch.finfo(squares.dtype).tiny).sqrt()


def front_weight(slopes: Sequence[Tensor], strength: float) -> Tensor | float:
    """Damp the residual where the solution is steep, as at a moving front.

    The residual is multiplied by 1/(1 + strength·‖slope‖), so its square by the square of that,
    detached. Fronts carry residuals of the order slope² that would drown the rest of the domain.

    Args:
        slopes: First derivatives in space made dimensionless, ``[B, N]`` each.
        strength: Dimensionless; 0 gives ones.

    Returns:
        Factor of the squared residual ``[B, N]``, or 1.0 where there is nothing to damp.

    Source: own (docs/training.md); in the spirit of the gradient weights of Liu et al. 2022
    (2206.03864).
    """
    if strength == 0 or not slopes:
        return 1.0
    squares = reduce(torch.add, [slope.detach() ** 2 for slope in slopes])
    return (1 + strength * squares.sqrt()) ** -2
