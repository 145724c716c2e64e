"""From the settings to the adaptive weights, or to the reason why they have nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from piop.errors import UsageError
from piop.problem import Problem
from piop.training.config import TrainingConfig
from piop.training.loss.weighting.balance import (
    GradientNormWeighting,
    LocalNtkWeighting,
    NtkWeighting,
)
from piop.training.loss.weighting.base import Bins, Cells, Weighting
from piop.training.loss.weighting.points import CausalWeighting, ResidualAttention
from piop.training.loss.weighting.tangent_kernel import Part, ProbedTerm, Probes

BALANCING = {"gradient_norm", "ntk"}
"""Weightings between the terms of the loss."""


def choose_weights(
    problem: Problem,
    terms: Sequence[ProbedTerm],
    unlike: Sequence[str],
    config: TrainingConfig,
    part: Part,
    like: Tensor,
) -> list[Weighting]:
    """Build the adaptive weights that are asked for.

    Args:
        problem: The problem.
        terms: The summands of the loss, the equations first.
        unlike: Axes in space on which the equations depend by themselves.
        config: The run's choices.
        part: Which samples of a batch are of this process, out of how many.
        like: A tensor of the device and precision of a step.

    Raises:
        UsageError: If one has nothing to do, with what to choose instead.
    """
    chosen = config.adaptive
    require_weights(problem, config, {term.part for term in terms})
    every, memory = chosen.weight_every, chosen.memory
    times = Cells(_time_bins(problem, chosen.bins))
    probes = Probes(terms, config.machine.seed, part, like)
    found: list[Weighting] = []
    if chosen.weighting == "gradient_norm":
        fixed = {term.part: getattr(config.loss, f"{term.part}_weight") for term in terms}
        found.append(GradientNormWeighting(fixed, every, memory, like))
    elif chosen.weighting == "ntk":
        found.append(NtkWeighting(probes, every, memory, like))
    elif chosen.weighting == "ntk_local":
        found.append(LocalNtkWeighting(times, probes, every, memory, like))
    elif chosen.weighting == "residual_attention":
        decay, rate = chosen.attention_decay, chosen.attention_rate
        places = [
            Bins(column, axis.low, axis.length, chosen.space_bins)
            for column, axis in enumerate(problem.coordinates)
            if axis.name in unlike
        ]
        cells = Cells([*_time_bins(problem, chosen.bins), *places])
        found.append(ResidualAttention(cells, decay, rate, like))
    strength = chosen.causal or float(chosen.weighting == "causal")
    if strength:
        found.append(CausalWeighting(times, strength, memory, like))
    return found


def require_weights(problem: Problem, config: TrainingConfig, parts: set[str]) -> None:
    """Make sure that the weights that are asked for have something to do.

    Args:
        problem: The problem.
        config: The run's choices.
        parts: The parts that the loss will have.

    Raises:
        UsageError: If not, with what to choose instead.
    """
    name, causal = config.adaptive.weighting, config.adaptive.causal
    asked = f"weighting: {name!r}" if name != "fixed" else f"causal: {causal:g}"
    if name == "fixed" and not causal:
        return
    if not config.physics:
        raise UsageError(
            f"{asked} has nothing to do without physics, where the data are the only term; use "
            f"--set weighting=fixed --set causal=0"
        )
    if problem.time is None and (causal or name in ("causal", "ntk_local")):
        raise UsageError(f"{asked} depends on the time, and this problem has none")
    if name in BALANCING and len(parts) < 2:
        raise UsageError(
            f"{asked} balances the terms of the loss, and here there is one, the equations, since "
            f"all conditions are built in. Penalise them with --set constraints=soft, or weigh "
            f"times against each other with --set weighting=ntk_local"
        )


def _time_bins(problem: Problem, count: int) -> list[Bins]:
    time = problem.time
    return [] if time is None else [Bins(0, time.low, time.length, count)]
