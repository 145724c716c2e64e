"""Inputs that the page defines become the functions they say, or one clear message."""

import json

import pytest
import torch

from piop.errors import PiopError
from piop.explore.page_inputs import PAGE, Draw, coefficients, drawn_axes, read_inputs
from piop.fields import tensor_grid
from piop.problem import Problem
from piop.sampling import Draws, sample_inputs
from piop.sampling.distributions import input_axes, input_sampler

FIELD = {
    "name": "plane",
    "space": {"x": [0, 1], "y": [0, 2]},
    "unknowns": ["u"],
    "parameters": {"k": {"law": "log_uniform", "low": 0.1, "high": 10}},
    "inputs": {"f": {"of": ["x", "y"], "law": "gaussian_random_field", "tau": 3, "alpha": 3,
                     "modes": 4}},
    "equations": ["-k*lap(u) = f"],
    "boundary": {"x": {"dirichlet": {"u": 0}}, "y": {"dirichlet": {"u": 0}}},
    "sensors": {"f": {"count": 30, "place": "uniform"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def plane():
    return Problem(**FIELD)


@pytest.fixture(scope="module")
def draw(plane):
    return Draw(plane)


@pytest.fixture
def read(plane, draw):
    def reads(f, k=None, sensors=None):
        number = {"kind": "number", "value": 2.0} if k is None else k
        return read_inputs(plane, draw, {"f": f, "k": number}, sensors)

    return reads


def grid(plane, name="f"):
    item = next(i for i in plane.inputs if i.name == name)
    return tensor_grid(drawn_axes(input_axes(plane, item)))[None]


def field(plane):
    return next(i for i in plane.inputs if i.name == "f")


def test_a_draw_is_one_of_the_distribution_and_no_sample_of_training(plane, read):
    found = read({"kind": "draw", "seed": 5}).functions()
    expected = sample_inputs(plane, Draws.of(PAGE, 5, [0]))
    at = grid(plane)
    assert torch.equal(found["f"](at), expected["f"](at))
    assert not torch.equal(
        found["f"](at), sample_inputs(plane, Draws(5, 0, torch.arange(1)))["f"](at)
    )
    assert float(found["k"].values) == 2.0


def test_values_of_a_draw_within_its_waves_give_the_draw_back(plane, read, draw):
    at, drawn = grid(plane), draw(1)["f"]
    values = drawn(at)[0].tolist()
    found = read({"kind": "values", "values": values, "within": True}).functions()["f"]
    torch.testing.assert_close(found.coefficients, drawn.coefficients, atol=1e-8, rtol=1e-6)


def test_values_within_waves_are_the_nearest_that_can_be_drawn(plane, read):
    at, noise = grid(plane), torch.randn(1, 33 * 33, generator=torch.Generator().manual_seed(0))
    given = {"kind": "values", "values": noise[0].tolist(), "within": True}
    nearest = read(given).functions()["f"](at)
    again = {"kind": "values", "values": nearest[0].tolist(), "within": True}
    assert (nearest - noise).norm() < noise.norm()
    torch.testing.assert_close(read(again).functions()["f"](at), nearest, atol=1e-6, rtol=1e-6)
    free = read(given | {"within": False}).functions()["f"](at)
    torch.testing.assert_close(free, noise.double(), atol=1e-5, rtol=1e-5)


def test_a_changed_wave_changes_one_coefficient(plane, read, draw):
    base = {"kind": "draw", "seed": 3}
    found = read({"kind": "waves", "base": base, "changes": {"7": 0.25}}).functions()["f"]
    own, before = found.coefficients.flatten(), draw(3)["f"].coefficients.flatten()
    assert float(own[7]) == 0.25
    keep = torch.arange(len(own)) != 7
    assert torch.equal(own[keep], before[keep])
    assert (
        input_sampler(plane, field(plane)).spectrum().variance.shape == found.coefficients[0].shape
    )


def test_coefficients_of_any_function_are_its_projection(plane, read, draw):
    at, drawn = grid(plane), draw(1)["f"]
    free = {"kind": "values", "values": drawn(at)[0].tolist(), "within": False}
    found = coefficients(plane, field(plane), read(free).functions()["f"])
    torch.testing.assert_close(found, drawn.coefficients[0], atol=1e-5, rtol=1e-3)


def test_measured_sensors_are_observed_as_they_are(plane, read):
    points = [[0.1, 0.2], [0.5, 1.5], [0.9, 1.0]]
    own = read({"kind": "sensors", "points": points, "values": [1.0, -2.0, 3.0]})
    found = own.observe(own.functions())["f"]
    assert found.points[0].tolist() == points
    assert found.values.flatten().tolist() == [1.0, -2.0, 3.0]
    assert own.edited_sensors


def test_sensors_are_those_of_the_spec_or_those_given(plane, read):
    drawn = {"kind": "draw", "seed": 0}
    own = read(drawn)
    assert own.observe(own.functions())["f"].points.shape == (1, 30, 2)
    assert not own.edited_sensors
    moved = read(drawn, sensors={"f": {"points": [[0.25, 0.5]]}})
    functions = moved.functions()
    found = moved.observe(functions)["f"]
    assert moved.edited_sensors
    assert found.values.item() == functions["f"](found.points).item()
    other = read(drawn, sensors={"f": {"seed": 1}})
    assert not torch.equal(other.observe(functions)["f"].points, own.observe(functions)["f"].points)


MANY = [0.0] * 4097


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (None, "inputs.f: None is not a mapping"),
        ({"kind": "file", "path": "/etc/passwd"}, "inputs.f.kind: 'file' is not one of draw"),
        ({"kind": ["draw"]}, "is not one of draw"),
        ({"kind": "draw"}, "inputs.f.seed: None is not a whole number"),
        ({"kind": "draw", "seed": 2**32}, "inputs.f.seed"),
        ({"kind": "draw", "seed": True}, "inputs.f.seed"),
        ({"kind": "draw", "seed": 1, "path": "x"}, "'path' is not one of seed"),
        ({"kind": "values", "values": [1.0]}, "1 painted values; expected 1089 values on a grid"),
        ({"kind": "values", "values": MANY}, "inputs.f.values: has 4097 numbers"),
        ({"kind": "values", "values": []}, "inputs.f.values: has 0 numbers"),
        ({"kind": "values", "values": "0123"}, "inputs.f.values: '0123' is not a list"),
        ({"kind": "values", "values": [float("nan")]}, "inputs.f.values[0]: nan is not a finite"),
        ({"kind": "values", "values": [1e13]}, "is larger than 1e+12"),
        ({"kind": "values", "values": [1.0], "within": 1}, "inputs.f.within: 1 is neither"),
        ({"kind": "waves", "base": {"kind": "draw", "seed": 0}, "changes": {"x": 1}}, "'x' is not"),
        ({"kind": "waves", "base": {"kind": "draw", "seed": 0}, "changes": {"99999": 1}},
         "has no wave 99999; its distribution has 25"),
        ({"kind": "waves", "base": {"kind": "draw", "seed": 0},
          "changes": {str(i): 0 for i in range(17)}}, "has 17 waves; at most 16"),
        ({"kind": "waves", "changes": {},
          "base": {"kind": "waves", "base": {"kind": "draw", "seed": 0}, "changes": {}}},
         "waves of waves"),
        ({"kind": "number", "value": 1.0}, "is a function of x, y, not a number"),
        ({"kind": "sensors", "points": [[0, 0]], "values": [1, 2]}, "has 1 points and 2 values"),
        ({"kind": "sensors", "points": [[0]], "values": [1]}, "has 1 coordinates; expected 2"),
        ({"kind": "sensors", "points": [], "values": [1]}, "has 0 sensors"),
        ({"kind": "sensors", "points": [[0, 0]] * 4097, "values": MANY}, "has 4097 sensors"),
    ],
)  # fmt: skip
def test_what_is_no_definition_is_refused_with_its_place(definition, message, read):
    with pytest.raises(PiopError) as error:
        read(definition).functions()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_waves_are_refused_where_the_distribution_has_none(plane, draw):
    given = {"kind": "waves", "base": {"kind": "number", "value": 1}, "changes": {}}
    with pytest.raises(PiopError, match="'k': its distribution is not stated by waves"):
        read_inputs(plane, draw, {"f": {"kind": "draw", "seed": 0}, "k": given}, None).functions()
    painted = {"kind": "values", "values": [1.0]}
    with pytest.raises(PiopError, match="expected a number, without coordinates"):
        read_inputs(plane, draw, {"f": {"kind": "draw", "seed": 0}, "k": painted}, None).functions()


@pytest.mark.parametrize(
    ("inputs", "sensors", "message"),
    [
        ([], None, "inputs: [] is not a mapping"),
        ({}, None, "inputs: 'k' is missing"),
        ({"g": 1}, None, "inputs: 'g' is not an input"),
        ({"k": {"kind": "number", "value": 1}}, {"g": {}}, "sensors: 'g' is not an input"),
        ({"k": {"kind": "number", "value": 1}}, {"f": 3}, "sensors.f: 3 is not a mapping"),
        ({"k": {"kind": "number", "value": 1}}, {"f": {"file": 3}}, "'file' is not one of"),
        ({"k": {"kind": "number", "value": 1}}, {"f": {"seed": -1}}, "sensors.f.seed"),
    ],
)
def test_names_are_checked(inputs, sensors, message, plane, draw):
    if isinstance(inputs, dict) and inputs:
        inputs = {"f": {"kind": "draw", "seed": 0}} | inputs
    with pytest.raises(PiopError) as error:
        read_inputs(plane, draw, inputs, sensors)
    assert message in str(error.value)


def test_definitions_survive_json(read, plane):
    given = json.loads(json.dumps({"kind": "draw", "seed": 4}))
    assert torch.equal(
        read(given).functions()["f"](grid(plane)),
        read({"kind": "draw", "seed": 4}).functions()["f"](grid(plane)),
    )
