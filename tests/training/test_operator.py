import pytest
import sympy as sp
import torch
from torch import nn

from piop.problem import Coordinate, Problem
from piop.training.operator import Operator, Potential
from tests.training.steps import BURGERS


class Constant(nn.Module):
    """A backbone that answers one everywhere, in every channel."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels

    def forward(self, inputs, queries):
        return torch.ones(*queries.shape[:2], self.channels, dtype=queries.dtype)


QUERIES = torch.tensor([[[1.0, 0.3], [2.0, 0.3], [3.0, 0.3]]], dtype=torch.float64)
TIME = Coordinate("t", sp.Symbol("t", real=True), low=1.0, high=3.0)


def test_hard_initial_data_hold_exactly_and_the_network_grows_from_it():
    operator = Operator(Constant(1), [1], TIME, mean=[0.0], scale=[4.0])
    lift = torch.full((1, 3, 1), 7.0, dtype=torch.float64)
    assert operator({}, QUERIES, lift)[0, :, 0].tolist() == [7.0, 9.0, 11.0]


def test_second_order_in_time_grows_quadratically():
    operator = Operator(Constant(1), [2], TIME, mean=[0.0], scale=[4.0])
    lift = torch.zeros(1, 3, 1, dtype=torch.float64)
    assert operator({}, QUERIES, lift)[0, :, 0].tolist() == [0.0, 1.0, 4.0]


def test_each_channel_has_its_own_order():
    operator = Operator(Constant(3), [0, 1, 2], TIME, mean=[0.0] * 3, scale=[1.0, 2.0, 4.0])
    lift = torch.zeros(1, 3, 3, dtype=torch.float64)
    assert operator({}, QUERIES, lift)[0, 1].tolist() == [1.0, 1.0, 1.0]
    assert operator({}, QUERIES, lift)[0, 0].tolist() == [1.0, 0.0, 0.0]


def test_without_hard_constraints_the_mean_is_added():
    operator = Operator(Constant(1), [0], TIME, mean=[5.0], scale=[2.0])
    assert operator({}, QUERIES)[0, :, 0].tolist() == [7.0, 7.0, 7.0]


def test_the_sizes_travel_with_the_weights():
    first = Operator(Constant(1), [0], None, mean=[5.0], scale=[2.0])
    second = Operator(Constant(1), [0], None, mean=[0.0], scale=[1.0])
    second.load_state_dict(first.state_dict())
    assert second({}, QUERIES)[0, 0, 0] == pytest.approx(7.0)


class Wave(nn.Module):
    """A backbone with a known slope: sin 2πx + t² cos 4πx."""

    def forward(self, inputs, queries):
        t, x = queries[..., :1], 2 * torch.pi * queries[..., 1:]
        return torch.sin(x) + t * t * torch.cos(2 * x)


def test_an_operator_with_a_potential_adds_its_slope():
    """u = lift + ∂/∂x of τ · scale · L/2π · backbone."""
    problem = Problem.from_yaml(BURGERS)
    operator = Operator(Wave(), [1], problem.time, mean=[0.0], scale=[3.0])
    operator.potential = Potential.of(problem)
    t, x = torch.rand(2, 1, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turn = 2 * torch.pi * x
    length = 2.0  # of the axis
    wave, slope = (
        torch.sin(turn) + t**2 * torch.cos(2 * turn),
        2 * torch.pi * (torch.cos(turn) - 2 * t**2 * torch.sin(2 * turn)),
    )
    queries = torch.cat([t, x], -1)
    factor = 3.0 * t * length / (2 * torch.pi)
    lift = torch.full((1, 5, 1), 7.0, dtype=torch.float64)
    torch.testing.assert_close(operator({}, queries, lift), 7.0 + factor * slope)
    torch.testing.assert_close(operator.differentiated({}, queries), factor * wave)
    torch.testing.assert_close(operator({}, queries), factor * slope)
