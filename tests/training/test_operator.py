import pytest
import sympy as sp
import torch
from torch import nn

from piop.problem import Coordinate
from piop.training.operator import Operator


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
