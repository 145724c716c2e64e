"""What a config chooses for a problem: constraints, network, time windows, the linear part."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from piop.errors import NotSupportedError, UsageError
from piop.models import find_preset
from piop.models.core.base import FieldKind, Preset
from piop.problem import Problem
from piop.problem.constraints import Constraints, decide_constraints
from piop.problem.linear_part import decide_linear_part
from piop.problem.residual_form import CONSERVED, FormDecision, decide_form
from piop.problem.time_windows import State, decide_windows, window_problem
from piop.residual import Lattice
from piop.training.config import (
    SLOPES,
    STRONG,
    TrainingConfig,
    reason_without_effect,
    settings_for,
)
from piop.training.integration_lattice import settings_on
from piop.training.linearised_lattice import choose_linearised_lattice
from piop.training.loss.linear_propagation import LinearPropagation
from piop.training.loss.statistics import Statistics
from piop.training.loss.varying_propagation import mode_tables
from piop.training.setting_declarations import Circumstances
from piop.training.state_waves import States, find_states

logger = logging.getLogger(__name__)

WALL_SETTINGS = frozenset({"boundary", "boundary_weight", "weighting"})
"""Settings of soft constraints on walls and of their weights: a lattice has no such terms."""

LEAST_DAMPING, MOST_GROWTH = 20.0, 0.1
"""Exponents over a time window: the linear part of nonlinear equations is solved exactly where it
damps a wave of the state by more than the first, which a network learns slowly, and lets none grow
by more than the second, which the network would have to undo (docs/training.md)."""


OF_POTENTIAL = {"functions": 16, "queries": 64}
"""Settings that go with a potential: its residuals depend on the place of a front on both of its
sides, so few points suffice, and a step takes more functions (docs/training.md)."""

OF_SQUARES = {"clip": 1.0}
"""Settings that go with a loss of squares, whose gradient shrinks with it: that of roots does not,
and is limited less (docs/training.md)."""


def constraints_of(problem: Problem, config: TrainingConfig) -> Constraints:
    """Decide how conditions are met.

    Raises:
        UsageError: If they cannot be met as asked.
    """
    points = field_kind(config).pointwise
    try:
        constraints = decide_constraints(
            problem, config.loss.constraints, walls=config.physics and points
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    if points:
        return constraints
    slopes = [c.unknown for c in constraints.initial if c.hard and c.order]
    if slopes and config.loss.constraints == "hard":
        raise UsageError(
            f"constraints: hard is not possible for the slope of {slopes[0]} at the start: "
            f"backbone {config.backbone!r} answers on a grid, whose differences in time do not "
            f"feel a slope that is a hard constraint; use constraints: auto or soft"
        )
    return constraints.on_grid()


def preset_of(config: TrainingConfig, settings: Mapping[str, Any] | None = None) -> Preset:
    """Find the network that a config chooses.

    Args:
        config: The run's choices.
        settings: Those that are yet to be applied, of which the preset is one.
    """
    chosen = (settings or {}).get("preset", config.backbone_settings.get("preset"))
    if config.network is not None and chosen is None:
        return config.network
    if config.of_class:
        raise UsageError(
            f"backbone: {config.backbone!r} is a class that was given in Python, without presets; "
            f"give it again: Run.load(path, backbone=CLASS), resume(path, backbone=CLASS)"
        )
    return find_preset(config.backbone, None if chosen is None else str(chosen))


def field_kind(config: TrainingConfig) -> FieldKind:
    """Return how the chosen network is evaluated: pointwise, on a grid, or in steps."""
    return preset_of(config).build.field


def choose_windows(
    problem: Problem, config: TrainingConfig, data: bool, given: Collection[str] = ()
) -> States:
    """Choose into how many time windows the operator divides the time axis, and the residual form.

    Args:
        problem: The problem.
        config: The run's choices.
        data: Whether data are trained on, whose solutions begin with the first window only.
        given: Names of the settings that the user or the spec gives.

    Raises:
        UsageError: If more than one window, or another form than at points, is asked for and is
            not possible.
    """
    if not config.physics or data or not field_kind(config).pointwise:
        return States(1, "they are for pointwise networks that learn from equations alone")
    try:
        form = _decide_form(problem, config, given)
        states = _find_states(problem, config, form, given)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not form.potential or states.windows > 1 or states.lattice:
        return states
    logger.info("residual: potential, %s", CONSERVED)
    return replace(states, potential=True)


def _decide_form(problem: Problem, config: TrainingConfig, given: Collection[str]) -> FormDecision:
    """Decide on the form that problem, network and settings allow.

    Raises:
        ValueError: If the form that is asked for is not possible.
    """
    loss = config.loss
    form = decide_form(problem, loss.constraints, loss.form, loss.linear_part)
    periodic = preset_of(config).build.periodic
    if form.potential and form.requested:
        if not periodic:
            raise ValueError(
                f"form: potential is not possible: backbone {config.backbone!r} is not exactly "
                "periodic; use auto or strong"
            )
        if loss.windows > 1:
            raise ValueError(
                f"windows: {loss.windows} is not possible: form=potential is for one window; use "
                "0 or 1"
            )
    elif form.potential and not (periodic and {*given}.isdisjoint(settings_for(SLOPES))):
        form = replace(form, potential=False)
    return form


def _find_states(
    problem: Problem, config: TrainingConfig, form: FormDecision, given: Collection[str]
) -> States:
    """Decide on windows and lattices, by coarse solutions where the symbols leave it open.

    Raises:
        ValueError: If what is asked for is not possible.
    """
    requested, possible = config.loss.windows, form.integral
    if form.potential and form.requested:
        return States(1, "the potential is trained over the whole time axis")
    if possible and (own := point_settings(problem) & {*given}):
        if form.requested:
            raise ValueError(without_points(min(own)))
        form = replace(form, integral=False, why=f"{min(own)} is given, which belongs to it")
    decision = decide_windows(problem, config.loss.constraints, requested)
    if problem.time is None or not problem.pde.periodic:
        found = choose_linearised_lattice(problem, form)
        if possible:
            logger.info("residual: %s, %s", "integral" if found.shape else "strong", found.why)
        return States(1, decision.why, lattice=found.shape, form=found.why, sizes=found.sizes)
    if decision.count == 1 and not form.requested:
        return States(1, decision.why, form="the time axis is not divided")
    asked = requested > 1 or decision.count == 1
    most = decision.most if form.integral else decision.count
    states = find_states(problem, decision.count, form, asked=asked, most=most)
    if states.windows == 1 and form.requested and not states.lattice:
        states = find_states(problem, 1, form, asked=True)
    logger.info("time windows: %s", states)
    if states.windows > 1 or states.lattice:
        logger.info("residual: %s, %s", "integral" if states.lattice else "strong", states.form)
    return states


def settings_of_form(
    config: TrainingConfig, lattice: Sequence[int], potential: bool, data: bool
) -> dict[str, float]:
    """Return the settings that go with a form of the loss, unless user or spec give others.

    Args:
        config: The run's choices.
        lattice: Times and points of the lattice of its equations; empty for random points.
        potential: Whether the equations are those of potentials.
        data: Whether there are data.
    """
    if lattice:
        return settings_on(Lattice.of(tuple(lattice)))
    parts = {"data"} if data else set[str]()
    roots = config.loss.root and not reason_without_effect(
        "root", Circumstances(config, parts, field_kind(config))
    )
    return (OF_POTENTIAL if potential else {}) | ({} if roots else OF_SQUARES)


def point_settings(problem: Problem) -> frozenset[str]:
    """Return the settings that belong to random points, and do nothing on a lattice of a problem.

    Args:
        problem: One whose equations may be integrated on lattices.
    """
    own = settings_for(STRONG) | settings_for(SLOPES)
    return own if problem.pde.periodic else own | WALL_SETTINGS


def without_points(setting: str) -> str:
    """Say that a setting does nothing where there are no random points."""
    return (
        f"{setting}: does nothing here; it belongs to form=strong, and this run integrates its "
        f"equations on lattices"
    )


def trained_problem(problem: Problem, statistics: Statistics) -> Problem:
    """Return the problem that the operator is trained on: over one of its time windows."""
    if statistics.windows == 1:
        return problem
    state = State(statistics.waves, statistics.bulk)
    return window_problem(problem, statistics.windows, state)


def solves_linear_part(problem: Problem, constraints: Constraints, config: TrainingConfig) -> bool:
    """Decide whether the linear part of the equations is solved exactly.

    Args:
        problem: The problem that is trained on.
        constraints: Which conditions are hard constraints.
        config: The run's choices.

    Raises:
        UsageError: If it is to be solved exactly and cannot be.
    """
    if not config.physics or (problem.time is None and not config.loss.steady):
        return False
    mode = config.loss.linear_part
    try:
        decision = decide_linear_part(problem, constraints, mode, config.loss.varying)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if decision.by_modes:
        try:
            mode_tables(problem)
        except NotSupportedError as error:
            if mode == "exact":
                raise UsageError(f"linear_part: exact is not possible: {error}") from error
            logger.warning("The linear part is learned: %s", error)
            return False
    if decision.exact:
        return True
    first = problem.inputs[0].distribution if problem.inputs else None
    if mode == "learned" or not isinstance(first, State):
        return False
    try:
        decide_linear_part(problem, constraints, "exact")
    except ValueError:
        return False
    slowest, fastest = LinearPropagation(problem).exponents(first.waves)
    return fastest >= LEAST_DAMPING and slowest >= -MOST_GROWTH
