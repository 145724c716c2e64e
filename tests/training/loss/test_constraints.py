import pytest
import sympy as sp
import torch

from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.sampling import Draws, sample_inputs
from piop.training.loss.constraints import ConditionSetting, soft_constraints
from piop.training.loss.known_functions import hard_constraint_lift, known_field


def draws(count=2):
    return Draws(0, 0, torch.arange(count))


def test_known_fields_equal_their_functions_and_derivatives(heat):
    x = heat.coordinate("x").symbol
    t = heat.coordinate("t").symbol
    u0 = heat.function("u0")
    functions = sample_inputs(heat, draws())
    queries = torch.rand(2, 5, 2, dtype=torch.float64) + 1
    known = known_field(heat, [u0 * t, sp.diff(u0, x), sp.Float(3)])
    found = known(functions, queries)
    f, points = functions["u0"], queries[..., 1:]
    assert torch.allclose(found[..., 0], f(points) * queries[..., 0])
    assert torch.allclose(found[..., 1], f.derivative(points, (1,)))
    assert (found[..., 2] == 3).all()
    assert known.names == ("u0",)


def test_no_lift_is_added_when_all_is_soft(heat):
    assert hard_constraint_lift(heat, decide_constraints(heat, "soft"), [0.0]) is None


def test_initial_points_lie_at_the_start(heat):
    found = soft_constraints(decide_constraints(heat, "soft"), ConditionSetting(heat, {"u": 2.0}))
    points = found["initial"].place(draws(), 7)
    assert points.shape == (2, 7, 2)
    assert (points[..., 0] == 1).all()


def test_initial_misfits_are_measured_in_units_of_the_channel(heat):
    found = soft_constraints(decide_constraints(heat, "soft"), ConditionSetting(heat, {"u": 2.0}))
    assert found["initial"].misfits(torch.tensor([[[4.0]]])).tolist() == [[[2.0]]]


def test_periodic_points_are_the_same_at_both_ends(heat):
    found = soft_constraints(decide_constraints(heat, "soft"), ConditionSetting(heat, {"u": 2.0}))
    points = found["periodic/x"].place(draws(), 5)
    left, right = points.chunk(2, dim=1)
    assert torch.equal(left[..., 0], right[..., 0])
    assert (left[..., 1] == 0).all()
    assert (right[..., 1] == 2).all()


def test_periodic_misfits_compare_values_and_slopes_of_the_ends(heat):
    condition = soft_constraints(
        decide_constraints(heat, "soft"), ConditionSetting(heat, {"u": 2.0})
    )["periodic/x"]
    values = torch.tensor([[[3.0, 1.0], [1.0, 1.0 - 2 * torch.pi]]])
    # value: (3 - 1)/2 = 1; slope: 2π over the unit scale·2π/L = 2π
    assert condition.misfits(values).square().sum().item() == pytest.approx(2.0)


def test_hard_conditions_have_no_penalty(heat):
    assert (
        soft_constraints(decide_constraints(heat, "auto"), ConditionSetting(heat, {"u": 1.0})) == {}
    )


def test_a_gauge_compares_means_over_space_at_one_time():
    flow = Problem.from_file("navier_stokes")
    scales = {"w": 1.0, "psi": 2.0}
    gauge = soft_constraints(decide_constraints(flow), ConditionSetting(flow, scales))["gauge"]
    points = gauge.place(draws(), 16)
    assert points.shape == (2, 16, 3)
    assert (points[..., 0] == points[:, :1, 0]).all()
    assert points[0, 0, 0] != points[1, 0, 0]
    waves = torch.cos(2 * torch.pi * points[..., 1:2]) + 4.0
    assert torch.allclose(gauge.misfits(waves).square().sum(-1), torch.full((2, 1), 4.0).double())
