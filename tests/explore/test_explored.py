"""What the page shows is what `Run.predict` and the reference solver give."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from piop.errors import NotSupportedError, SpecError, UsageError
from piop.explore.display import Display
from piop.explore.explored import Explored, waves_of
from piop.problem import Problem
from piop.reference import solve_reference
from piop.run import Run
from piop.run.references import Reference

DRAWN = {"u0": {"kind": "draw", "seed": 2}}


CLOUD = """
piop: 1
name: cloud
space: {x: [0, 1], y: [0, 1]}
domain: {polygon: [[0, 0], [1, 0], [0, 1]]}
unknowns: [u]
equations: [-lap(u) = 1]
boundary: {rest: {dirichlet: {u: 0}}}
save: {points: 99}
"""


@pytest.fixture(scope="module")
def inputs(explored):
    return explored.read(DRAWN, None)


@pytest.fixture(scope="module")
def observed(inputs):
    return inputs.observe(inputs.functions())


@pytest.fixture(scope="module")
def predicted(run_path, observed, explored):
    axes = explored.display.queries().axes
    return Run.load(run_path).predict(observed, axes)


def test_the_answer_at_a_time_is_that_of_predict(explored, inputs, predicted):
    for frame in (0, 3):
        (header, arrays), _ = explored.at_time(inputs, frame)
        assert header["frame"] == frame
        expected = predicted["u"].values[0, frame]
        torch.testing.assert_close(arrays["values"][0, 0], torch.tensor(expected))


def test_all_times_are_those_of_predict(explored, observed, predicted):
    movie = explored.movie(explored.whole(observed))
    torch.testing.assert_close(movie, torch.tensor(predicted["u"].values))


def test_bound_and_test_of_the_input_are_those_of_predict(explored, inputs, observed, predicted):
    found = explored.trust(inputs, observed)
    assert found["bound"] == pytest.approx(predicted["error_bound"].values[0], rel=1e-6)
    assert found["p_value"] == predicted["p_value"].values[0]
    assert found["in_distribution"] == bool(predicted["in_distribution"].values[0])
    own = np.array(found["bound_over_time"])
    np.testing.assert_allclose(own, predicted["error_bound_over_time"].values[0], rtol=1e-6)
    assert explored.describe()["uncalibrated"] == ""


def test_inputs_are_shown_with_their_sensors(explored, inputs, observed):
    (header, arrays), _ = explored.at_time(inputs, 0)
    function = inputs.functions()["u0"]
    assert arrays["input/u0"].shape == (128,)
    points = arrays["sensors/u0"]
    torch.testing.assert_close(points, observed["u0"].points[0])
    torch.testing.assert_close(arrays["observed/u0"], function(points[None])[0])
    flat = function.coefficients.flatten()
    assert header["waves"]["u0"] == {str(i): float(flat[i]) for i in range(4)}


def test_an_input_outside_the_distribution_has_no_bound(explored):
    inputs = explored.read({"u0": {"kind": "values", "values": [9.0] * 64 + [-9.0] * 64}}, None)
    found = explored.trust(inputs, inputs.observe(inputs.functions()))
    assert found["in_distribution"] is False
    assert found["bound"] is None or np.isnan(found["bound"])
    assert found["reason"]


def test_fewer_sensors_tell_the_error_that_they_cause(explored):
    sensors = {"u0": {"points": [[0.0], [0.5], [1.5]]}}
    inputs = explored.read(DRAWN, sensors)
    found = explored.trust(inputs, inputs.observe(inputs.functions()))
    assert found["sensor_error"] > 0
    assert np.isnan(found["bound"])


def test_the_true_error_is_the_relative_l2_error(explored, inputs, observed):
    values = explored.whole(observed)
    solution = solve_reference(
        explored.problem,
        inputs.exact(),
        times=explored.display.times,
        shape=explored.display.sizes,
    )
    truth = solution.values["u"][0]
    header, arrays = explored.compare(Reference({"u": truth}, None, 1e-7, 1e-6), values)
    own = values.reshape(truth.shape)
    assert header["error"] == pytest.approx(float((own - truth).norm() / truth.norm()))
    by_time = (own - truth).square().mean(1).sqrt() / truth.square().mean().sqrt()  # as the bound
    assert header["error_over_time"] == pytest.approx(by_time.tolist())
    assert header["accepted"]
    assert torch.equal(arrays["values"][0], truth)


def test_a_spec_shows_inputs_and_no_operator(heat, tmp_path):
    file = tmp_path / "heat.yaml"
    file.write_text(heat.to_yaml())
    explored = Explored.open(str(file))
    (_, arrays), _ = explored.at_time(explored.read(DRAWN, None), 0)
    assert set(arrays) == {"input/u0", "sensors/u0", "observed/u0"}
    told = explored.describe()
    assert told["mode"] == "spec"
    assert told["description"] == explored.problem.describe()
    assert told["conditions"]
    header, _ = explored.compare(Reference({"u": torch.ones(5, 16)}, None, 1e-7, 1e-6), None)
    assert header["error"] is None
    with pytest.raises(UsageError, match="is a spec; it has no operator"):
        explored.whole({})


def test_points_of_a_shape_are_those_of_its_reference():
    problem = Problem.from_file("poisson_lshape")
    display = Display.of(problem)
    solution = solve_reference(problem, {}, shape=display.sizes, tolerance=1e-2)
    np.testing.assert_array_equal(solution.points[0].numpy(), display.mesh.points)
    assert display.queries().points.shape == (1, len(display.mesh.points), 2)
    assert display.to_json()["triangles"]


def test_without_space_all_times_are_one_line():
    display = Display.of(Problem.from_file("lotka_volterra"))
    assert not display.moving
    assert display.frames == 1
    assert display.queries(0).shape == display.queries().shape == (121,)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("navier_stokes_1e-3", "is a history"),
        ("era5", "is data"),
        ("electrostatics", "its shape differs from sample to sample"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(name, reason):
    with pytest.raises(
        NotSupportedError, match=f"{name}: piop explore does not show it, .*{reason}"
    ):
        Explored.open(name)


def test_solutions_at_scattered_points_are_refused(tmp_path):
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD)
    with pytest.raises(NotSupportedError, match="scattered points"):
        Explored.open(str(file))


def test_neither_run_nor_spec_is_refused(tmp_path):
    with pytest.raises(UsageError, match="run"):
        Explored.open(str(tmp_path))
    with pytest.raises(SpecError, match="no such file"):
        Explored.open(str(tmp_path / "none.yaml"))


def test_waves_are_those_of_largest_variance_with_their_names():
    problem = Problem.from_file("burgers")
    waves = waves_of(problem, problem.inputs[0])
    assert [w["name"] for w in waves] == ["cos 1", "cos 2", "cos 3", "sin 1", "sin 2", "sin 3"]
    field = Problem.from_file("burgers2d")
    own = waves_of(field, field.inputs[0])
    assert len(own) == 16
    assert "cos 1x × sin 1y" in [w["name"] for w in own]


@pytest.mark.parametrize("name", ["lotka_volterra", "heat3d", "stokes_channel", "kdv"])
def test_other_dimensions_are_described_and_drawn(name):
    explored = Explored.open(name)
    given = {item.name: {"kind": "draw", "seed": 1} for item in explored.problem.visible_inputs}
    (header, arrays), _ = explored.at_time(explored.read(given, None), 0)
    told = explored.describe()
    for item in told["inputs"]:
        if item["axes"]:
            shape = tuple(len(axis["values"]) for axis in item["axes"])
            assert arrays[f"input/{item['name']}"].shape == shape
        else:
            low, high = item["range"]["low"], item["range"]["high"]
            assert low <= header["numbers"][item["name"]] <= high
