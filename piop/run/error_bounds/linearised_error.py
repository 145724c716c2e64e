"""Errors of predictions to first order, and predictions without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.problem.residual_form import linearisation_obstacle
from piop.residual import Lattice, linearise
from piop.run.evaluation import RESIDUAL_AT_ONCE
from piop.run.held_out import HeldOut
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation
from piop.sampling.random import CALIBRATION
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.build import Model
from piop.training.config import TrainingConfig
from piop.training.integration_lattice import UNRESOLVED
from piop.training.linearised_lattice import (
    find_steady_lattice,
    finest,
    solve_for_linearised_lattice,
)

MOST_UNKNOWNS = 700
"""Values of all unknowns in an element of time of the linearised equations, or of all of a steady
problem, at most; more than in training, since each input is evaluated once."""
EVEN = 1e-3
"""Largest relative difference of distances on a grid that counts as even: axes may be float32."""
CORRECTED, FINEST = 0.03, 1e-4
"""Part of a prediction's error that a lattice may leave, and the least that it is asked for."""


@dataclass(frozen=True)
class FirstOrder:
    """Predictions at the points of a lattice.

    Attributes:
        errors: Theirs to first order ``[B, N, C]`` float64.
        corrected: The predictions less these ``[B, N, C]`` float64.
        fractions: Of the domain that each point stands for ``[N]`` float64.
    """

    errors: Tensor
    corrected: Tensor
    fractions: Tensor

    def relative(self) -> Tensor:
        """Return the relative L2 errors ``[B, C]``."""
        errors, sizes = (
            torch.einsum("n,bnc->bc", self.fractions, values.square())
            for values in (self.errors, self.corrected)
        )
        return (errors / sizes).sqrt()


def concatenate(parts: Sequence[FirstOrder]) -> FirstOrder:
    """Concatenate the errors of several batches on one lattice."""
    errors, corrected = [p.errors for p in parts], [p.corrected for p in parts]
    return FirstOrder(torch.cat(errors), torch.cat(corrected), parts[0].fractions)


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
        self._residual = linearise(problem, Lattice.of(lattice), like.tolist(), derived)
        points = collocation(problem, Draws.of(CALIBRATION, 0, range(1)), max(lattice))
        self._at = self._residual.place(lambda: points.to(like))

    def __call__(self, observed: Inputs) -> FirstOrder:
        """Find the errors at the points of the lattice.

        Args:
            observed: Sensors of B samples of each visible input.

        Raises:
            NotSupportedError: Where the equations contain an input that has no sensors.
        """
        try:
            errors, corrected = zip(*self._by_parts(observed), strict=True)
        except KeyError as error:
            raise NotSupportedError(f"{self._problem.name}: {error} is hidden") from error
        fractions = self._residual.fractions(self._at)[0].cpu()
        return FirstOrder(torch.cat(errors), torch.cat(corrected), fractions)

    @torch.no_grad()
    def interpolate(self, errors: Tensor, queries: Queries) -> Tensor:
        """Return errors at queries ``[B, M, C]`` float64.

        Args:
            errors: At the points of the lattice ``[B, N, C]``.
            queries: Grid or points.
        """
        errors = errors.unflatten(1, self._residual.shape)
        weigh, names = self._residual.interpolation_weights, self._problem.coordinates
        if queries.axes is not None:
            places = [queries.axes[c.name].double() for c in names]
            for axis, weights in enumerate(weigh(self._at[0], places), 1):
                errors = (errors.movedim(axis, -1) @ weights.mT).movedim(-1, axis)
            return errors.flatten(1, -2)
        points = queries.tensor().double()
        parts: Sequence[Tensor] = [errors]
        if len(points) > 1:
            parts = errors.expand(len(points), *errors.shape[1:]).split(1)
        found = []
        for own, of in zip(points, parts, strict=True):
            first, *others = weigh(self._at[0], own.unbind(-1))
            values = (of.movedim(1, -1) @ first.mT).movedim(-1, 1)
            for weights in others:
                values = torch.einsum("bmi...,mi->bm...", values, weights)
            found.append(values)
        return torch.cat(found)

    @torch.no_grad()
    def _by_parts(self, observed: Inputs) -> Iterator[tuple[Tensor, Tensor]]:
        like, batch = self._model.operator.scale, 1
        if observed:
            batch = max(len(s.values) for s in observed.values())
        for rows in torch.arange(batch).split(RESIDUAL_AT_ONCE):
            seen = {name: s.repeat(batch).take(rows).to(like) for name, s in observed.items()}
            functions = interpolate_inputs(self._problem, seen)
            values = predict_values(self._problem, self._model, seen, Queries(points=self._at))
            given = self._residual.evaluate_inputs(functions, self._at)  # all at the same points
            own = [v.expand(len(rows), *v.shape[1:]) for v in (values, self._at, *given)]
            errors = self._residual.error(own[0], own[1], own[2:]).cpu()
            yield errors, own[0].double().cpu() - errors


def choose_lattice(
    problem: Problem, model: Model, config: TrainingConfig, error: float, solved: HeldOut
) -> tuple[int, ...]:
    """Choose the lattice on which the equations are linearised; empty where none resolves them.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        config: The run's choices.
        error: Relative L2 error of its predictions, of which a lattice may leave a small part.
        solved: Inputs that choices are made on, with their solutions: those of a steady problem are
            what a lattice is to resolve. Evolutions are solved for, at more times than are saved.
    """
    if model.operator.gridded or model.operator.end_only:
        return ()
    if linearisation_obstacle(problem, config.loss.constraints):
        return ()
    unresolved = min(max(CORRECTED * error, FINEST), UNRESOLVED)
    if problem.time is not None:
        found = solve_for_linearised_lattice(problem, MOST_UNKNOWNS, unresolved)
    elif not _on_even_grid(solved) or set(problem.channels) - set(solved.truth):
        return ()
    else:
        found = finest(
            lambda part: find_steady_lattice(solved.truth, problem.space, MOST_UNKNOWNS, part),
            unresolved,
        )
    return (found.times, *found.points) if isinstance(found, Lattice) else ()


def _on_even_grid(solved: HeldOut) -> bool:
    """Whether solutions are given at even places along each axis."""
    gaps = [axis.double().diff() for axis in (solved.queries.axes or {}).values()]
    return bool(gaps) and all(bool((gap / gap[0] - 1).abs().max() < EVEN) for gap in gaps)
