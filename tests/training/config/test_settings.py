import json

import pytest

from piop.errors import UsageError
from piop.training.config import BudgetConfig, TrainingConfig, apply_settings

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
    with pytest.raises(UsageError, match="did you mean 'learning_rate'"):
        apply_settings(START, {"lerning_rate": 1}, {})


@pytest.mark.parametrize("key", ["zzz", "finish"])
def test_an_unknown_key_far_from_all_lists_them(key):
    with pytest.raises(UsageError, match=r"one of attention_decay, .*width"):
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
        ({"front": -1}, "must not be negative"),
        ({"relative": "perhaps"}, "neither true nor false"),
        ({"optimiser": "sgd"}, "one of soap, muon, adamw"),
        ({"preset": 3}, "is not text"),
    ],
)
def test_wrong_values_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        apply_settings(START, settings, {})
