"""Errors of predictions on one axis to first order, and predictions without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.problem.residual_form import linearisation_obstacle
from piop.residual import Lattice, LinearisedResidual
from piop.run.evaluation import RESIDUAL_AT_ONCE
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation
from piop.sampling.random import CALIBRATION
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.build import Model
from piop.training.config import TrainingConfig
from piop.training.integration_lattice import UNRESOLVED, solve_for_linearised_lattice

MOST_UNKNOWNS = 700
"""Values of all unknowns in an element of time of the linearised equations at most; more than in
training, since each input is evaluated once."""
CORRECTED, FINEST = 0.03, 1e-4
"""Part of a prediction's error that a lattice may leave, and the least that it is asked for."""


@final
class LinearisedError:
    """Finds the errors of predictions by one step of Newton's method on a lattice.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        lattice: As of :func:`choose_lattice`.
    """

    def __init__(self, problem: Problem, model: Model, lattice: tuple[int, ...]) -> None:
        self._problem, self._model, self.lattice = problem, model, lattice
        like = model.operator.scale
        derived = None if model.known is None else model.known.derived
        self._residual = LinearisedResidual(problem, Lattice.of(lattice), like.tolist(), derived)
        points = collocation(problem, Draws.of(CALIBRATION, 0, range(1)), max(lattice))
        self._at = self._residual.place(lambda: points.to(like))

    def __call__(self, observed: Inputs) -> Tensor:
        """Return the errors at the points of the lattice ``[B, N, C]`` float64.

        Args:
            observed: Sensors of B samples of each visible input.

        Raises:
            NotSupportedError: Where the equations contain an input that has no sensors.
        """
        try:
            return torch.cat([*self._by_parts(observed)])
        except KeyError as error:
            raise NotSupportedError(f"{self._problem.name}: {error} is hidden") from error

    @torch.no_grad()
    def interpolate(self, errors: Tensor, queries: Queries) -> Tensor:
        """Return errors at queries ``[B, M, C]`` float64.

        Args:
            errors: At the points of the lattice ``[B, N, C]``, as calling this returns them.
            queries: Grid or points.
        """
        errors = errors.unflatten(1, (self.lattice[0], -1))
        weigh, (time, space) = self._residual.interpolation_weights, self._problem.coordinates
        if queries.axes is not None:
            axes = (queries.axes[c.name].double() for c in (time, space))
            in_time, in_space = weigh(self._at[0], *axes)
            return torch.einsum("ti,xj,bijc->btxc", in_time, in_space, errors).flatten(1, 2)
        points = queries.tensor().double()
        weights = [weigh(self._at[0], *own.unbind(-1)) for own in points]
        in_time, in_space = (torch.stack(w) for w in zip(*weights, strict=True))
        if len(points) == 1:
            return torch.einsum("mi,mj,bijc->bmc", in_time[0], in_space[0], errors)
        return torch.einsum("bmi,bmj,bijc->bmc", in_time, in_space, errors)

    @torch.no_grad()
    def _by_parts(self, observed: Inputs) -> Iterator[Tensor]:
        like, batch = self._model.operator.scale, 1
        if observed:
            batch = max(len(s.values) for s in observed.values())
        for rows in torch.arange(batch).split(RESIDUAL_AT_ONCE):
            seen = {name: s.repeat(batch).take(rows).to(like) for name, s in observed.items()}
            functions = interpolate_inputs(self._problem, seen)
            at = self._at.expand(len(rows), -1, -1)  # a lattice is one of each function
            values = predict_values(self._problem, self._model, seen, Queries(points=self._at))
            given = self._residual.evaluate_inputs(functions, at)
            yield self._residual.error(values.expand(len(rows), -1, -1), at, given).cpu()


def choose_lattice(
    problem: Problem, model: Model, config: TrainingConfig, error: float
) -> tuple[int, ...]:
    """Choose the lattice on which the equations are linearised; empty where none resolves them.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        config: The run's choices.
        error: Relative L2 error of its predictions, of which a lattice may leave a small part.
    """
    if model.operator.gridded or model.operator.end_only:
        return ()
    if linearisation_obstacle(problem, config.loss.constraints):
        return ()
    unresolved = min(max(CORRECTED * error, FINEST), UNRESOLVED)
    found = solve_for_linearised_lattice(problem, MOST_UNKNOWNS, unresolved)
    return (found.times, *found.points) if isinstance(found, Lattice) else ()
