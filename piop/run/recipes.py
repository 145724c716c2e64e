"""From what a spec, a kind of problem and a user choose to the config of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from piop.models import find_preset
from piop.problem import Problem
from piop.problem.classify import classify
from piop.training.config import (
    POINTWISE,
    AdaptiveConfig,
    LossConfig,
    OptimiserConfig,
    TrainingConfig,
    apply_settings,
    settings_for,
)
from piop.training.setup import preset_of

RECIPE = frozenset(vars(OptimiserConfig())) | frozenset(vars(AdaptiveConfig()))
"""Settings of the optimiser and of the weights that learn."""


def configure(
    problem: Problem,
    config: TrainingConfig,
    backbone: str | None,
    settings: Mapping[str, Any] | None,
) -> TrainingConfig:
    """Apply the spec's ``solve:`` block, then the settings given.

    The block's recipe (optimiser, adaptive weights) is for its own network and for the equations:
    another network, or training on data alone, begins with the usual one.

    Raises:
        UsageError: For an unknown key or a value that is not allowed.
    """
    own = dict(problem.solve)
    usual = str(own.pop("backbone", config.backbone))
    config = replace(config, backbone=backbone or usual)
    if config.backbone != usual:  # the spec's sizes are those of its own network
        own = _without(own, vars(find_preset(usual, _text(own.pop("preset", None))).config))
    if config.backbone != usual or not config.physics:
        own = _without(own, RECIPE)
    elif (settings or {}).get("optimiser", own.get("optimiser")) != own.get("optimiser"):
        own = _without(own, {"learning_rate"})  # a step size is one optimiser's
    if not preset_of(config, {**own, **(settings or {})}).build.field.pointwise:
        own = _without(own, settings_for(POINTWISE))  # its points, which are drawn
    chosen = {**habits(problem), **own, **(settings or {})}
    keys = vars(find_preset(config.backbone, _text(chosen.get("preset"))).config)
    return apply_settings(config, chosen, keys)


def _without(settings: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def habits(problem: Problem) -> dict[str, Any]:
    """Settings that go with a kind of problem, where neither spec nor user says otherwise.

    Linear equations have no fronts to damp; more dimensions want more points per function.
    """
    queries = {1: 128, 2: 192, 3: 256}[len(problem.space)]
    front = 0.0 if classify(problem).linear else LossConfig().front
    return {"queries": queries, "front": front}
