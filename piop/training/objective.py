"""The loss: equations, penalised conditions and data, each made dimensionless, summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from piop.problem import Problem
from piop.problem.describe import equation_texts
from piop.residual import Lift, Residual, ResidualValues
from piop.training.batch import Batch, Observations, Points
from piop.training.config import LossConfig
from piop.training.constraints import KnownField, PenalisedCondition
from piop.training.operator import Operator, field_of
from piop.training.weighting import Weightings, front_weight, relative_weight

EQUATIONS = "equations"
"""Name of the equations among the terms that have a lift."""

Outcome = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Parts of the loss, and statistics for adaptive weights."""


class ResidualLoss(nn.Module):
    """Batch → the parts of the loss and their weighted sum.

    All derivatives are taken inside ``forward``, so that a wrapper such as
    ``DistributedDataParallel`` sees one ordinary module.

    Args:
        problem: The problem.
        operator: What is trained.
        residual: The compiled equations; None without physics.
        conditions: Penalised conditions, by name.
        known: What is built in; None for nothing.
        scales: Typical size of each equation's residual ``[E]``, its own units.
        config: Fixed weights.
        weightings: Adaptive weights.
    """

    scales: Tensor

    def __init__(
        self,
        problem: Problem,
        operator: Operator,
        residual: Residual | None,
        conditions: Mapping[str, PenalisedCondition],
        known: KnownField | None,
        scales: Sequence[float],
        config: LossConfig,
        weightings: Weightings | None = None,
    ) -> None:
        super().__init__()
        self.operator = operator
        self.residual = residual
        self.conditions = dict(conditions)
        self.lifts: dict[str, Lift] = {}
        if known is not None:
            terms = {EQUATIONS: residual} if residual is not None else {}
            terms |= {name: condition.residual for name, condition in conditions.items()}
            self.lifts = {n: r.compile_lift(known.expressions) for n, r in terms.items()}
        self.config = config
        self.weightings = weightings or Weightings()
        self.register_buffer("scales", torch.tensor(scales, dtype=torch.float64), persistent=False)
        self.equations = equation_texts(problem) if residual is not None else ()
        self._slopes = _slope_units(problem, operator.scale.tolist())

    def forward(self, batch: Batch) -> Outcome:
        """Compute the loss.

        Returns:
            First the parts, dimensionless scalars that are means over the functions: ``loss``,
            their weighted sum, then ``residual``, ``initial``, ``boundary`` and ``data`` as far as
            they occur. Second the statistics that adaptive weights learn from: detached sums over
            the samples, which processes add up.
        """
        parts: dict[str, Tensor] = {}
        statistics: dict[str, Tensor] = {}
        weight = self._function_weight(batch)
        if batch.equations is not None:
            parts["residual"], statistics = self._equations(batch, batch.equations, weight)
        for name, points in batch.conditions.items():
            condition = self.conditions[name]
            found = condition.residual(
                self._field(batch, name, points), points.queries, points.input_values
            )
            term = (condition.squares(found.values) * weight).mean()
            parts[condition.part] = (
                parts[condition.part] + term if condition.part in parts else term
            )
        if batch.observations is not None:
            parts["data"] = self._data(batch.observations)
        total = sum(value * getattr(self.config, f"{name}_weight") for name, value in parts.items())
        return {"loss": total, **parts}, statistics  # type: ignore[dict-item]

    def _function_weight(self, batch: Batch) -> Tensor | float:
        """``[B, 1]``, or one where all functions count the same."""
        if batch.size is None or not self.config.relative:
            return 1.0
        return relative_weight(batch.size)[:, None]

    def _equations(
        self, batch: Batch, points: Points, weight: Tensor | float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        assert self.residual is not None  # noqa: S101 - batches have equations only with physics
        found = self.residual(
            self._field(batch, EQUATIONS, points), points.queries, points.input_values
        )
        each = (found.values / self.scales) ** 2
        squares = each.sum(-1) * weight
        squares = squares * front_weight(self._slopes_of(found), self.config.front)
        queries = points.queries.expand(len(squares), -1, -1)
        statistics = self.weightings.observe(squares, queries)
        if each.shape[-1] > 1:  # to name the one that fails
            statistics["equations"] = each.detach().sum((0, 1))
        squares = squares * self.weightings.of_points(batch.weights, queries)
        return squares.mean(), statistics

    def _slopes_of(self, found: ResidualValues) -> list[Tensor]:
        """First derivatives in space that the residual has at hand, dimensionless."""
        return [
            found.derivatives[key] * unit
            for key, unit in self._slopes.items()
            if key in found.derivatives
        ]

    def _field(self, batch: Batch, term: str, points: Points) -> Any:
        return field_of(self.operator, batch.inputs, self.lifts.get(term), points.lift)

    def _data(self, seen: Observations) -> Tensor:
        """Mean squared error relative to each trajectory's own size."""
        values = self.operator(seen.inputs, seen.queries, seen.lift)
        known = seen.targets.isfinite()
        error = torch.where(known, values - seen.targets, 0.0) ** 2
        law = self.operator.scale**2
        relative = error / law * relative_weight(seen.size / law)[:, None, :]
        return relative.sum() / known.sum()


def _slope_units(
    problem: Problem, scales: Sequence[float]
) -> dict[tuple[str, tuple[int, ...]], float]:
    """Give what makes each first derivative in space dimensionless: (L/2π)/scale."""
    units = {}
    for channel, scale in zip(problem.channels, scales, strict=True):
        for axis in problem.space:
            order = tuple(int(c is axis or c == axis) for c in problem.coordinates)
            units[channel, order] = axis.length / (2 * torch.pi * scale)
    return units
