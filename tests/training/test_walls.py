"""Training between walls and of steady problems: hard and soft constraints, and their sizes."""

import pytest
import torch

from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.residual import compile_residual
from piop.sampling import Draws, sample_inputs
from piop.training.loss.constraints import ConditionSetting, soft_constraints
from piop.training.loss.known_functions import hard_constraint_lift
from piop.training.loss.statistics import balanced_sizes, distribution_statistics
from piop.training.operator import Operator

PLATE = """
piop: 1
name: plate
space: {x: [0, 2], y: [0, 1]}
unknowns: [u]
inputs:
  f:
    of: [x, y]
    law: gaussian_random_field
    matern: {smoothness: 4.5, length: 0.5, variance: 4}
    modes: 4
equations: ["-lap(u) = f"]
boundary: {x: {dirichlet: {u: 0}}, y.min: {dirichlet: {u: 0}}, y.max: {robin: {u: [2, 3, x]}}}
sensors: {f: {count: [6, 6], place: grid}}
save: {x: 9, y: 9}
"""
ROD = """
piop: 1
name: rod
time: {t: [0, 1]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0:
    of: [x]
    law: gaussian_random_field
    tau: 3
    alpha: 6
    scale: 1e4
    boundary: {x: dirichlet}
    modes: 4
equations: [dt(u) = 0.1*dxx(u)]
initial: {u: u0}
boundary: {x.min: {dirichlet: {u: sin(t)}}, x.max: {neumann: {u: 0}}}
sensors: {u0: {count: 9, place: grid}}
save: {t: 5, x: 17}
"""


@pytest.fixture(scope="module")
def plate():
    return Problem.from_yaml(PLATE)


@pytest.fixture(scope="module")
def rod():
    return Problem.from_yaml(ROD)


def draws(count=3):
    return Draws(0, 0, torch.arange(count))


def test_start_and_wall_hold_for_any_weights(rod, builder):
    built = builder(rod)
    functions = sample_inputs(rod, draws())
    batch = built.draw(0, 0.0)
    t = torch.rand(3, 6, 1, dtype=torch.float64)
    x = 2 * torch.rand(3, 6, 1, dtype=torch.float64)
    start = torch.cat([torch.zeros_like(t), x], -1)
    wall = torch.cat([t, torch.zeros_like(x)], -1)
    for queries, exact in ((start, functions["u0"](x)), (wall, torch.sin(t[..., 0]))):
        known = built.model.known(functions, queries)
        found = built.model.operator(batch.inputs, queries, known)[..., 0]
        assert torch.allclose(found, exact, atol=1e-12)
    inside = torch.cat([t, x], -1)
    known = built.model.known(functions, inside)
    assert (built.model.operator(batch.inputs, inside, known) - known).abs().max() > 1e-3


def test_the_distance_is_one_at_its_largest_and_zero_at_the_walls(plate):
    faces = decide_constraints(plate).hard_faces[0]
    assert faces == ("x.min", "x.max", "y.min")
    across_x, across_y = plate.domain.fixed.distance_factors(faces)
    at = torch.tensor([[[0.0, 0.0], [1.0, 0.5], [2.0, 1.0]]])
    assert across_x(at[..., :1]).flatten().tolist() == [0.0, 1.0, 0.0]
    assert across_y(at[..., 1:]).flatten().tolist() == [0.0, 0.5, 1.0]


def test_channels_have_walls_of_their_own(plate):
    both = plate.domain.fixed.distance_factors(("x.min", "x.max"))
    network = torch.nn.Module()
    network.forward = lambda inputs, q: torch.ones(*q.shape[:2], 2, dtype=q.dtype)
    operator = Operator(network, [0, 0], None, [0.0, 5.0], [1.0, 1.0], [both, ()])
    at = torch.tensor([[[0.0, 0.3], [1.0, 0.3]]], dtype=torch.float64)
    assert operator({}, at)[0].tolist() == [[0.0, 6.0], [1.0, 6.0]]


def test_streams_through_the_distance_equal_nested_reverse_mode(plate, builder):
    built = builder(plate)
    batch = built.draw(0, 0.0)
    points = batch.equations
    operator, residual = built.model.operator, built.loss.residual

    def field(queries):
        return operator(batch.inputs, queries)

    fast = residual(field, points.queries, points.input_values).values
    slow = residual.reverse(field, points.queries, points.input_values).values
    assert residual.fallback is None
    assert torch.allclose(fast, slow, atol=1e-11)


def test_what_is_a_soft_constraint_vanishes_for_what_meets_it_and_is_counted_in_its_units(plate):
    conditions = decide_constraints(plate)
    found = soft_constraints(conditions, ConditionSetting(plate, {"u": 10.0}))
    (wall,) = found.values()
    assert list(found) == ["wall/y.max"]
    queries = wall.place(draws(), 8)
    assert (queries[..., 1] == 1).all()
    values = wall.residual.evaluate_inputs({}, queries)

    def meets(q):  # 2u + 3 du/dy = x at y = 1
        return (q[..., :1] * q[..., 1:2]) / 5

    assert wall.residual(meets, queries, values).values.abs().max() < 1e-12
    units = 10.0 * (2**2 + (3 * 2 * torch.pi) ** 2) ** 0.5
    assert wall.units == pytest.approx([units])
    assert wall.misfits(torch.full((1, 1, 1), units))[0, 0, 0] == pytest.approx(1.0)


def test_an_outward_slope_points_out_on_both_sides(rod):
    text = ROD.replace("x.min: {dirichlet: {u: sin(t)}}", "x.min: {neumann: {u: 0}}")
    problem = Problem.from_yaml(text)
    found = soft_constraints(decide_constraints(problem), ConditionSetting(problem, {"u": 1.0}))
    slopes = []
    for face in ("x.min", "x.max"):
        condition = found[f"wall/{face}"]
        queries = condition.place(draws(1), 2)
        slopes.append(condition.residual(lambda q: q[..., 1:2], queries).values.unique().tolist())
    assert slopes == [[-1.0], [1.0]]


def test_nothing_is_known_where_walls_are_soft(plate):
    assert hard_constraint_lift(plate, decide_constraints(plate, "soft"), [0.0]) is None


def test_a_steady_unknown_is_as_large_as_what_drives_it_lets_it_be():
    text = PLATE.replace("y.min: {dirichlet: {u: 0}}, y.max: {robin: {u: [2, 3, x]}}",
                         "y: {dirichlet: {u: 0}}")  # fmt: skip
    problem = Problem.from_yaml(text)
    found = distribution_statistics(problem, compile_residual(problem), 0)
    rate = torch.pi**2 * (1 / 4 + 1)
    size = (found.input_std["f"] ** 2 + found.input_mean["f"] ** 2) ** 0.5
    assert found.equation_scale[0] == pytest.approx(size, rel=0.1)
    assert found.channel_scale[0] == pytest.approx(found.equation_scale[0] / rate, rel=0.05)


def test_sizes_of_a_saddle_point_balance():
    # velocity driven by a force of size 6, pressure only in its equation; mass driven by nothing
    gain = [[3.0, 2.0], [4.0, 0.0]]
    scale, equations = balanced_sizes([0.0, 0.0], [6.0, 0.0], gain)
    assert scale == [2.0, 3.0]
    assert equations == [6.0, 8.0]


def test_walls_give_the_size_where_nothing_else_does():
    scale, equations = balanced_sizes([5.0, 0.0], [0.0, 0.0], [[2.0, 4.0], [1.0, 0.0]])
    assert scale == [5.0, 2.5]
    assert equations == [10.0, 5.0]
