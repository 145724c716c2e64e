"""Residuals of predictions, from their sensors alone."""

from __future__ import annotations

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
