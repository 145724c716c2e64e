"""Changed inputs are functions with derivatives, and sensors see the change."""

import math

import pytest
import torch

from piop.problem import Problem


@pytest.fixture
def burgers():
    return Problem.from_file("burgers")


def test_a_change_of_the_function_is_what_sensors_see(load, burgers):
    script = load("typicality")
    functions = burgers.sample(3, seed=1)
    seen = script.see(burgers, functions, 3)
    points, values = seen["u0"].points, seen["u0"].values[..., 0]
    changes = script.changes(burgers)
    changed, found = changes["twice the amplitude"](functions, seen)
    torch.testing.assert_close(found["u0"].values[..., 0], 2 * values - values.mean())
    torch.testing.assert_close(changed["u0"](points), found["u0"].values[..., 0])
    changed, found = changes["twice the wave number"](functions, seen)
    double = (2 * points).remainder(2 * math.pi)
    torch.testing.assert_close(found["u0"].values[..., 0], functions["u0"](double))
    torch.testing.assert_close(
        changed["u0"].derivative(points, (2,)), 4 * functions["u0"].derivative(double, (2,))
    )


def test_noise_changes_what_sensors_see_but_not_the_function(load, burgers):
    script = load("typicality")
    functions = burgers.sample(3, seed=1)
    seen = script.see(burgers, functions, 3)
    changed, found = script.changes(burgers)["one sensor off"](functions, seen)
    assert changed["u0"] is functions["u0"]
    differs = found["u0"].values != seen["u0"].values
    assert differs.sum((1, 2)).tolist() == [1, 1, 1]
    assert not (seen["u0"].values - functions["u0"](seen["u0"].points)[..., None]).any()
