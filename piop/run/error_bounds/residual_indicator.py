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
from piop.problem.residual_form import linearisation_obstacle
from piop.residual import Lattice, LinearisedResidual, Residual
from piop.run.evaluation import RESIDUAL_AT_ONCE, residual_at_points
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation
from piop.sampling.random import CALIBRATION
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.build import Model, residual_of_model
from piop.training.config import TrainingConfig
from piop.training.integration_lattice import solve_for_linearised_lattice
from piop.training.loss.known_functions import Functions

POINTS = 1024
"""Points at which the residual of an input is evaluated, the same for all inputs."""
FEWEST = 10
"""Inputs that the power of the residual is chosen on at least."""
LEAST_CORRELATION = 0.3
"""Correlation of the logarithms of residual and error below which the residual says nothing."""
MOST_POWER = 1.5
MOST_UNKNOWNS = 700
"""Values of all unknowns in an element of time of the linearised equations at most; more than in
training, since each input is evaluated once."""


class ResidualSize:
    """Measures the residual of predictions relative to their size.

    It is the residual at points; of an evolution on one axis that of the linearised equations on a
    lattice, which is the error to first order.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        config: The run's choices.
        lattice: As of :func:`choose_lattice`.

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
        self._scale = operator.scale.double().cpu()
        self._residual = _residual(problem, model, config, lattice)
        draws = Draws.of(CALIBRATION, 0, range(1))
        points = collocation(problem, draws, POINTS)
        self._at = self._residual.place(lambda: points.to(operator.scale))
        self._values_at = Queries(points=points)

    @torch.no_grad()
    def __call__(self, observed: Inputs) -> Tensor:
        """Return the root mean square of each equation's residual over the prediction's size.

        Args:
            observed: Sensors of B samples of each visible input.

        Returns:
            ``[B, E]`` float64 on the CPU; infinite where a residual is not finite.

        Raises:
            NotSupportedError: Where the equations contain an input that has no sensors.
        """
        like = self.model.operator.scale
        batch = max(len(s.values) for s in observed.values()) if observed else 1
        found = []
        for start in range(0, batch, RESIDUAL_AT_ONCE):
            part = slice(start, min(start + RESIDUAL_AT_ONCE, batch))
            seen = {name: s.repeat(batch).take(part).to(like) for name, s in observed.items()}
            try:
                values = self._evaluate(interpolate_inputs(self.problem, seen), seen, part)
            except KeyError as error:
                raise NotSupportedError(f"{self.problem.name}: {error} is hidden") from error
            mean = values.double().cpu().square().mean(1)
            found.append(mean.expand(part.stop - part.start, -1))
        values = predict_values(self.problem, self.model, observed, self._values_at)
        size = (values / self._scale).square().mean((1, 2)).expand(batch)
        ratio = (torch.cat(found) / size[:, None]).sqrt()
        return ratio.where(ratio.isfinite(), torch.inf)

    def _evaluate(self, functions: Functions, observed: Inputs, part: slice) -> Tensor:
        """Evaluate the residual of some samples at its points ``[b, N, E]``."""
        if not self.lattice:
            return residual_at_points(self.model, self._residual, functions, observed)(self._at)
        at = self._at.expand(part.stop - part.start, -1, -1)  # a lattice is one of each function
        values = predict_values(self.problem, self.model, observed, Queries(points=self._at))
        given = self._residual.evaluate_inputs(functions, at)
        return self._residual(lambda _: values.to(at), at, given).values


def choose_lattice(problem: Problem, model: Model, config: TrainingConfig) -> tuple[int, ...]:
    """Choose the lattice on which the equations are linearised; empty for the residual at points.

    Linearised equations tell the error better than the residual, also where training takes another
    form. They are for evolutions on one axis whose solutions a small lattice resolves.
    """
    if model.operator.gridded:
        return ()
    if linearisation_obstacle(problem, config.loss.constraints):
        return ()
    found = solve_for_linearised_lattice(problem, MOST_UNKNOWNS)
    return (found.times, *found.points) if isinstance(found, Lattice) else ()


def _residual(
    problem: Problem, model: Model, config: TrainingConfig, lattice: tuple[int, ...]
) -> Residual:
    if lattice:
        derived = None if model.known is None else model.known.derived
        sizes = model.operator.scale.tolist()
        return LinearisedResidual(problem, Lattice.of(lattice), sizes, derived)
    try:
        return residual_of_model(problem, model, config)
    except UsageError as error:  # the grid of its data holds no differences
        raise NotSupportedError(str(error)) from error


@final
@dataclass(frozen=True)
class Indicator:
    """A typical error, from the sizes of the residuals of an input: factor · residualᵖᵒʷᵉʳ.

    Attributes:
        units: Size of each equation's residual that counts as one ``[E]``; empty where the residual
            is not known, and the indicator the same for all inputs.
        power: 0 for the same indicator for all inputs.
        factor: Relative L2 error at a residual of one.
        least: Residual below which a smaller one says nothing more.
        lattice: Of the residual, see :func:`choose_lattice`.
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
