"""Nodes along an axis: exact for the functions that they stand for."""

import math

import pytest
import torch

from piop.problem import Problem
from piop.residual.linearised.axis_nodes import SHIFT, IntervalNodes, PeriodicNodes

LOW, LENGTH = -1.0, 3.0


def axis_of(boundary):
    (axis,) = Problem(
        name="example",
        time={"t": [0, 1]},
        space={"x": [LOW, LOW + LENGTH]},
        unknowns=["u"],
        equations=["dt(u) = dxx(u)"],
        initial={"u": 0},
        boundary={"x": boundary},
    ).space
    return axis


def drawn(*fractions):
    return LOW + LENGTH * torch.tensor(fractions, dtype=torch.float64)[:, None]


def smooth(x):
    return torch.exp(0.3 * x) * torch.sin(x)


def slope(x):
    return torch.exp(0.3 * x) * (0.3 * torch.sin(x) + torch.cos(x))


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9])
def test_nodes_between_walls_interpolate_and_differentiate_smooth_functions(fraction):
    nodes = IntervalNodes(axis_of({"neumann": {"u": 0}}), 21)
    places = nodes.places(drawn(fraction))
    assert places[0, [0, -1]].tolist() == [LOW, LOW + LENGTH]
    assert (places.diff(dim=1) > 0).all()
    middle = float((places[0, 10] - LOW) / LENGTH)
    kappa = math.exp(2 * SHIFT * (fraction - 0.5))
    assert middle == pytest.approx(0.5 / (0.5 + 0.5 * kappa))
    one, first, second = nodes.derivatives(places, 2)[0]
    assert torch.equal(one, torch.eye(21, dtype=torch.float64))
    torch.testing.assert_close(first @ smooth(places[0]), slope(places[0]), rtol=0, atol=1e-9)
    torch.testing.assert_close(second, first @ first)
    at = torch.linspace(LOW, LOW + LENGTH, 40, dtype=torch.float64)
    found = nodes.weights(places[0], at) @ smooth(places[0])
    torch.testing.assert_close(found, smooth(at), rtol=0, atol=1e-10)
    itself = nodes.weights(places[0], places[0])
    torch.testing.assert_close(itself, torch.eye(21, dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("count", [12, 13])
def test_periodic_nodes_are_exact_for_waves(count):
    nodes = PeriodicNodes(axis_of("periodic"), count)
    places = nodes.places(drawn(0.77, 0.1))
    assert ((places >= LOW) & (places < LOW + LENGTH)).all()
    rate = 2 * math.pi / LENGTH
    for wave in (1, 3, 5):
        values = torch.sin(wave * rate * places + 0.4)
        zeroth, first, second, third = (
            (power @ values[..., None])[..., 0] for power in nodes.derivatives(places, 3).unbind(1)
        )
        size = wave * rate
        torch.testing.assert_close(zeroth, values)
        torch.testing.assert_close(first, size * torch.cos(wave * rate * places + 0.4))
        torch.testing.assert_close(second, -(size**2) * values)
        torch.testing.assert_close(third, -(size**3) * torch.cos(wave * rate * places + 0.4))
        at = torch.linspace(LOW, LOW + LENGTH, 31, dtype=torch.float64)
        found = nodes.weights(places[0], at) @ values[0]
        torch.testing.assert_close(found, torch.sin(wave * rate * at + 0.4))
