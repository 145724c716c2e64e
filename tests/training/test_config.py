import json
import re

import pytest

from piop.errors import UsageError
from piop.models.core.base import GRID_FIELD, POINT_FIELD, ROLLOUT_FIELD
from piop.training.config import (
    POINTWISE,
    SETTINGS,
    BudgetConfig,
    TrainingConfig,
    apply_settings,
    require_applicable,
    settings_for,
)
from piop.training.loss.weighting import WEIGHTINGS
from piop.training.setting_declarations import Circumstances

START = TrainingConfig(BudgetConfig(steps=10))


def test_text_settings_take_the_type_of_their_key():
    config = apply_settings(
        START,
        {"learning_rate": "1e-3", "functions": "8", "relative": "false", "width": "32"},
        {"width": 64},
    )
    assert config.optimiser.learning_rate == 1e-3
    assert config.points.functions == 8
    assert config.loss.relative is False
    assert config.backbone_settings == {"width": 32}


def test_runs_that_do_not_record_the_root_were_trained_on_squares():
    stored = START.to_json()
    assert TrainingConfig.from_json(stored).loss.root
    del stored["loss"]["root"]
    assert not TrainingConfig.from_json(stored).loss.root


@pytest.mark.parametrize("given", ["16, 8", [16, 8], (16, 8)])
def test_lists_of_numbers_are_tuples_and_stay_so_in_a_file(given):
    config = apply_settings(START, {"latent": given}, {"latent": (32,)})
    assert config.backbone_settings == {"latent": (16, 8)}
    written = json.loads(json.dumps(config.to_json()))
    assert TrainingConfig.from_json(written).backbone_settings == {"latent": (16, 8)}


@pytest.mark.parametrize("given", ["16,x", "16,,8", "", 16, [], [1.5]])
def test_what_is_no_list_of_whole_numbers_is_refused(given):
    with pytest.raises(UsageError, match=r"latent: .* not a (list of numbers|whole number)"):
        apply_settings(START, {"latent": given}, {"latent": (32,)})


def test_untouched_settings_keep_their_values():
    config = apply_settings(START, {"causal": 1.0}, {})
    assert config.loss.front == START.loss.front
    assert config.optimiser == START.optimiser


def test_an_unknown_key_names_the_nearest():
    near = re.escape("Did you mean 'learning_rate' (Peak step size; default 0.01)?")
    with pytest.raises(UsageError, match=near):
        apply_settings(START, {"lerning_rate": 1}, {})
    with pytest.raises(UsageError, match=r"Did you mean 'width'\?"):
        apply_settings(START, {"widht": 1}, {"width": 64})


@pytest.mark.parametrize("key", ["zzz", "finish"])
def test_an_unknown_key_far_from_all_lists_the_topics(key):
    topics = (
        r"settings of points, sampling, .*, and of the network \(width\); piop settings TOPIC lists"
    )
    with pytest.raises(UsageError, match=topics):
        apply_settings(START, {key: 1}, {"width": 64})


@pytest.mark.parametrize("key", ["device", "seed", "threads", "default_threads"])
def test_what_has_its_own_argument_is_no_setting(key):
    with pytest.raises(UsageError, match="is not a setting"):
        apply_settings(START, {key: 1}, {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"functions": 1.5}, "not a whole number"),
        ({"functions": "many"}, "not a whole number"),
        ({"learning_rate": float("nan")}, "not a number"),
        ({"learning_rate": True}, "not a number"),
        ({"functions": 0}, "must be above zero"),
        ({"warmup": 1.0}, "at least 0 and below 1"),
        ({"front": -1}, "must be at least 0"),
        ({"relative": "perhaps"}, "neither true nor false"),
        ({"optimiser": "sgd"}, "one of soap, muon, adamw"),
        ({"preset": 3}, "is not text"),
    ],
)
def test_wrong_values_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        apply_settings(START, settings, {})


@pytest.mark.parametrize("budget", [{}, {"steps": 5, "time": 5.0}])
def test_a_budget_is_steps_or_time(budget):
    with pytest.raises(UsageError, match="either steps or time"):
        BudgetConfig(**budget)


@pytest.mark.parametrize("budget", [{"steps": 0}, {"time": -1.0}, {"time": float("inf")}])
def test_a_budget_is_above_zero_and_finite(budget):
    with pytest.raises(UsageError, match="not above zero"):
        BudgetConfig(**budget)


def test_a_config_survives_json():
    config = apply_settings(
        TrainingConfig(BudgetConfig(steps=10)), {"functions": 4, "width": 8}, {"width": 64}
    )
    assert TrainingConfig.from_json(config.to_json()) == config


PHYSICS = {"residual"}


@pytest.mark.parametrize(
    ("settings", "key", "belongs"),
    [
        ({"candidates": 8}, "candidates", "method=residual_adaptive"),
        ({"horizon_until": 0.3}, "horizon_until", "a horizon below 1"),
        (
            {"weighting": "causal", "weight_every": 5},
            "weight_every",
            "gradient_norm, ntk or ntk_local",
        ),
        (
            {"weighting": "ntk", "bins": 4},
            "bins",
            "weighting=ntk_local, residual_attention or causal",
        ),
        ({"weighting": "ntk_local", "attention_rate": 0.1}, "attention_rate", "residual_attention"),
        ({"memory": 0.5}, "memory", "weighting=gradient_norm, ntk, ntk_local or causal"),
        ({"optimiser": "muon", "precondition": 5}, "precondition", "optimiser=soap"),
        ({"initial_weight": 3}, "initial_weight", "constraints=soft"),
        ({"boundary": 3}, "boundary", "constraints=soft"),
        ({"data_queries": 3}, "data_queries", "--data FILE"),
    ],
)
def test_a_setting_that_does_nothing_is_refused_with_what_it_belongs_to(settings, key, belongs):
    config = apply_settings(START, settings, {})
    with pytest.raises(UsageError, match=f"{key}: does nothing here") as error:
        require_applicable(settings, Circumstances(config, PHYSICS))
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
    config = apply_settings(START, settings, {})
    require_applicable(settings, Circumstances(config, parts))


def test_a_horizon_is_for_points_and_for_marches_and_not_for_grids():
    config = apply_settings(START, {"horizon": 0.5}, {})
    for field in (POINT_FIELD, ROLLOUT_FIELD):
        require_applicable(["horizon"], Circumstances(config, PHYSICS, field))
    with pytest.raises(UsageError, match=r"horizon: does nothing here.* all of its times at once"):
        require_applicable(["horizon"], Circumstances(config, PHYSICS, GRID_FIELD))


def test_without_physics_points_of_the_equations_do_nothing():
    config = TrainingConfig(BudgetConfig(steps=10), physics=False)
    for key in ("functions", "queries", "method", "front", "relative", "residual_weight"):
        with pytest.raises(UsageError, match="training on the equations"):
            require_applicable([key], Circumstances(config, {"data"}))


def test_every_setting_has_a_meaning_and_an_allowed_default():
    for key, (section, declared) in SETTINGS.items():
        assert declared.meaning.endswith("."), key
        assert declared.parse(declared.default) == declared.default
        assert getattr(START.sections[section], key) == declared.default


def test_a_weighting_names_settings_that_exist():
    adaptive = {key for key, (section, _) in SETTINGS.items() if section == "adaptive"}
    read = {name for weighting in WEIGHTINGS for name in weighting.settings}
    assert read == adaptive - {"weighting", "causal"}


def test_settings_of_drawn_points_are_told_apart_from_those_of_grids():
    points = settings_for(POINTWISE)
    assert {"queries", "method", "shared", "candidates", "data_queries"} <= points
    assert not {"functions", "grid", "times", "horizon"} & points
