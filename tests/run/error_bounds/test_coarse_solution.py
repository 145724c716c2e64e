"""Differences of predictions from coarse solutions, and the choice of these."""

import json
from shutil import copytree

import numpy as np
import pytest
import torch

from piop.errors import NotSupportedError, SolverError
from piop.metrics import rank_correlation, relative_l2
from piop.problem import Problem
from piop.run import Run, fit
from piop.run.error_bounds import answers, coarse_choice, coarse_solution
from piop.run.error_bounds.calibration import errors_and_estimates
from piop.run.error_bounds.coarse_choice import choose_coarse, coarse_differences
from piop.run.error_bounds.coarse_solution import CoarseDifference, CoarseLevels
from piop.run.error_bounds.indicator import Measurement
from piop.run.evaluation import predict_held_out

COARSE = CoarseLevels(2, 0.1)


def own_errors(run, held_out):
    prediction = predict_held_out(run.solved, run.model, held_out)
    return errors_and_estimates(run.solved, held_out, prediction)["u"]


def test_the_difference_is_the_error_where_the_solution_is_exact(trained):
    """Waves that decay at rates of their own are solved exactly on any grid that holds them."""
    held_out = trained.held_out(6, seed=3)
    found = CoarseDifference(trained.solved, trained.model, COARSE)(held_out.inputs)
    assert found.shape == (6, 1)
    torch.testing.assert_close(found[:, 0], own_errors(trained, held_out), rtol=1e-4, atol=0)


def test_each_input_is_compared_with_its_own_solution(trained):
    inputs = trained.held_out(5, seed=3).inputs
    compare = CoarseDifference(trained.solved, trained.model, COARSE)
    together = compare(inputs)
    alone = [
        compare({n: s.take(row) for n, s in inputs.items()}) for row in torch.arange(5).split(1)
    ]
    torch.testing.assert_close(together, torch.cat(alone))


def test_an_input_without_a_coarse_solution_leaves_the_others_theirs(trained, monkeypatch):
    inputs = trained.held_out(5, seed=3).inputs
    compare = CoarseDifference(trained.solved, trained.model, COARSE)
    expected, solve = compare(inputs), coarse_solution.solve_reference
    bad = float(inputs["u0"].values[3, 0, 0])

    def refuse(problem, functions, **settings):
        values = functions["u0"](inputs["u0"].points[:1].expand(functions["u0"].batch, -1, -1))
        if ((values[:, 0] - bad).abs() < 1e-6).any():
            raise SolverError("not finite on any level")
        return solve(problem, functions, **settings)

    monkeypatch.setattr(coarse_solution, "solve_reference", refuse)
    found = compare(inputs)[:, 0]
    assert found.isinf().tolist() == [False, False, False, True, False]
    torch.testing.assert_close(found[[0, 1, 2, 4]], expected[[0, 1, 2, 4], 0])


def test_of_a_problem_without_a_solver_there_are_no_differences(trained, monkeypatch):
    def refuse(*_, **__):
        raise NotSupportedError("no solver for this")

    monkeypatch.setattr(coarse_solution, "solve_reference", refuse)
    inputs, own = trained.held_out(12, seed=3).inputs, (trained.solved, trained.model)
    assert coarse_differences(*own, inputs, torch.arange(1.0, 13), [], inputs) == []


def test_on_shapes_there_are_no_differences(trained):
    problem = Problem.from_file("poisson_lshape")
    with pytest.raises(NotSupportedError, match="poisson_lshape: no coarse solutions on shapes"):
        CoarseDifference(problem, trained.model, COARSE)
    assert coarse_differences(problem, trained.model, {}, torch.ones(12), [], {}) == []


@pytest.fixture
def selection(trained):
    held_out = trained.held_out(12, seed=3)
    return trained.solved, trained.model, held_out.inputs, own_errors(trained, held_out), 12


def test_the_first_levels_that_tell_the_error_are_taken(selection, monkeypatch):
    monkeypatch.setattr(coarse_choice, "MOST_PREDICTIONS", 1e9)  # of a network this small
    found = choose_coarse(*selection)
    assert found.levels == 1
    assert found.tolerance == pytest.approx(0.1 * float(selection[3].mean()))


def test_the_levels_that_follow_the_errors_best_are_taken(selection, monkeypatch):
    monkeypatch.setattr(coarse_choice, "MOST_PREDICTIONS", 1e9)

    class Compare:
        """Levels 1, 2 and 3 agree with the errors a little, well and hardly."""

        def __init__(self, problem, model, levels):
            self.noise = {1: 1.0, 2: 0.3, 3: 3.0}[levels.levels]

        def __call__(self, inputs):
            generator = torch.Generator().manual_seed(0)
            noise = torch.randn(12, 1, generator=generator, dtype=torch.float64)
            return (selection[3][:, None] * (self.noise * noise).exp())[: len(inputs["u0"].values)]

    monkeypatch.setattr(coarse_choice, "CoarseDifference", Compare)
    monkeypatch.setattr(coarse_choice, "ENOUGH", 0.999)
    assert choose_coarse(*selection).levels == 2


def test_coarse_solutions_that_take_too_long_are_not_taken(selection, monkeypatch):
    monkeypatch.setattr(coarse_choice, "MOST_PREDICTIONS", 1e-9)
    assert choose_coarse(*selection) is None
    monkeypatch.setattr(coarse_choice, "MOST_PREDICTIONS", 1e9)
    assert choose_coarse(*selection, seconds=1e-9) is None


def test_without_time_nothing_is_predicted(selection, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("predicted")

    monkeypatch.setattr(coarse_choice, "predict_values", refuse)
    problem, model, inputs, errors, _ = selection
    assert coarse_differences(problem, model, inputs, errors, [], inputs, -1.0) == []


def test_where_residuals_tell_the_errors_nothing_is_solved(selection, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("solved")

    monkeypatch.setattr(coarse_solution, "solve_reference", refuse)
    problem, model, inputs, errors, _ = selection
    exact = [Measurement(errors[:, None])]
    assert coarse_differences(problem, model, inputs, errors, exact, inputs) == []


@pytest.fixture(scope="module")
def compared(trained, tmp_path_factory):
    """A run whose indicator is the difference from coarse solutions."""
    run = Run.load(copytree(trained.path, tmp_path_factory.mktemp("runs") / "compared"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coarse_choice, "MOST_PREDICTIONS", 1e9)
        patch.setattr(coarse_choice, "ENOUGH", 2.0)  # also where the residual tells the error
        run.calibrate(60)
    return run


X = np.arange(8) / 4
ONE = np.cos(np.pi * X + 0.3)


def test_predictions_are_bounded_by_coarse_solutions(compared):
    found = json.loads((compared.path / "calibration.json").read_text())["indicator"]
    assert found["kind"] == "coarse_difference"
    assert set(found["coarse"]) == {"levels", "tolerance"}
    assert compared.calibration.correlation > 0.99
    held_out = compared.held_out(3, seed=5)
    several = held_out.inputs["u0"].values[..., 0].numpy()
    whole = compared.predict({"u0": several})
    assert "residual" not in whole
    difference, bounds = whole["coarse_difference"], whole["error_bound"].values
    assert "coarse solution" in difference.attrs["long_name"]
    errors = own_errors(compared, held_out).numpy()
    assert difference.values == pytest.approx(errors, rel=1e-3)
    assert bounds == pytest.approx(
        errors, rel=0.5
    )  # what follows the errors so well bounds them closely
    alone = compared.predict({"u0": several[2]}, {"t": [1.5], "x": [0.3]})
    assert alone["error_bound"].values == pytest.approx(bounds[2:], rel=1e-6)
    points = compared.predict({"u0": several[2]}, np.array([[1.2, 0.3], [1.7, 0.1]]))
    assert points["error_bound"].values == pytest.approx(bounds[2:], rel=1e-6)
    assert whole["error_bound_over_time"].dims == ("sample", "t")


def test_inputs_outside_the_distribution_are_not_solved_for(compared, monkeypatch):
    seen = []

    class Compare(CoarseDifference):
        def __call__(self, observed):
            seen.append(len(observed["u0"].values))
            return super().__call__(observed)

    monkeypatch.setattr(answers, "CoarseDifference", Compare)
    both = np.stack([ONE, 30 * ONE])
    found = compared.predict({"u0": both})
    assert seen == [1]
    assert np.isfinite(found["error_bound"].values).tolist() == [True, False]
    assert np.isfinite(found["coarse_difference"].values).tolist() == [True, False]
    assert np.isnan(compared.predict({"u0": both[1]})["error_bound"].values).all()
    assert seen == [1]


GROWTH = Problem(
    name="growth",
    time={"t": [0, 4]},
    space={"x": [0, 1], "y": [0, 1]},
    unknowns=["u"],
    inputs={
        "g": {
            "of": ["x", "y"],
            "law": "gaussian_random_field",
            "scale": 2e3,
            "tau": 6,
            "alpha": 4,
            "modes": 1,
            "hidden": True,
        },
        "u0": {"of": ["x", "y"], "expression": "0.02*exp(2*g)"},
    },
    equations=["dt(u) = 0.002*lap(u) + 2*u*(1 - u)"],
    initial={"u": "u0"},
    boundary={"x": "periodic", "y": "periodic"},
    sensors={"u0": {"count": [8, 8], "place": "grid"}},
    save={"t": 9, "x": 16, "y": 16},
)


@pytest.mark.slow
def test_on_a_periodic_square_they_tell_errors_that_grow(tmp_path):
    """Near an unstable state errors grow, which a residual does not show; no lattice is small."""
    small = {"width": 8, "blocks": 1, "heads": 2, "functions": 4, "queries": 32}
    run = fit(GROWTH, steps=100, out=tmp_path / "r", samples=0, calibrate=0, settings=small)
    held_out = run.held_out(40, seed=3)
    difference = CoarseDifference(run.solved, run.model, CoarseLevels(1, 0.1))(held_out.inputs)
    prediction = predict_held_out(run.solved, run.model, held_out)
    errors = relative_l2(prediction["u"], held_out.truth["u"])
    assert rank_correlation(difference[:, 0], errors) > 0.95
