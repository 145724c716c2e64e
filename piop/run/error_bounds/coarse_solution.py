"""Differences of predictions from coarse solutions of the reference solver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self, final

import torch
from torch import Tensor

from piop.errors import DataError, NotSupportedError, SolverError
from piop.fields import InputFunction
from piop.metrics import relative_l2
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.reference import solve_reference
from piop.reference.solution import Limits, Solution
from piop.run.drawn_inputs import GRID_LIMITS
from piop.run.prediction import predict_values
from piop.run.user_inputs import save_grid
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.build import Model

MOST_STEPS = 10_000
"""Steps in time of a coarse solution at most, so that no input takes much longer than others."""


@final
@dataclass(frozen=True)
class CoarseLevels:
    """How far the reference solver refines coarse solutions.

    Attributes:
        levels: Levels of refinement at most.
        tolerance: Error estimate at which it ends before; the first level follows from it.
    """

    levels: int
    tolerance: float

    def to_json(self) -> dict[str, Any]:
        """Return what ``calibration.json`` holds."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned."""
        return cls(int(found["levels"]), float(found["tolerance"]))


@final
class CoarseDifference:
    """Compares predictions with coarse solutions for the same sensors.

    An error of the operator obeys the equations linearised about the solution, forced by the
    residual; the difference from a coarse solution obeys them without linearisation, up to the
    error of the coarse grid. So it grows, decays and travels as the error does.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        levels: How far the solver refines.

    Raises:
        NotSupportedError: On shapes, whose solver does not refine level by level.
    """

    def __init__(self, problem: Problem, model: Model, levels: CoarseLevels) -> None:
        if not problem.domain.is_box:
            raise NotSupportedError(f"{problem.name}: no coarse solutions on shapes")
        self._problem, self._model, self._levels = problem, model, levels
        limits, end = GRID_LIMITS[len(problem.space)], model.operator.end_only
        self._queries = save_grid(problem, limits, end)

    @torch.no_grad()
    def __call__(self, observed: Inputs) -> Tensor:
        """Return the relative L2 difference of each unknown, on the grid of an evaluation.

        Inputs are functions interpolated from their sensors, as for the residual. Samples that the
        solver takes together may share steps in time; their differences depend on that within the
        error of the coarse solutions.

        Args:
            observed: Sensors of B samples of each visible input.

        Returns:
            ``[B, unknowns]`` float64 on the CPU; infinite where there is no coarse solution.

        Raises:
            NotSupportedError: Where sensors do not determine what the solver needs.
        """
        problem, batch = self._problem, max((len(s.values) for s in observed.values()), default=1)
        observed = {name: samples.repeat(batch) for name, samples in observed.items()}
        found = torch.full((batch, len(problem.unknowns)), torch.inf, dtype=torch.float64)
        for rows, solution in self._solutions(interpolate_inputs(problem, observed), batch):
            own = {name: samples.take(rows) for name, samples in observed.items()}
            values = predict_values(problem, self._model, own, self._queries)
            for column, name in enumerate(problem.unknowns):
                truth = solution.values[name].double().cpu()
                predicted = values[..., problem.channels.index(name)].reshape(truth.shape)
                found[rows, column] = relative_l2(predicted, truth)
        return found.where(found.isfinite(), torch.inf)

    def _solutions(
        self, functions: Mapping[str, InputFunction], batch: int
    ) -> Iterator[tuple[Tensor, Solution]]:
        """Solve for samples together; where a solution fails, for each half of them."""
        waiting = [torch.arange(batch)]
        while waiting:
            rows = waiting.pop()
            try:
                solution = self._solve(functions, rows)
            except SolverError:
                waiting += rows.chunk(2) if len(rows) > 1 else ()
            else:
                yield rows, solution

    def _solve(self, functions: Mapping[str, InputFunction], rows: Tensor) -> Solution:
        problem, axes = self._problem, self._queries.axes or {}
        try:
            return solve_reference(
                problem,
                {name: f if f.batch == 1 else f.take(rows) for name, f in functions.items()},
                times=None if problem.time is None else axes[problem.time.name],
                shape=tuple(len(axes[c.name]) for c in problem.space),
                tolerance=self._levels.tolerance,
                limits=Limits(levels=self._levels.levels, steps=MOST_STEPS),
            )
        except DataError as error:
            raise NotSupportedError(str(error)) from error
