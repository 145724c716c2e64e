"""Queries that all functions of a batch share give what the same queries for each would."""

import warnings

import pytest
import torch

from piop.models import BACKBONES, AxisSignature, InputSignature, Signature, build_backbone
from piop.problem import Problem
from piop.residual import compile_residual
from piop.sampling import Draws, collocation, observe, sample_inputs

EXACT = 1e-12  # float64: reordered sums alone
NETWORKS = [name for name, own in BACKBONES.items() if own["default"].build.field.pointwise]
FORCED = """
piop: 1
name: forced
time: {t: [0, 1]}
space: {x: [0, 2]}
unknowns: [u, v]
parameters: {nu: {law: uniform, low: 0.01, high: 0.1}}
inputs:
  f: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
  a: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations:
  - dt(u) = COEFFICIENT*dxx(u) + u*dx(v) + f + sin(pi*x)
  - dt(v) = 0.1*dxx(v) + dx(f)*u + nu + a
initial: {u: f, v: 0}
boundary: {x: periodic}
"""
PROBLEMS = {
    "burgers": lambda: Problem.from_file("burgers"),
    "reaction_diffusion": lambda: Problem.from_file("reaction_diffusion"),
    "navier_stokes": lambda: Problem.from_file("navier_stokes"),
    "number before the highest derivative": lambda: forced("0.2"),
    "a coefficient of each function": lambda: forced("nu"),
    "a coefficient that varies": lambda: forced("(2 + a)*nu"),
    "one stream with a coefficient that varies": lambda: forced("(2 + a)*nu", "(2 + a)*nu"),
    "the same from constants": lambda: forced("(2 + a)*nu", "(2 + a)*nu", start="0.5"),
}


def forced(coefficient, second="0.1", start="f"):
    text = FORCED.replace("COEFFICIENT", coefficient).replace("0.1*dxx", f"{second}*dxx")
    return Problem.from_yaml(text.replace("initial: {u: f", f"initial: {{u: {start}"))


def setting(problem, batch=3, count=5):
    """Functions of the law, what is seen of them, and points of their own."""
    draws = Draws(0, 1, torch.arange(batch))
    functions = sample_inputs(problem, draws)
    queries = collocation(problem, Draws(0, 1, torch.zeros(1, dtype=torch.int64)), count)
    return functions, observe(functions, problem, draws), queries


def network_for(problem, name):
    signature = Signature(
        tuple(AxisSignature(c.name, c.low, c.high, c.periodic) for c in problem.coordinates),
        tuple(InputSignature(i.name, i.of) for i in problem.visible_inputs),
        len(problem.channels),
        0,
        tuple(c.name for c in problem.space),
    )
    torch.manual_seed(0)
    return build_backbone(name, signature, width=16).double()


def residuals(residual, lift, model, functions, seen, queries, evaluate):
    """Residual with hard initial data, and the gradient of its mean square."""
    rows = lift(functions, queries)

    def field(q):
        return lift.attach(rows, q) + q[..., :1] * model(seen, q)

    found = evaluate(residual)(field, queries, residual.evaluate_inputs(functions, queries))
    gradients = torch.autograd.grad(found.values.square().mean(), list(model.parameters()),
                                    allow_unused=True)  # fmt: skip
    return found, [torch.zeros(1) if g is None else g for g in gradients]


@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_shared_queries_give_the_residuals_of_each_functions_own(name, case):
    problem = PROBLEMS[case]()
    functions, seen, queries = setting(problem)
    model = network_for(problem, name)
    residual = compile_residual(problem)
    lift = residual.compile_lift(
        [problem.initial[c][0] if c in problem.initial else None for c in problem.channels]
    )
    own = queries.expand(3, -1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        args = (residual, lift, model, functions, seen)
        shared, slopes = residuals(*args, queries, lambda r: r)
        each, expected = residuals(*args, own, lambda r: r)
    assert residual.fallback is None
    assert shared.values.shape == (3, 5, len(problem.residuals))
    assert (shared.values - each.values).abs().max() < EXACT * (1 + each.values.abs().max())
    assert shared.derivatives.keys() == each.derivatives.keys()
    for key, value in shared.derivatives.items():
        assert (value - each.derivatives[key]).abs().max() < EXACT * (1 + value.abs().max()), key
    for a, b in zip(slopes, expected, strict=True):
        assert (a - b).abs().max() < EXACT * (1 + b.abs().max())


@pytest.mark.parametrize("case", ["reaction_diffusion", "a coefficient of each function"])
def test_reverse_mode_does_not_add_up_the_slopes_of_functions_that_share_queries(case):
    problem = PROBLEMS[case]()
    functions, seen, queries = setting(problem)
    model, residual = network_for(problem, "deeponet"), compile_residual(problem)
    known = residual.evaluate_inputs(functions, queries)

    def field(q):
        return model(seen, q)

    slow = residual.reverse(field, queries, known).values
    fast = residual(field, queries, known).values
    assert (slow - fast).abs().max() < 1e-9 * (1 + fast.abs().max())


def test_a_trunk_sees_shared_queries_once():
    problem = PROBLEMS["reaction_diffusion"]()
    functions, seen, queries = setting(problem)
    model, residual = network_for(problem, "deeponet"), compile_residual(problem)
    shapes = []
    model.trunk[1].register_forward_pre_hook(lambda _, args: shapes.append(tuple(args[0].shape)))
    residual(lambda q: model(seen, q), queries, residual.evaluate_inputs(functions, queries))
    assert shapes == [(1, 5, 16)]


def test_a_field_of_the_wrong_batch_is_refused():
    problem = PROBLEMS["burgers"]()
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"\(3, 5, 1\); expected \(2, 5, 1\)"):
        compile_residual(problem)(
            lambda q: torch.sin(q[:1, :, :1]) * torch.ones(3, 1, 1, dtype=torch.float64), queries
        )
