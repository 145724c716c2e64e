"""Which of a spec's ``solve:`` block a run takes up."""

import pytest

from piop.errors import SpecError
from piop.problem import Problem
from piop.run.configuration import check_recipe, configure
from piop.spec.load import builtin_names
from piop.training.config import BudgetConfig, TrainingConfig

RECIPE = {"optimiser": "muon", "learning_rate": 0.03, "weighting": "residual_attention"}
SPEC = {
    "name": "case",
    "time": {"t": [0, 1]},
    "space": {"x": [0, 1]},
    "unknowns": ["u"],
    "inputs": {
        "u0": {
            "of": ["x"],
            "law": "fourier_series",
            "terms": 2,
            "amplitude": [-1, 1],
            "wavenumber": [1, 2],
        }
    },
    "equations": ["dt(u) = 0.1*dxx(u)"],
    "initial": {"u": "u0"},
    "boundary": {"x": "periodic"},
    "solve": {"backbone": "pit", "width": 8, "functions": 3, **RECIPE},
}


def chosen(backbone=None, settings=None, physics=True):
    start = TrainingConfig(BudgetConfig(steps=1), physics=physics)
    config = configure(Problem(**SPEC), start, backbone, settings)
    optimiser = config.optimiser
    return optimiser.optimiser, optimiser.learning_rate, config.adaptive.weighting


USUAL = ("soap", 0.01, "fixed")


def test_the_recipe_of_a_spec_is_taken():
    assert chosen() == ("muon", 0.03, "residual_attention")
    assert chosen("pit") == ("muon", 0.03, "residual_attention")


@pytest.mark.parametrize("given", [{"backbone": "deeponet"}, {"physics": False}])
def test_it_is_for_its_network_and_for_the_equations(given):
    assert chosen(**given) == USUAL


def test_what_a_user_says_goes_first():
    assert chosen(settings={"learning_rate": 0.02}) == ("muon", 0.02, "residual_attention")
    assert chosen(settings={"weighting": "fixed"}) == ("muon", 0.03, "fixed")


def test_a_step_size_goes_with_its_optimiser():
    assert chosen(settings={"optimiser": "soap"}) == ("soap", 0.01, "residual_attention")
    assert chosen(settings={"optimiser": "muon"}) == ("muon", 0.03, "residual_attention")
    given = {"optimiser": "adamw", "learning_rate": "1e-3"}
    assert chosen(settings=given) == ("adamw", 0.001, "residual_attention")


def test_other_settings_stay_with_another_network():
    start = TrainingConfig(BudgetConfig(steps=1))
    config = configure(Problem(**SPEC), start, "deeponet", None)
    assert config.points.functions == 3
    assert "width" not in config.backbone_settings


def test_recipes_of_built_in_problems_are_allowed():
    """`piop check` relies on it: it does not read them again."""
    for name in builtin_names():
        if (problem := Problem.from_file(name)).solve:
            check_recipe(problem)


@pytest.mark.parametrize(
    ("solve", "why"),
    [
        (
            {"form": "integral", "constraints": "soft"},
            "form: integral is not possible: the initial data are a soft constraint",
        ),
        ({"windows": 3}, "windows: 3 is not possible: an axis of space is not periodic"),
    ],
)
def test_what_the_equations_do_not_allow_is_refused_at_its_place(solve, why):
    walls = Problem(**{**SPEC, "boundary": {"x": {"neumann": {"u": 0}}}, "solve": solve})
    with pytest.raises(SpecError, match=f"solve: {why}"):
        check_recipe(walls)
