"""Parameters trained beside the network: their gradients, and the functions they are told by."""

import json
import math

import pytest
import torch

from piop.datasets import Dataset
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.sampling import Draws, sample_inputs
from piop.training.batches.function_sources import (
    AlternatingFunctions,
    DatasetFunctions,
    DistributionFunctions,
    choose_function_source,
)
from piop.training.config import PointsConfig
from piop.training.loop.compilation import StepGradients
from piop.training.operator import RATE, Inferred

TEXT = """
piop: 1
name: inverse_heat
time: {t: [0, 1]}
space: {x: [0, 2]}
parameters: {nu: 0.05}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) = nu*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
infer: [nu]
"""


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(TEXT)


def heat_data(samples=6, nu=0.08, sensors=8):
    """Exact solutions on a grid."""
    x = 2 * torch.arange(16, dtype=torch.float64) / 16
    seen = 2 * torch.arange(sensors, dtype=torch.float64) / sensors
    t, phase = torch.linspace(0, 1, 5).double(), torch.arange(samples).double()[:, None]
    u = torch.cos(torch.pi * x + phase)[:, None] * torch.exp(-nu * torch.pi**2 * t)[:, None]
    values = torch.cos(torch.pi * seen + phase)[..., None]
    points = seen[None, :, None].expand(samples, -1, -1)
    return Dataset({"u0": FunctionSamples(points, values)}, {"t": t, "x": x}, {"u": u})


@pytest.fixture
def built(builder, problem):
    points = PointsConfig(functions=3, queries=20, data_functions=4, data_queries=12)
    return builder(problem, heat_data(), points=points)


def test_a_parameter_keeps_its_sign_and_one_that_starts_at_zero_need_not():
    found = Inferred({"nu": 0.05, "k": -3.0, "c": 0.0})
    assert found.values() == pytest.approx({"nu": 0.05, "k": -3.0, "c": 0.0})
    with torch.no_grad():
        found.theta.copy_(torch.tensor([-5.0, 1.0, -0.5]) / RATE)
    expected = {"nu": 0.05 * 2.718281828**-5, "k": -3 * 2.718281828, "c": -0.5}
    assert found.values() == pytest.approx(expected)
    for value in found():
        value.backward(retain_graph=True)
    moved = torch.tensor([0.05 * 2.718281828**-5, -3 * 2.718281828, 1.0]) * RATE
    torch.testing.assert_close(found.theta.grad, moved.double())


@pytest.mark.parametrize("constraints", ["auto", "soft"])
def test_the_gradient_of_a_parameter_is_the_slope_of_the_loss(builder, problem, constraints):
    points = PointsConfig(functions=3, queries=20, boundary=6, data_functions=4, data_queries=12)
    found = builder(problem, heat_data(), points=points, constraints=constraints)
    theta, batch = found.model.operator.inferred.theta, found.draw(1, 0.0)
    StepGradients(found.loss, compiled=False)(batch)
    losses = []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            theta += step
            losses.append(float(found.loss(batch)[0]["loss"]))
            theta -= step
    slope = (losses[0] - losses[1]) / 2e-6
    assert abs(slope) > 1e-4
    assert abs(float(theta.grad) - slope) < 1e-6 * abs(slope) + 1e-9


def test_parameters_of_initial_data_are_told_by_a_penalty(builder):
    text = TEXT.replace("{nu: 0.05}", "{nu: 0.05, k: 2}").replace("infer: [nu]", "infer: [k]")
    problem = Problem.from_yaml(text.replace("initial: {u: u0}", "initial: {u: k*u0}"))
    points = PointsConfig(functions=3, queries=20, boundary=6, data_functions=4, data_queries=12)
    found = builder(problem, heat_data(), points=points)
    assert found.model.constraints.lift_orders == (0,)
    assert "it depends on k, which is to be inferred" in str(next(iter(found.model.constraints)))
    batch, theta = found.draw(1, 0.0), found.model.operator.inferred.theta
    part = found.loss(batch)[0]["initial"]
    (slope,) = torch.autograd.grad(part, theta)
    with torch.no_grad():
        theta += 1e-6
        ahead = found.loss(batch)[0]["initial"]
        assert float(slope) == pytest.approx(float(ahead - part) / 1e-6, rel=1e-4)


def test_the_loss_is_that_of_the_problem_with_the_number(builder, problem):
    """At another value than the start, so that what is baked in would show."""
    points = PointsConfig(functions=3, queries=20, data_functions=4, data_queries=12)
    found = builder(problem, heat_data(), points=points)
    plain = builder(problem.at({"nu": 0.11}), heat_data(), points=points)
    plain.loss.scales.copy_(found.loss.scales)
    with torch.no_grad():
        found.model.operator.inferred.theta.fill_(math.log(0.11 / 0.05) / RATE)
    own = {k: v for k, v in found.model.operator.state_dict().items() if "inferred" not in k}
    plain.model.operator.load_state_dict(own)
    # odd steps look at the law, as training without parameters always does
    mine, theirs = (b.loss(b.draw(0, 0.0))[0] for b in (found, plain))
    for name in ("residual", "data"):
        torch.testing.assert_close(mine[name], theirs[name], rtol=1e-12, atol=0)


def test_equations_are_asked_of_the_data_and_of_the_law_in_turn(problem):
    data = heat_data()
    functions = choose_function_source(problem, data, {"u0"})
    assert isinstance(functions, AlternatingFunctions)
    odd, even = (Draws(0, step, torch.arange(4)) for step in (1, 2))
    law, seen = functions(odd, torch.float64, 0.0)
    at = torch.rand(4, 9, 1, dtype=torch.float64) * 2
    assert torch.equal(law["u0"](at), sample_inputs(problem, odd)["u0"](at))
    own, seen = functions(even, torch.float64, 0.0)
    chosen = even.integers("equations/sample", 0, 5)
    assert len(chosen.unique()) > 1
    truth = torch.cos(torch.pi * at[..., 0] + chosen[:, None])
    torch.testing.assert_close(own["u0"](at), truth, rtol=0, atol=1e-9)
    assert torch.equal(seen["u0"].values, data.inputs["u0"].values[chosen])


def test_functions_of_the_data_are_the_same_in_any_part_of_the_batch(problem):
    functions = DatasetFunctions(problem, heat_data())
    whole, _ = functions(Draws(3, 2, torch.arange(4)), torch.float64, 0.0)
    part, _ = functions(Draws(3, 2, torch.tensor([2, 3])), torch.float64, 0.0)
    at = torch.rand(1, 9, 1, dtype=torch.float64)
    assert torch.equal(whole["u0"](at)[2:], part["u0"](at))


def test_sensors_of_another_number_are_seen_alone(problem):
    """A batch keeps one shape, so that it is compiled once."""
    data = heat_data(sensors=12)
    assert isinstance(choose_function_source(problem, data, ()), DatasetFunctions)
    assert isinstance(choose_function_source(problem, data, ("u0",)), AlternatingFunctions)
    assert isinstance(choose_function_source(problem.at(), data, ()), DistributionFunctions)


def test_hidden_inputs_are_told_by_the_law_alone():
    text = TEXT.replace("inputs:", "inputs:\n  f: {of: [x], law: fourier_series, terms: 1, "
                        "amplitude: [0, 1], wavenumber: [1, 1], hidden: true}")  # fmt: skip
    found = Problem.from_yaml(text.replace("nu*dxx(u)", "nu*dxx(u) + f"))
    assert isinstance(choose_function_source(found, heat_data(), ()), DistributionFunctions)


@pytest.mark.slow
def test_training_moves_the_parameter_to_the_data(problem, tmp_path):
    """Clean data of nu = 0.08 and a start at 0.05: the network alone makes up most of the way."""
    from piop.run import fit

    sizes = {"width": 16, "blocks": 1, "heads": 2, "functions": 4, "queries": 32}
    run = fit(problem, steps=200, data=heat_data(), out=tmp_path / "r", samples=0, settings=sizes,
              device="cpu")  # fmt: skip
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    values = [row["inferred/nu"] for row in rows]
    assert abs(values[0] / 0.05 - 1) < 0.1
    assert abs(values[-1] / 0.08 - 1) < 0.2
    assert run.model.operator.inferred.values()["nu"] == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.slow
def test_compiled_and_eager_gradients_agree_as_the_parameter_moves(builder, problem):
    points = PointsConfig(functions=3, queries=20, data_functions=4, data_queries=12)
    both = [builder(problem, heat_data(), points=points) for _ in range(2)]
    steps = [StepGradients(b.loss, compiled=k == 1) for k, b in enumerate(both)]
    for move in (0.0, 0.3):
        found = []
        for b, gradients in zip(both, steps, strict=True):
            b.loss.zero_grad(set_to_none=True)
            with torch.no_grad():
                b.model.operator.inferred.theta.add_(move)
            parts, _ = gradients(b.draw(1, 0.0))
            found.append((parts["loss"], b.model.operator.inferred.theta.grad.clone()))
        for eager, compiled in zip(*found, strict=True):
            torch.testing.assert_close(compiled, eager, rtol=1e-9, atol=1e-12)


def test_one_solution_is_enough(problem, builder):
    points = PointsConfig(functions=3, queries=20, data_functions=4, data_queries=12)
    found = builder(problem, heat_data(samples=1), points=points)
    parts, _ = found.loss(found.draw(1, 0.0))
    assert all(bool(v.isfinite()) for v in parts.values())
