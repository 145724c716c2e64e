"""Weights of the squared residual: which points, times, functions and terms count how much.

Each weight is a factor without gradient and without unit; they compose by multiplication. Fixed
weights are functions of the batch alone (:mod:`piop.training.loss.objective`); adaptive ones keep a
state between steps (:mod:`base`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from piop.errors import UsageError
from piop.problem import Problem
from piop.training.loss.weighting.balance import (
    GradientNormWeighting,
    LocalNtkWeighting,
    NtkWeighting,
)
from piop.training.loss.weighting.base import WeightedRun, Weighting, Weightings
from piop.training.loss.weighting.points import CausalWeighting, ResidualAttention

if TYPE_CHECKING:
    from piop.training.config import TrainingConfig

WEIGHTINGS: tuple[type[Weighting], ...] = (
    GradientNormWeighting,
    NtkWeighting,
    LocalNtkWeighting,
    ResidualAttention,
    CausalWeighting,
)
"""Every kind of adaptive weights; ``fixed`` stands for none of them."""


def build_weightings(run: WeightedRun) -> Weightings:
    """Build the adaptive weights that the settings of a run request.

    Raises:
        UsageError: If one would have no effect, with what to choose instead.
    """
    require_weightings(run.problem, run.config, {term.part for term in run.terms})
    return Weightings([kind(run) for kind in WEIGHTINGS if kind.request(run.config.adaptive)])


def require_weightings(problem: Problem, config: TrainingConfig, parts: Collection[str]) -> None:
    """Make sure that the requested adaptive weights have an effect.

    Args:
        problem: The problem.
        config: The run's choices.
        parts: The parts that the loss has.

    Raises:
        UsageError: If one has none, with what to choose instead.
    """
    for kind in WEIGHTINGS:
        if (request := kind.request(config.adaptive)) is None:
            continue
        if not config.physics:
            raise UsageError(
                f"{request} has nothing to do without physics, where the data are the only term; "
                f"use --set weighting=fixed --set causal=0"
            )
        if (reason := kind.obstacle(problem, parts)) is not None:
            raise UsageError(f"{request} {reason}")
