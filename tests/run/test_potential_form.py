"""Runs whose network is the potential of the unknowns."""

import json

import numpy as np
import pytest
import torch

from piop.datasets import Queries
from piop.errors import TrainingError, UsageError
from piop.models import BACKBONES
from piop.problem import Problem
from piop.report.settings_section import command
from piop.run import Run, fit, resume
from piop.run.evaluation import residual_at_points
from piop.sampling import Draws, observe, sample_inputs
from piop.training.build import build_model, build_objective, build_source, residual_of_model
from piop.training.choices import settings_of_form
from piop.training.loop.gradients import CompiledGradients, eager_gradients
from piop.training.loop.profile import Profile
from tests.training.steps import BURGERS

SMALL = {"width": 16, "blocks": 1, "heads": 2, "functions": 4, "form": "potential"}
ALONE = {"samples": 0, "compile": False, "seed": 1}
SYSTEM = BURGERS.replace("unknowns: [u]", "unknowns: [u, v]").replace(
    "equations: [dt(u) + u*dx(u) = 0.05*dxx(u)]\ninitial: {u: u0}",
    "equations: [dt(u) + dx(u*v) = 0.05*dxx(u), 2*dt(v) + v*dx(v) = 0.1*dxx(v)]\n"
    "initial: {u: u0, v: 0.5*u0 + 1}",
)


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(BURGERS)


@pytest.fixture(scope="module")
def run(problem, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "potential"
    return fit(problem, steps=8, settings=SMALL, out=folder, samples=4, compile=False, seed=1)


def some_inputs(problem, count=3):
    """The functions of a few samples, and their sensors."""
    draws = Draws(0, 0, torch.arange(count))
    functions = sample_inputs(problem, draws)
    return functions, observe(functions, problem, draws)


def test_the_run_records_its_form(run):
    recorded = json.loads((run.path / "config.json").read_text())["statistics"]
    assert recorded["potential"] is True
    same = Run.load(run.path)
    assert same.statistics == run.statistics
    _, seen = some_inputs(run.problem)
    inputs = {"u0": seen["u0"].values[..., 0].numpy()}
    found, again = (r.predict(inputs)["u"].values for r in (run, same))
    np.testing.assert_array_equal(found, again)


def test_a_step_takes_more_functions_at_fewer_points(run, problem, tmp_path):
    points = run.config.points
    assert (points.functions, points.queries) == (SMALL["functions"], 64)  # what is given stays
    settings = {**SMALL, "form": "strong"}
    strong = fit(problem, steps=1, settings=settings, out=tmp_path / "r", **ALONE)
    assert strong.config.points.queries == 128
    usual = settings_of_form(run.config, (), potential=True, data=False)
    assert usual["functions"] > strong.config.points.functions
    again = command(problem, run.config, None, of_form=usual)
    assert "--set functions=4" in again
    assert "queries" not in again


@pytest.mark.parametrize("text", [BURGERS, SYSTEM], ids=["one unknown", "two unknowns"])
def test_predictions_start_exactly_and_keep_their_means(text, tmp_path):
    problem = Problem.from_yaml(text)
    run = fit(problem, steps=20, settings=SMALL, out=tmp_path / "run", **ALONE)
    functions, seen = some_inputs(problem)
    x = 2 * np.arange(256) / 256
    inputs = {"u0": seen["u0"].values[..., 0].numpy()}
    found = run.predict(inputs, at={"t": np.linspace(0, 1, 5), "x": x})
    u0 = functions["u0"](torch.tensor(x)[None, :, None].expand(3, -1, -1)).numpy()
    starts = {"u": u0, "v": 0.5 * u0 + 1}
    for name in problem.unknowns:
        values, start = found[name].values, starts[name]
        np.testing.assert_allclose(values[:, 0], start, atol=2e-5)
        assert np.abs(values[:, -1] - start).max() > 1e-3  # it moves
        means = np.broadcast_to(start.mean(1)[:, None], values.shape[:2])
        np.testing.assert_allclose(values.mean(2), means, atol=1e-4)


@pytest.mark.parametrize("text", [BURGERS, SYSTEM], ids=["one unknown", "two unknowns"])
def test_the_residual_is_that_of_the_equations_of_the_unknowns(text, tmp_path):
    """Beside differences in time and spectra in space of the predicted values."""
    problem = Problem.from_yaml(text)
    more = {"precision": "float64", **ALONE}
    run = fit(problem, steps=20, settings=SMALL, out=tmp_path / "run", **more)
    functions, seen = some_inputs(problem)
    equations = residual_of_model(run.problem, run.model, run.config)
    x = (2 * torch.arange(128) / 128).double()
    step = 1e-4
    times = torch.tensor([0.5 - step, 0.5, 0.5 + step], dtype=torch.float64)
    queries = Queries(axes={"t": times, "x": x})
    values = run.model.operator(seen, queries.tensor().expand(3, -1, -1), None)
    lift = run.model.known(functions, queries.tensor().expand(3, -1, -1))
    u = (values - run.model.operator.mean + lift).detach().unflatten(1, (3, -1))
    rate, here = (u[:, 2] - u[:, 0]) / (2 * step), u[:, 1]

    def slope(field):
        waves = torch.fft.rfftfreq(128, 2 / 128).double() * 2j * torch.pi
        return torch.fft.irfft(torch.fft.rfft(field, dim=1) * waves[:, None], n=128, dim=1)

    if problem.unknowns == ("u",):
        wanted = rate + here * slope(here) - 0.05 * slope(slope(here))
    else:
        first, second = here[..., :1], here[..., 1:]
        wanted = torch.cat(
            [
                rate[..., :1] + slope(first * second) - 0.05 * slope(slope(first)),
                2 * rate[..., 1:] + second * slope(second) - 0.1 * slope(slope(second)),
            ],
            -1,
        )
    at = residual_at_points(run.model, equations, functions, seen)
    middle = Queries(axes={"t": times[1:2], "x": x}).tensor().expand(3, -1, -1)
    found = at(middle).detach()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def test_a_resumed_run_is_exactly_the_same(problem, run, tmp_path):
    def stop(row):
        if row["step"] >= 3:
            raise RuntimeError("stop")

    folder = tmp_path / "stopped"
    settings = {**SMALL, "checkpoint": 1e-9}
    with pytest.raises(TrainingError, match="failed at step"):
        fit(problem, steps=8, settings=settings, out=folder, progress=stop, **ALONE)
    same = resume(folder, samples=0)
    for name, value in run.model.operator.state_dict().items():
        assert torch.equal(value, same.model.operator.state_dict()[name]), name


@pytest.mark.slow
def test_a_compiled_step_has_the_gradients_of_an_eager_one(run):
    model = build_model(run.problem, run.statistics, run.config)
    loss = build_objective(model, run.statistics, run.config)
    batch = build_source(model, loss, run.statistics, run.config, None)(0, 0.9)
    compiled = CompiledGradients(loss)
    assert compiled.prepare(batch)
    parts, _ = compiled(batch)
    found = [p.grad.clone() for p in compiled.parameters]
    loss.zero_grad()
    same, _ = eager_gradients(loss, Profile("cpu"))(batch)
    torch.testing.assert_close(parts["loss"], same["loss"], rtol=1e-4, atol=1e-7)
    for one, parameter in zip(found, compiled.parameters, strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-3, atol=1e-5)


FRONTS = BURGERS.replace("0.05*", "0.003*").replace("[0, 1]", "[0, 1.5]")


@pytest.mark.slow
def test_fronts_take_their_places_in_fewer_steps(tmp_path):
    errors = {}
    for form in ("potential", "strong"):
        run = fit(
            Problem.from_yaml(FRONTS),
            steps=150,
            settings={"form": form, "windows": 1, "queries": 64},
            out=tmp_path / form,
            samples=16,
            compile=False,
        )
        errors[form] = run.evaluate(16)["relative_l2"]["mean"]
    assert errors["potential"] < 0.1
    assert errors["potential"] < 0.7 * errors["strong"]


POINTWISE = [n for n, presets in BACKBONES.items() if presets["default"].build.field.pointwise]


@pytest.mark.parametrize("backbone", POINTWISE)
def test_every_pointwise_network_has_a_potential(problem, tmp_path, backbone):
    settings = {"form": "potential", "functions": 2}
    run = fit(problem, steps=2, backbone=backbone, settings=settings, out=tmp_path / "run", **ALONE)
    _, seen = some_inputs(problem)
    x = 2 * np.arange(256) / 256
    inputs = {"u0": seen["u0"].values[..., 0].numpy()}
    values = run.predict(inputs, at={"t": [0.0, 1.0], "x": x})["u"].values
    np.testing.assert_allclose(values.mean(2)[:, 1], values.mean(2)[:, 0], atol=1e-4)
    assert np.abs(values[:, 1] - values[:, 0]).max() > 1e-4


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "residual_adaptive", "weighting": "causal", "horizon": 0.5},
        {"shared": True, "average": 0.9, "weighting": "ntk_local"},
        {"method": "sobol", "lbfgs": 0.5, "weighting": "residual_attention"},
    ],
)
def test_other_settings_of_points_work_with_it(problem, tmp_path, settings):
    run = fit(problem, steps=6, settings={**SMALL, **settings}, out=tmp_path / "run", **ALONE)
    assert run.statistics.potential
    again = Run.load(run.path)
    _, seen = some_inputs(problem)
    inputs = {"u0": seen["u0"].values[..., 0].numpy()}
    found, same = (r.predict(inputs)["u"].values for r in (run, again))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, same)


FRONT_OF_ONE = {**SMALL, "form": "auto", "windows": 1, "queries": 16}


@pytest.mark.parametrize(
    ("changes", "potential"),
    [
        ({}, True),
        ({"form": "strong"}, False),
        ({"front": 0.1}, False),
        ({"constraints": "soft"}, False),
        ({"linear_part": "exact"}, False),
        ({"windows": 2}, False),
        ({"preset": "paper", "width": 12}, False),
        ({"form": "integral", "queries": None}, False),
    ],
)
def test_fronts_without_a_lattice_choose_the_potential(problem, tmp_path, changes, potential):
    given = {**FRONT_OF_ONE, **changes}
    given = {k: v for k, v in given.items() if v is not None}
    if "preset" in changes:
        del given["heads"]
    run = fit(problem, steps=1, settings=given, out=tmp_path / "run", **ALONE)
    assert run.statistics.potential is potential


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"front": 0.1}, "front: does nothing here; it belongs to form=strong"),
        ({"windows": 2}, "windows: 2 is not possible: form=potential is for one window"),
        ({"constraints": "soft"}, "form: potential is not possible: .* soft constraint"),
        ({"linear_part": "exact"}, "its linear part is solved exactly"),
        ({"preset": "paper", "heads": None}, "backbone 'pit' is not exactly periodic"),
    ],
)
def test_what_excludes_the_potential_is_refused_with_it(problem, tmp_path, changes, why):
    given = {k: v for k, v in {**SMALL, **changes}.items() if v is not None}
    with pytest.raises(UsageError, match=why):
        fit(problem, steps=1, settings=given, out=tmp_path / "refused", samples=0)
    assert not (tmp_path / "refused").exists()


def test_other_equations_have_no_potential(tmp_path):
    problem = Problem.from_yaml(BURGERS.replace("0.05*dxx(u)", "0.05*dxx(u) - u**3"))
    with pytest.raises(UsageError, match="form: potential is not possible: an equation is no"):
        fit(problem, steps=1, settings=SMALL, out=tmp_path / "refused", samples=0)


@pytest.mark.parametrize(
    "name", ["operator.onnx", pytest.param("operator.pt2", marks=pytest.mark.slow)]
)
def test_an_exported_operator_is_the_same(run, tmp_path, name):
    """The export compares the file with the run, and raises where they differ."""
    exported = run.export(tmp_path / name)
    assert exported.path.stat().st_size > 1000
