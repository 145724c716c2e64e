"""Runs whose equations are integrated over time on lattices."""

import json

import numpy as np
import pytest
import torch

from piop.errors import TrainingError, UsageError
from piop.problem import Problem
from piop.run import Run, fit, resume
from piop.training.build import build_model, build_objective, build_source
from piop.training.loop.gradients import CompiledGradients, eager_gradients
from piop.training.loop.microbatches import microbatched
from piop.training.loop.profile import Profile
from tests.training.steps import BURGERS

SMALL = {"width": 16, "blocks": 1, "heads": 2, "functions": 4, "windows": 3, "form": "integral"}


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(BURGERS)


@pytest.fixture(scope="module")
def run(problem, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "integral"
    return fit(problem, steps=8, settings=SMALL, out=folder, samples=4, compile=False, seed=1)


def parts_of(run):
    """The loss of a run with its first weights, and the batch of its first step."""
    model = build_model(run.problem, run.statistics, run.config)
    loss = build_objective(model, run.statistics, run.config)
    draw = build_source(model, loss, run.statistics, run.config, None)
    return loss, draw(0, 0.9)


def test_the_run_records_its_lattice(run):
    times, points = run.statistics.lattice
    assert times >= 5
    assert points >= 16
    recorded = json.loads((run.path / "config.json").read_text())["statistics"]
    assert recorded["lattice"] == [times, points]
    assert Run.load(run.path).statistics == run.statistics
    residual = json.loads((run.path / "evaluation.json").read_text())["residual"]
    assert 0 < residual["equation 1"] < 100  # that of the equations at points


def test_a_resumed_run_is_exactly_the_same(problem, run, tmp_path):
    def stop(row):
        if row["step"] >= 3:
            raise RuntimeError("stop")

    folder = tmp_path / "stopped"
    settings = {**SMALL, "checkpoint": 1e-9}
    whole = {"samples": 0, "compile": False, "seed": 1}
    with pytest.raises(TrainingError, match="failed at step"):
        fit(problem, steps=8, settings=settings, out=folder, progress=stop, **whole)
    same = resume(folder, samples=0)
    for name, value in run.model.operator.state_dict().items():
        assert torch.equal(value, same.model.operator.state_dict()[name]), name


def test_microbatches_have_the_gradients_of_the_whole(run):
    loss, batch = parts_of(run)
    parameters = [p for p in loss.parameters() if p.requires_grad]
    gradients = eager_gradients(loss, Profile("cpu"))
    lattice = batch.equations.queries.shape[1]
    found = []
    for rows in (10**6, lattice):
        loss.zero_grad()
        parts, _ = microbatched(gradients, parameters, loss.residual.streams, rows)(batch)
        found.append((parts["loss"], [p.grad.clone() for p in parameters]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_compiled_step_has_the_gradients_of_an_eager_one(run):
    loss, batch = parts_of(run)
    compiled = CompiledGradients(loss)
    assert compiled.prepare(batch)
    parts, _ = compiled(batch)
    found = [p.grad.clone() for p in compiled.parameters]
    loss.zero_grad()
    same, _ = eager_gradients(loss, Profile("cpu"))(batch)
    torch.testing.assert_close(parts["loss"], same["loss"], rtol=1e-4, atol=1e-7)
    for one, parameter in zip(found, compiled.parameters, strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_training_lowers_the_error_of_a_stiff_equation(tmp_path):
    """A fourth-order equation, on which random points take several times as many steps."""
    problem = Problem.from_file("cahn_hilliard")
    errors = {}
    for form in ("integral", "strong"):
        run = fit(
            problem,
            steps=80,
            settings={"form": form, "functions": 2},
            out=tmp_path / form,
            samples=4,
            compile=False,
        )
        errors[form] = run.evaluate(4)["relative_l2"]["mean"]
    assert errors["integral"] < 0.25
    assert errors["integral"] < 0.7 * errors["strong"]


@pytest.mark.parametrize("key", ["queries", "front", "method"])
def test_settings_of_random_points_are_refused(problem, tmp_path, key):
    value = {"queries": 32, "front": 0.1, "method": "sobol"}[key]
    with pytest.raises(UsageError, match=f"{key}: does nothing here; it belongs to form=strong"):
        fit(problem, steps=2, settings={**SMALL, key: value}, out=tmp_path / "refused", samples=0)
    assert not (tmp_path / "refused").exists()


def test_settings_that_go_with_a_lattice_give_way_to_those_given(run, problem, tmp_path):
    assert (run.config.optimiser.clip, run.config.points.functions) == (0.01, 4)
    usual = {key: value for key, value in SMALL.items() if key != "functions"}
    given = {**usual, "clip": 0.5}
    other = fit(problem, steps=1, settings=given, out=tmp_path / "usual", samples=0)
    assert (other.config.optimiser.clip, other.config.points.functions) == (0.5, 16)
    assert Run.load(other.path).config.points.functions == 16


def test_settings_of_random_points_choose_them(problem, tmp_path):
    settings = {**SMALL, "form": "auto", "queries": 16}
    run = fit(problem, steps=1, settings=settings, out=tmp_path / "points", samples=0)
    assert run.statistics.lattice == ()


def test_windows_are_doubled_for_the_integral_form_alone(tmp_path):
    problem = Problem.from_file("schroedinger")
    small = {"width": 8, "blocks": 1, "heads": 2, "functions": 2}
    found = {}
    for form in ("auto", "strong"):
        settings = {**small, "form": form}
        run = fit(problem, steps=1, settings=settings, out=tmp_path / form, samples=0)
        found[form] = run.statistics.windows, bool(run.statistics.lattice)
    assert found == {"auto": (8, True), "strong": (4, False)}


def test_a_resume_refuses_settings_of_random_points(run):
    before = (run.path / "config.json").read_bytes()
    with pytest.raises(UsageError, match="queries: does nothing here"):
        resume(run.path, steps=20, settings={"queries": 8})
    assert (run.path / "config.json").read_bytes() == before


def test_the_integral_form_is_refused_where_it_is_not_possible(tmp_path):
    problem = Problem.from_file("poisson_lshape")
    with pytest.raises(UsageError, match="no equations on a box"):
        fit(problem, steps=1, settings={"form": "integral"}, out=tmp_path / "no", samples=0)


def test_one_window_is_integrated_on_request(problem, tmp_path):
    settings = {**SMALL, "windows": 1}
    run = fit(problem, steps=1, settings=settings, out=tmp_path / "one", samples=0)
    assert run.statistics.windows == 1
    assert run.statistics.lattice


def test_a_lattice_that_resolves_no_solution_is_refused(tmp_path):
    """Fronts that need more points than a lattice has, and more waves than a state keeps."""
    problem = Problem.from_file("burgers")
    with pytest.raises(UsageError, match="form: integral is not possible: solutions need"):
        fit(problem, steps=1, settings={"form": "integral"}, out=tmp_path / "no", samples=0)


WAVES = {"amplitude": [0.5, 1], "wavenumber": [1, 1]}


def robin_problem():
    return Problem(
        name="tube",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"g": {"of": ["t"], "law": "fourier_series", "terms": 1, **WAVES}},
        equations=["dt(u) + dx(u) = 0.1*dxx(u)"],
        initial={"u": 0},
        boundary={"x.min": {"robin": {"u": [1, 0.1, "g"]}}, "x.max": {"neumann": {"u": 0}}},
    )


NARROW = {"width": 16, "blocks": 1, "heads": 2}


def test_conditions_on_walls_are_part_of_the_equations(tmp_path):
    run = fit(
        robin_problem(), steps=3, settings=NARROW, out=tmp_path / "run", samples=2, compile=False
    )
    times, points = run.statistics.lattice
    assert times % 5 == 1
    assert 16 <= points < 40
    assert run.config.optimiser.clip == 0.01
    loss, batch = parts_of(run)
    assert loss.conditions == {}
    parts, _ = loss(batch)
    assert set(parts) == {"loss", "residual"}
    assert batch.equations.queries.shape[1] == times * points
    with pytest.raises(UsageError, match="boundary: does nothing here"):
        resume(run.path, steps=20, settings={"boundary": 8})


def test_a_slope_on_a_wall_is_learned_with_the_equations(tmp_path):
    """With the condition as a term of the loss of its own, as many steps leave twice the error."""
    errors = {}
    runs = {}
    for form in ("auto", "strong"):
        settings = {**NARROW, "form": form}
        run = fit(
            robin_problem(),
            steps=60,
            settings=settings,
            out=tmp_path / form,
            samples=8,
            compile=False,
        )
        errors[form] = run.evaluate(8)["relative_l2"]["mean"]
        runs[form] = run
    assert errors["auto"] < 0.5 * errors["strong"]
    # the error that residuals cause is most of what there is to know of the error
    learned = runs["auto"].calibrate(60)
    assert learned.correlation > 0.8
    inputs = {"g": (np.linspace(0, 1, 64), np.sin(np.linspace(0, 6, 64)))}
    bound = runs["auto"].predict(inputs)["error_bound"].values
    assert bound.shape == (1,)


@pytest.mark.parametrize("key", ["boundary", "boundary_weight", "weighting"])
def test_settings_of_walls_choose_random_points(tmp_path, caplog, key):
    value = {"boundary": 16, "boundary_weight": 2, "weighting": "gradient_norm"}[key]
    settings = {**NARROW, key: value}
    with caplog.at_level("INFO", logger="piop"):
        run = fit(robin_problem(), steps=1, settings=settings, out=tmp_path / "points", samples=0)
    assert run.statistics.lattice == ()
    assert f"residual: strong, {key} is given, which belongs to it" in caplog.text
    with pytest.raises(UsageError, match=f"{key}: does nothing here"):
        fit(
            robin_problem(),
            steps=1,
            settings={**settings, "form": "integral"},
            out=tmp_path / "no",
            samples=0,
        )
