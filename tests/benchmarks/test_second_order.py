"""Gauss-Newton: derivatives per residual are those of plain reverse mode, and steps solve."""

import pytest
import torch
from torch import nn

from piop.problem import Problem
from tests.small_heat import HEAT

BURGERS = HEAT.replace("dt(u) =", "dt(u) + u*dx(u) =")


@pytest.fixture
def case(load):
    return load("second_order").build_case(Problem.from_yaml(BURGERS), seed=0)


def test_rows_of_the_jacobian_are_gradients_of_the_residuals_of_the_loss(load, case):
    steps = load("gauss_newton")
    batch = case.draw(functions=3, queries=4)(0, 0.0)
    worst = steps.check_jacobian(case.loss, batch, rows=range(12))
    assert worst < 1e-5  # float32
    parameters = {p for p in case.loss.operator.parameters() if p.requires_grad}
    _, jacobians = steps.jacobian(case.loss, steps.spread(batch))
    assert {p for p, _ in jacobians} == parameters  # none is left out


def test_layers_of_queries_need_no_copies_of_the_sensors(load, case):
    steps = load("gauss_newton")
    batch = case.draw(functions=3, queries=4)(0, 0.0)
    last = [case.loss.operator.backbone.decoder[-1]]
    _, together = steps.jacobian(case.loss, batch, last)
    _, apart = steps.jacobian(case.loss, steps.spread(batch), last)
    for (_, a), (_, b) in zip(together, apart, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_step_solves_a_linear_least_squares_problem(load, case, monkeypatch, momentum):
    """With little damping the residual r = Aw − b of fewer rows than weights vanishes at once."""
    steps = load("gauss_newton")
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    b = torch.randn(5, generator=generator, dtype=torch.float64)
    weights = nn.Parameter(torch.zeros(8, dtype=torch.float64))
    monkeypatch.setattr(steps, "spread", lambda batch: batch)
    monkeypatch.setattr(steps, "jacobian", lambda *_: (a @ weights.detach() - b, [(weights, a)]))
    config = steps.GaussNewtonConfig(damping=1e-12, momentum=momentum)
    optimiser = steps.GaussNewton(case.loss, config)
    assert optimiser.step(None, rate=1.0) == pytest.approx(float(b.square().sum()))
    torch.testing.assert_close(a @ weights.detach(), b)
    expected = torch.linalg.lstsq(a, b).solution  # the smallest of all solutions
    torch.testing.assert_close(weights.detach(), expected)


def test_momentum_moves_on_along_what_the_batch_does_not_determine(load, case, monkeypatch):
    steps = load("gauss_newton")
    rows = [torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])]
    weights = nn.Parameter(torch.zeros(2))
    batches = iter(rows)
    monkeypatch.setattr(steps, "spread", lambda batch: batch)
    monkeypatch.setattr(
        steps, "jacobian", lambda *_: (torch.tensor([-1.0]), [(weights, next(batches))])
    )
    optimiser = steps.GaussNewton(case.loss, steps.GaussNewtonConfig(damping=1e-9, momentum=0.5))
    optimiser.step(None, 1.0)
    optimiser.step(None, 1.0)
    torch.testing.assert_close(weights.detach(), torch.tensor([1.5, 1.0]))


def test_the_last_layer_of_a_linear_equation_is_solved_by_least_squares(load):
    steps = load("gauss_newton")
    problem = Problem.from_yaml(HEAT)
    case = load("second_order").build_case(problem, 0, {"linear_part": "learned"})
    draw = case.draw(functions=8)
    batches = [draw(step, 0.0) for step in range(3)]

    def total():
        with torch.no_grad():
            return sum(float(steps.residuals(case.loss, b).square().sum()) for b in batches)

    before = total()
    assert steps.solve_last_layer(case.loss, batches, batches) is not None
    assert total() < 1e-4 * before  # two waves, more weights than their residuals need


def test_layers_without_a_rule_are_refused(load, case):
    steps = load("gauss_newton")
    batch = steps.spread(case.draw(functions=2, queries=2)(0, 0.0))
    with pytest.raises(ValueError, match="LayerNorm"):
        steps.jacobian(case.loss, batch, [nn.LayerNorm(3)])


def test_a_step_follows_the_schedule_of_the_recipe(load, case):
    """At the end of the budget the step size is zero: weights stay."""
    steps = load("gauss_newton")
    step = load("second_order").gauss_newton(case, steps.GaussNewtonConfig(functions=2, points=2))
    before = [p.detach().clone() for p in case.loss.operator.parameters()]

    def moved():
        after = case.loss.operator.parameters()
        return any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))

    step(0, 1.0)
    assert not moved()
    step(1, 0.5)
    assert moved()


@pytest.mark.parametrize("name", ["burgers", "diffusion_reaction", "heat2d", "kdv"])
def test_every_problem_is_trained_on_residuals_at_points(load, name):
    study = load("second_order")
    assert name in study.PROBLEMS
    problem = load("specs").plain(name)
    case = study.build_case(problem, 0, study.settings_of(study.SOAP, problem))
    assert case.loss.residual.grid is None
    assert case.model.rollout is None  # one window
    plain = load("gauss_newton").spread(case.draw(functions=2, queries=2)(0, 0.0))
    assert len(plain.equations.queries) == 4


def test_rows_differ_by_their_settings_alone(load):
    study = load("second_order")
    kdv = load("specs").plain("kdv")
    assert study.settings_of(study.DEFAULT_FORM, kdv) == {}
    points = study.settings_of(study.SOAP, kdv)
    assert points["form"] == "strong"
    batches = study.settings_of(study.SAME_BATCHES, kdv)
    assert batches == {**points, "functions": 64, "queries": 4}
