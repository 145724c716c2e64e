"""Training on shapes: where points are, and what conditions ask on boundaries that turn."""

from dataclasses import replace

import pytest
import sympy as sp
import torch

from piop.errors import NotSupportedError, UsageError
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.residual import evaluate_once
from piop.run import fit
from piop.sampling import Draws, boundary_points, collocation, sample_inputs
from piop.training.config import PointsConfig
from piop.training.loss.constraints import (
    ConditionExpressions,
    ConditionSetting,
    soft_constraints,
)
from piop.training.requirements import require_choices

RING = """
piop: 1
name: ring
space: {x: [-1, 1], y: [-1, 1]}
domain: {disk: [0, 0, 1], holes: {inner: {disk: [0.2, 0.1, 0.4]}, slot: {polygon: SLOT}}}
unknowns: [u]
equations: ["-lap(u) = 4"]
boundary:
  outline: CONDITION
  inner: {neumann: {u: "(2*x*(x - 0.2) + 2*y*(y - 0.1))/-0.4"}}
  slot: {dirichlet: {u: x**2 + y**2}}
save: {x: 9, y: 9}
"""
SLOT = "[[-0.7, -0.3], [-0.5, -0.3], [-0.5, 0.3]]"
CONDITIONS = {
    "neumann": '{neumann: {u: "2*sqrt(x**2 + y**2)"}}',
    "robin": '{robin: {u: [3, 2, "7"]}}',
    "general": '["dx(u)*nx + dy(u)*ny + u = 3"]',
}


def ring(kind="robin", slot=SLOT, text=RING):
    return Problem.from_yaml(text.replace("CONDITION", CONDITIONS[kind]).replace("SLOT", slot))


def values_of(condition, field, count=40):
    queries = condition.place(Draws(0, 0, torch.arange(3)), count)
    known = condition.residual.evaluate_inputs(condition.known({}), queries)
    return condition.residual(field, queries, known).values


def square(queries):
    return (queries[..., :1] * queries[..., :1]) + queries[..., 1:2] * queries[..., 1:2]


@pytest.mark.parametrize("kind", CONDITIONS)
def test_conditions_on_arcs_vanish_for_what_meets_them(kind):
    """For u = x² + y², whose slope is 2r on the circle and points into the hole on the other."""
    problem = ring(kind)
    found = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 1.0}))
    assert set(found) == {"wall/outline", "wall/inner", "wall/slot"}
    for condition in found.values():
        assert values_of(condition, square).abs().max() < 1e-12
    for name in ("wall/outline", "wall/inner"):
        assert values_of(found[name], lambda q: -square(q)).abs().max() > 0.1


@pytest.mark.parametrize("kind", CONDITIONS)
def test_conditions_on_arcs_share_one_evaluation(kind):
    """Though the coefficients of their slopes, the normals, are known on their own arcs alone."""
    problem = ring(kind)
    found = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 1.0}))
    draws = Draws(0, 0, torch.arange(3))
    places = [condition.place(draws, 5) for condition in found.values()]
    residuals = [condition.residual for condition in found.values()]
    calls = []

    def field(queries):
        calls.append(queries.shape)
        return square(queries)

    fields = evaluate_once(field, residuals, places)
    assert calls == [(3, sum(p.shape[1] for p in places), 2)]
    for condition, own, queries in zip(found.values(), fields, places, strict=True):
        known = condition.residual.evaluate_inputs(condition.known({}), queries)
        apart = condition.residual(square, queries, known).values
        assert torch.equal(condition.residual(own, queries, known).values, apart)
        assert apart.abs().max() < 1e-12


def test_a_condition_on_a_boundary_with_corners_knows_each_side():
    """A linear field has a constant slope on each side of a triangle; its mean vanishes."""
    text = RING.replace("slot: {dirichlet: {u: x**2 + y**2}}", "slot: {neumann: {u: 0}}")
    problem = ring(text=text)
    found = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 1.0}))[
        "wall/slot"
    ]
    slopes = values_of(found, lambda q: q[..., 1:2], 4000)
    unit = torch.tensor([0.2, 0.6], dtype=torch.float64)
    slanted = 0.2 / float(unit.norm())
    expected = {round(v, 6) for v in (-slanted, 0.0, 1.0)}  # out of the shape, into the hole
    assert {round(v, 6) for v in slopes.unique().tolist()} == expected
    assert abs(float(slopes.mean())) < 0.02


def test_a_straight_face_has_numbers_for_its_normal():
    problem = Problem(
        name="triangle",
        space={"x": [0, 1], "y": [0, 1]},
        domain={"polygon": [[0, 0], [1, 0], [0, 1]]},
        unknowns=["u"],
        equations=["-lap(u) = 1"],
        boundary={"outline": {"neumann": {"u": 1}}, "rest": {"robin": {"u": [2, 1, 0]}}},
    )
    found = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 1.0}))
    assert found["wall/outline"].residual.input_derivatives.entries == ()
    values = values_of(found["wall/outline"], lambda q: q[..., :1] + q[..., 1:2])
    assert torch.allclose(values, torch.full_like(values, 2**0.5 - 1))
    values = values_of(found["wall/x.min"], lambda q: q[..., :1] * 3 + 1)
    assert torch.allclose(values, torch.full_like(values, 2 * 1 - 3))


def test_the_size_of_a_condition_is_that_of_its_terms():
    problem = ring("robin")
    found = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 10.0}))
    units = 10.0 * (3**2 + (2 * torch.pi) ** 2) ** 0.5  # (2π/2)·2 = 2π, for a unit normal
    assert found["wall/outline"].units == pytest.approx([units])


def test_a_mean_is_taken_over_the_shape():
    text = RING.split("boundary:")[0].replace("= 4", "= 0")
    free = "boundary: {rest: {neumann: {u: 0}}}\ngauge: {u: {mean: 2}}\n"
    problem = ring(text=text + free)
    gauge = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 1.0}))[
        "gauge"
    ]
    points = gauge.place(Draws(0, 0, torch.arange(2)), 400)
    assert problem.domain.fixed.contains(points[0].numpy()).all()
    assert points.shape[1] == pytest.approx(400, rel=0.1)
    mean = gauge.misfits(gauge.residual(lambda q: q[..., :1] + 2, points).values)
    centre = -(torch.pi * 0.16 * 0.2 + 0.06 * (-1.7 / 3)) / problem.domain.fixed.volume
    assert float(mean[0, 0, 0]) == pytest.approx(float(centre), abs=0.01)


def test_a_step_looks_inside_and_at_every_face(builder):
    built = builder(ring("neumann"))
    batch = built.draw(0, 0.0)
    queries = batch.equations.queries
    assert built.problem.domain.fixed.contains(queries.reshape(-1, 2).numpy()).all()
    assert set(batch.conditions) == {"wall/outline", "wall/inner", "wall/slot"}
    for points in batch.conditions.values():
        away = built.problem.domain.outline.distance(points.queries.reshape(-1, 2).numpy())
        assert away.max() < 1e-12
    assert torch.isfinite(built.loss(batch)[0]["loss"])


def test_points_that_follow_the_residual_stay_inside(builder):
    points = PointsConfig(functions=2, queries=20, boundary=6, method="residual_adaptive")
    built = builder(ring(), points=points)
    queries = built.draw(0, 0.0).equations.queries
    assert queries.shape == (2, 20, 2)
    assert built.problem.domain.fixed.contains(queries.reshape(-1, 2).numpy()).all()


def test_what_fills_boxes_alone_is_refused(builder):
    points = PointsConfig(functions=2, method="latin_hypercube")
    config = replace(builder(ring()).config, points=points)
    with pytest.raises(UsageError, match="divides a box, which a shape does not fill"):
        require_choices(ring(), config, False)


def test_a_periodic_axis_of_a_shape_is_refused():
    problem = Problem(
        name="channel",
        space={"x": [0, 1], "y": [0, 1]},
        domain={"box": [[0, 1], [0, 1]], "holes": {"pin": {"disk": [0.5, 0.5, 0.2]}}},
        unknowns=["u"],
        equations=["-lap(u) = 1"],
        boundary={"x": "periodic", "rest": {"dirichlet": {"u": 0}}},
    )
    with pytest.raises(NotSupportedError, match="a periodic axis of a shape"):
        problem.capabilities.equations.require()


HARD = """
piop: 1
name: hard
space: {x: [-1, 1], y: [-1, 1]}
domain: DOMAIN
unknowns: [u]
inputs:
  f:
    of: [x, y]
    law: gaussian_random_field
    matern: {smoothness: 4.5, length: 0.5, variance: 4}
    modes: 4
equations: ["-div((1 + x**2)*grad(u)) = f"]
boundary: {rest: {dirichlet: {u: "x + f*y"}}}
sensors: {f: {count: [6, 6], place: grid}}
save: {x: 9, y: 9}
"""
DOMAINS = {
    "L": "{polygon: [[-1, -1], [1, -1], [1, 0], [0, 0], [0, 1], [-1, 1]]}",
    "ring": "{disk: [0, 0, 1], holes: {inner: {disk: [0.2, 0.1, 0.4]}}}",
    "U": "{difference: [{box: [[-1, 1], [-1, 1]]}, {box: [[-0.5, 0.5], [-0.5, 1]]}]}",
    "half moon": "{union: [{disk: [-0.3, 0, 0.7]}, {box: [[-0.3, 1], [-0.3, 0.3]]}]}",
    "hexagon": "{polygon: [[1, 0], [0.5, 0.8], [-0.5, 0.8], [-1, 0], [-0.5, -0.8], [0.5, -0.8]]}",
}


def hard(domain):
    return Problem.from_yaml(HARD.replace("DOMAIN", DOMAINS[domain]))


@pytest.mark.parametrize("domain", DOMAINS)
def test_values_around_a_shape_hold_for_any_weights(domain, builder):
    built = builder(hard(domain))
    assert set(built.loss.conditions) == set()
    draws = Draws(0, 0, torch.arange(3))
    functions = sample_inputs(built.problem, draws)
    seen = built.draw(0, 0.0).inputs
    for face in built.problem.domain.faces:
        edge = boundary_points(built.problem, draws, 30, face)
        known = built.model.known(functions, edge)
        found = built.model.operator(seen, edge, known)[..., 0]
        exact = edge[..., 0] + functions["f"](edge) * edge[..., 1]
        assert torch.allclose(found, exact, atol=1e-12)
    inside = collocation(built.problem, draws, 50)
    known = built.model.known(functions, inside)
    assert (built.model.operator(seen, inside, known) - known).abs().max() > 1e-3


@pytest.mark.parametrize("domain", DOMAINS)
def test_streams_through_the_distance_to_a_shape_equal_nested_reverse_mode(domain, builder):
    built = builder(hard(domain))
    batch = built.draw(0, 0.0)
    points = batch.equations
    operator, residual = built.model.operator, built.loss.residual

    def field(queries):
        return operator(batch.inputs, queries)

    fast = residual(field, points.queries, points.input_values).values
    slow = residual.reverse(field, points.queries, points.input_values).values
    assert residual.fallback is None
    assert torch.allclose(fast, slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("domain", DOMAINS)
def test_nothing_is_lost_on_the_boundary_and_at_corners(domain, dtype):
    """Derivatives are finite at ends of curves, and those of ordinary points are those beside."""
    problem = hard(domain)
    (factor,) = problem.domain.fixed.distance_factors(problem.domain.faces)

    def around(queries):
        return factor(queries[..., :1], queries[..., 1:], maths=torch)

    curves = problem.domain.outline.curves
    ends = torch.tensor([c.at(0.0).tolist() for c in curves], dtype=dtype)[None]
    residual = ConditionSetting(problem, {}).compile(ConditionExpressions([laplacian(problem)]))[0]
    assert torch.isfinite(residual(around, ends).values).all()
    assert residual.fallback is None
    edge = torch.tensor([c.at(0.4).tolist() for c in curves], dtype=torch.float64)[None]
    along = torch.tensor([c.direction(0.4).tolist() for c in curves], dtype=torch.float64)[None]
    inward = torch.stack([-along[..., 1], along[..., 0]], -1)
    on, beside = (residual(around, edge + h * inward).values for h in (0.0, 1e-6))
    assert torch.allclose(on, beside, rtol=1e-3, atol=1e-3)


def laplacian(problem):
    u = problem.function("u")
    return sum(sp.Derivative(u, c.symbol, 2) for c in problem.space)


def test_channels_differ_in_their_hard_constraints(builder):
    problem = Problem(
        name="two",
        space={"x": [-1, 1], "y": [-1, 1]},
        domain={"disk": [0, 0, 1]},
        unknowns=["u", "v"],
        equations=["-lap(u) = 1", "v - lap(v) = u"],
        boundary={"rest": [{"dirichlet": {"u": "x"}}, {"neumann": {"v": 0}}]},
    )
    built = builder(problem)
    assert set(built.loss.conditions) == {"wall/outline"}
    edge = boundary_points(problem, Draws(0, 0, torch.arange(3)), 8, "outline")
    found = built.model.operator({}, edge, built.model.known({}, edge))
    assert torch.allclose(found[..., 0], edge[..., 0], atol=1e-13)
    assert found[..., 1].abs().min() > 0
    assert torch.isfinite(built.loss(built.draw(0, 0.0))[0]["loss"])


TORSION = """
piop: 1
name: torsion
space: {x: [-1, 1], y: [-1, 1]}
domain: {disk: [0, 0, 1]}
unknowns: [u]
equations: ["-lap(u) = 1"]
boundary: {rest: CONDITION}
save: {x: 9, y: 9}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "steps", "much"),
    [("{dirichlet: {u: 0}}", 60, 0.02), ("{robin: {u: [1, 1, 0]}}", 150, 0.15)],
)
def test_a_disk_in_torsion_is_learned(condition, steps, much, tmp_path):
    """u = (1 − r²)/4, or with u + ∂u/∂n = 0 half more; errors are those of its own reference."""
    problem = Problem.from_yaml(TORSION.replace("CONDITION", condition))
    settings = {"width": 16, "blocks": 1, "heads": 2, "functions": 1, "queries": 64}
    settings |= {"boundary": 32} if "robin" in condition else {}
    run = fit(problem, steps=steps, compile=False, settings=settings, out=tmp_path / "run")
    assert run.evaluate(1)["relative_l2"]["mean"] < much
    points = collocation(problem, Draws(5, 0, torch.arange(1)), 50)
    found = run.predict({}, at=points[0].numpy())["u"].values[0]
    r2 = points[0].square().sum(-1).numpy()
    exact = (1 - r2) / 4 + (0.5 if "robin" in condition else 0)
    assert ((found - exact) ** 2).sum() ** 0.5 < 1.5 * much * (exact**2).sum() ** 0.5
