from __future__ import annotations

from dataclasses import fields

import pytest

from piop.errors import UsageError
from piop.models.core.base import GRID_FIELD, POINT_FIELD, ROLLOUT_FIELD
from piop.training.config import BudgetConfig, TrainingConfig, apply_settings
from piop.training.config.run import SECTIONS
from piop.training.effect import RULES, require_effect

START = TrainingConfig(BudgetConfig(steps=10))
PHYSICS = {"residual"}


@pytest.mark.parametrize(
    ("settings", "key", "belongs"),
    [
        ({"candidates": 8}, "candidates", "method=residual_adaptive"),
        ({"horizon_until": 0.3}, "horizon_until", "a horizon below 1"),
        ({"weighting": "causal", "weight_every": 5}, "weight_every", "ntk_local"),
        ({"weighting": "ntk", "bins": 4}, "bins", "weighting=causal"),
        ({"weighting": "ntk_local", "attention_rate": 0.1}, "attention_rate", "residual_attention"),
        ({"memory": 0.5}, "memory", "weights that learn"),
        ({"optimiser": "muon", "precondition": 5}, "precondition", "optimiser=soap"),
        ({"initial_weight": 3}, "initial_weight", "constraints=soft"),
        ({"boundary": 3}, "boundary", "constraints=soft"),
        ({"data_queries": 3}, "data_queries", "--data FILE"),
    ],
)
def test_a_setting_that_does_nothing_is_refused_with_what_it_belongs_to(settings, key, belongs):
    config = apply_settings(START, settings, {})
    with pytest.raises(UsageError, match=f"{key}: does nothing here") as error:
        require_effect(config, settings, PHYSICS)
    assert belongs in str(error.value)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"method": "residual_adaptive", "candidates": 8, "power": 2, "floor": 0}, PHYSICS),
        ({"horizon": 0.5, "horizon_until": 0.3}, PHYSICS),
        ({"causal": 1, "bins": 4, "memory": 0.5}, PHYSICS),
        ({"weighting": "ntk_local", "weight_every": 5, "bins": 3}, PHYSICS),
        ({"weighting": "residual_attention", "space_bins": 5, "attention_decay": 0.5}, PHYSICS),
        ({"constraints": "soft", "initial_weight": 3, "boundary": 5}, {"residual", "initial"}),
        ({"data_queries": 5, "functions": 3}, {"residual", "data"}),
    ],
)
def test_settings_that_do_something_pass(settings, parts):
    require_effect(apply_settings(START, settings, {}), settings, parts)


def test_a_horizon_is_for_points_and_for_marches_and_not_for_grids():
    config = apply_settings(START, {"horizon": 0.5}, {})
    for field in (POINT_FIELD, ROLLOUT_FIELD):
        require_effect(config, ["horizon"], PHYSICS, field)
    with pytest.raises(UsageError, match=r"horizon: does nothing here.* all of its times at once"):
        require_effect(config, ["horizon"], PHYSICS, GRID_FIELD)


def test_without_physics_points_of_the_equations_do_nothing():
    config = TrainingConfig(BudgetConfig(steps=10), physics=False)
    for key in ("functions", "queries", "method", "front", "relative", "residual_weight"):
        with pytest.raises(UsageError, match="training on the equations"):
            require_effect(config, [key], {"data"})


def test_every_rule_is_of_a_setting():
    assert set(RULES) <= {f.name for section in SECTIONS.values() for f in fields(section)}
