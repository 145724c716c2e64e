import pytest
import torch

from piop.errors import UsageError
from piop.problem import Problem
from piop.training.config import BudgetConfig, TrainingConfig, apply_settings

SOURCE = Problem.from_yaml("""
piop: 1
name: forced
time: {t: [0, 1]}
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  u0: {of: [x, y], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: ["dt(u) = 0.05*lap(u) + sin(2*pi*y)"]
initial: {u: u0}
boundary: {x: periodic, y: periodic}
sensors: {u0: {count: 9, place: grid}}
save: {t: 3, x: 8, y: 8}
""")


def names(built):
    return [member.name for member in built.loss.weightings.members]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"causal": 2.0}, ["causal"]),
        ({"weighting": "causal"}, ["causal"]),
        ({"weighting": "ntk_local", "causal": 1.0}, ["ntk_local", "causal"]),
        ({"weighting": "residual_attention"}, ["residual_attention"]),
        ({"weighting": "gradient_norm", "constraints": "soft"}, ["gradient_norm"]),
        ({"weighting": "ntk", "constraints": "soft"}, ["ntk"]),
    ],
)
def test_settings_choose_the_weights(heat, builder, settings, expected):
    assert names(builder(heat, **settings)) == expected


def test_causal_weights_have_strength_one_unless_told(heat, builder):
    assert builder(heat, weighting="causal").loss.weightings.members[0].strength == 1.0
    told = builder(heat, weighting="causal", causal=3.0)
    assert told.loss.weightings.members[0].strength == 3.0


def test_cells_of_attention_divide_the_axes_that_are_not_all_alike(builder):
    built = builder(SOURCE, weighting="residual_attention", bins=4, space_bins=3)
    axes = built.loss.weightings.members[0].cells.axes
    assert [(axis.column, axis.count) for axis in axes] == [(0, 4), (2, 3)]


@pytest.mark.parametrize("name", ["gradient_norm", "ntk"])
def test_a_balance_of_one_term_is_refused(heat, builder, name):
    with pytest.raises(UsageError, match=r"there is one.*constraints=soft.*ntk_local"):
        builder(heat, weighting=name)


def test_an_unknown_weighting_is_told_with_the_list():
    start = TrainingConfig(BudgetConfig(steps=1))
    with pytest.raises(
        UsageError, match="'nkt' is not one of fixed, gradient_norm, ntk, ntk_local,"
    ):
        apply_settings(start, {"weighting": "nkt"}, {})


def test_a_config_of_before_finds_its_keys_where_they_are_now():
    stored = TrainingConfig(BudgetConfig(steps=1)).to_json()
    del stored["adaptive"]
    stored["loss"] |= {"causal": 2.0, "bins": 5}
    config = TrainingConfig.from_json(stored)
    assert (config.adaptive.causal, config.adaptive.bins) == (2.0, 5)
    assert config.adaptive.weighting == "fixed"


def test_weights_enter_as_tensors_of_the_step(heat, builder):
    choices = {"constraints": "soft", "weighting": "ntk", "causal": 1.0}
    built = builder(heat, **choices)
    batch = built.loss.weightings.attach(built.draw(0, 0.0))
    assert all(v.dtype == torch.float64 for v in batch.weights.values())
    assert {"parts", "causal", "probe/equations", "probe/initial"} <= set(batch.weights)
