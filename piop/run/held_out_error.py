"""The error of an operator on a few held-out inputs, measured while it is trained."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import Tensor

from piop.errors import DataError, NotSupportedError, SolverError
from piop.problem import Problem
from piop.run.evaluation import OperatorJudge
from piop.run.held_out import HeldOut, Judge
from piop.run.references import Progress
from piop.run.sources import RunSources
from piop.training.build import Model

logger = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""Largest error estimate of the references, as far as time allows."""
SECONDS = 20.0
"""Time that their solution may take."""


@final
class _ToTolerance(Judge):
    """Lets references be solved to a tolerance, whatever the operator predicts."""

    def predict(self, held_out: HeldOut) -> Mapping[str, Tensor]:
        """Return the truth: nothing is predicted yet."""
        return held_out.truth

    def errors(self, held_out: HeldOut, prediction: Mapping[str, Tensor]) -> Tensor:
        """Return errors of which a tenth, the part that references may err by, is the tolerance."""
        return torch.full((len(held_out.accepted),), 10 * TOLERANCE, dtype=torch.float64)


def held_out_error(
    problem: Problem, model: Model, sources: RunSources, count: int, progress: Progress
) -> Callable[[], float] | None:
    """Solve the references of a few held-out inputs, the first ones of an evaluation.

    Args:
        problem: The problem.
        model: The operator that is trained.
        sources: The held-out samples of the run.
        count: The most inputs.
        progress: Called with the number of references solved, and of all.

    Returns:
        A function that measures the mean relative L2 error of the present weights, NaN where no
        sample has one; None, and a line in the log, where there are no references.
    """
    try:
        if problem.infer:
            raise NotSupportedError("solutions depend on the parameters that are inferred")
        source = sources.choose(problem, count, sources.config.machine.seed)
        held_out = source.judging(_ToTolerance(), SECONDS, progress).held_out
    except (NotSupportedError, SolverError, DataError) as error:
        logger.info("no error on held-out inputs during training: %s", error)
        return None
    judge = OperatorJudge(problem, model)

    def measure() -> float:
        return float(judge.errors(held_out, judge.predict(held_out)).nanmean())

    return measure
