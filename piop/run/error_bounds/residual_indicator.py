"""Estimates of the error of one prediction by its residual, from its sensors alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError, UsageError
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.run.error_bounds.linearised_error import FirstOrder, LinearisedError
from piop.run.evaluation import RESIDUAL_AT_ONCE, residual_at_points
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation
from piop.sampling.random import CALIBRATION
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.build import Model, residual_of_model
from piop.training.config import TrainingConfig

POINTS = 1024
"""Points at which the residual of an input is evaluated, the same for all inputs."""
FEWEST = 10
"""Inputs that the power of the residual is chosen on at least."""
LEAST_CORRELATION = 0.3
"""Correlation of the logarithms of residual and error below which the residual says nothing."""
MOST_POWER = 1.5


class ResidualSize:
    """Measures the residual of predictions relative to their size.

    It is the residual at points; on a lattice that of the linearised equations, which is the error
    to first order.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        config: The run's choices.
        lattice: As of :func:`piop.run.error_bounds.linearised_error.choose_lattice`.

    Raises:
        NotSupportedError: Where the equations cannot be evaluated from the sensors of the inputs.
    """

    def __init__(
        self,
        problem: Problem,
        model: Model,
        config: TrainingConfig,
        lattice: tuple[int, ...] = (),
    ) -> None:
        operator = model.operator
        no_grid = operator.gridded and model.training_grid is None
        if not problem.capabilities.equations or operator.end_only or no_grid:
            raise NotSupportedError(f"{problem.name}: the operator has no residual at points")
        self.problem, self.model, self.lattice = problem, model, lattice
        if lattice:
            return
        self._scale = operator.scale.double().cpu()
        self._points = collocation(problem, Draws.of(CALIBRATION, 0, range(1)), POINTS)
        try:
            self._residual = residual_of_model(problem, model, config)
        except UsageError as error:  # the grid of its data holds no differences
            raise NotSupportedError(str(error)) from error
        self._at = self._residual.place(lambda: self._points.to(operator.scale))

    @torch.no_grad()
    def __call__(self, observed: Inputs, first_order: FirstOrder | None = None) -> Tensor:
        """Return the root mean square of each equation's residual over the prediction's size.

        On a lattice it is the relative L2 error of each unknown, to first order.

        Args:
            observed: Sensors of B samples of each visible input.
            first_order: What :class:`LinearisedError` found for them on the same lattice, where
                that is known already.

        Returns:
            ``[B, E]`` float64 on the CPU, of linearised equations ``[B, C]``; infinite where a
            residual is not finite.

        Raises:
            NotSupportedError: Where the equations contain an input that has no sensors.
        """
        batch = max(len(s.values) for s in observed.values()) if observed else 1
        if self.lattice:
            if first_order is None:
                first_order = LinearisedError(self.problem, self.model, self.lattice)(observed)
            ratio = first_order.relative()
            return ratio.where(ratio.isfinite(), torch.inf)
        try:
            squares = self._mean_squares(observed, batch)
        except KeyError as error:
            raise NotSupportedError(f"{self.problem.name}: {error} is hidden") from error
        values = predict_values(self.problem, self.model, observed, Queries(points=self._points))
        size = (values / self._scale).square().mean((1, 2)).expand(batch)
        ratio = (squares / size[:, None]).sqrt()
        return ratio.where(ratio.isfinite(), torch.inf)

    def _mean_squares(self, observed: Inputs, batch: int) -> Tensor:
        """Return the mean square of each equation's residual over its points ``[B, E]``."""
        like, found = self.model.operator.scale, []
        for rows in torch.arange(batch).split(RESIDUAL_AT_ONCE):
            seen = {name: s.repeat(batch).take(rows).to(like) for name, s in observed.items()}
            functions = interpolate_inputs(self.problem, seen)
            evaluate = residual_at_points(self.model, self._residual, functions, seen)
            at = self._at if self._residual.grid else self._at.expand(len(rows), -1, -1)
            found.append(evaluate(at).double().cpu().square().mean(1).expand(len(rows), -1))
        return torch.cat(found)


@final
@dataclass(frozen=True)
class Indicator:
    """A typical error, from the sizes of the residuals of an input: factor · residualᵖᵒʷᵉʳ.

    Attributes:
        units: Size of each equation's residual that counts as one ``[E]``; 1 on a lattice, where it
            is a relative error; empty where the residual is not known, and the indicator the same
            for all inputs.
        power: 0 for the same indicator for all inputs.
        factor: Relative L2 error at a residual of one.
        least: Residual below which a smaller one says nothing more.
        lattice: Of the residual, see :func:`piop.run.error_bounds.linearised_error.choose_lattice`.
    """

    units: tuple[float, ...]
    power: float
    factor: float
    least: float
    lattice: tuple[int, ...] = ()

    @classmethod
    def choose(
        cls, residuals: Tensor | None, errors: Tensor, lattice: tuple[int, ...] = ()
    ) -> Self:
        """Fit an indicator to some inputs, which the quantile of scores must not come from.

        Args:
            residuals: As :class:`ResidualSize` returns them ``[n, E]``; None where it cannot.
            errors: Their relative L2 errors ``[n]``.
            lattice: Of the residuals.
        """
        positive = errors[errors.isfinite() & (errors > 0)]
        typical = float(positive.log().mean().exp()) if len(positive) else 1.0
        alike = cls((), 0.0, typical, 0.0)
        if residuals is None:
            return alike
        known = residuals.isfinite().all(1) & errors.isfinite() & (errors > 0)
        units = residuals[known].square().mean(0).sqrt()
        if lattice:
            units = torch.ones_like(units)
        if int(known.sum()) < FEWEST or not bool((units > 0).all()):
            return alike
        found = cls(tuple(units.tolist()), 1.0, 1.0, 0.0)
        size = found.relative_residual(residuals[known])
        found = replace(found, least=float(size.min()) / 2)
        x, y = size.log(), errors[known].log()
        x, y = x - x.mean(), y - y.mean()
        spread = x.square().sum() * y.square().sum()
        if not spread > 0 or float((x * y).sum() / spread.sqrt()) < LEAST_CORRELATION:
            return alike
        power = min(float((x * y).sum() / x.square().sum()), MOST_POWER)
        factor = float((errors[known].log() - power * size.log()).mean().exp())
        return replace(found, power=power, factor=factor, lattice=lattice)

    @property
    def needs_residual(self) -> bool:
        """Whether it differs from input to input."""
        return self.power > 0

    def __call__(self, residuals: Tensor | None, batch: int) -> Tensor:
        """Return the indicator of each of B inputs ``[B]``.

        Args:
            residuals: Sizes of their residuals ``[B, E]``, where it needs them.
            batch: B.
        """
        if not self.needs_residual or residuals is None:
            return torch.full((batch,), self.factor, dtype=torch.float64)
        return self.factor * self.relative_residual(residuals) ** self.power

    def relative_residual(self, residuals: Tensor) -> Tensor:
        """Return residuals ``[B, E]`` relative to those of a typical input ``[B]``."""
        units = residuals.new_tensor(self.units)
        return (residuals / units).square().mean(1).sqrt().clamp(min=self.least)

    def to_json(self) -> dict[str, Any]:
        """Return what ``calibration.json`` holds."""
        kind = "residual" if self.needs_residual else "none"
        own = {"units": list(self.units), "power": self.power, "least": self.least}
        own |= {"lattice": list(self.lattice)}
        return {"kind": kind, "factor": self.factor, **own}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned."""
        units, lattice = tuple(found["units"]), tuple(found["lattice"])
        return cls(units, found["power"], found["factor"], found["least"], lattice)
