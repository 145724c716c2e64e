"""Sensors: where they are, that they differ by sample, and what they see."""

import pytest
import torch

from piop.errors import NotSupportedError
from piop.sampling import observe, place_sensors, sample_inputs
from piop.spec import distributions as laws

LAW = laws.GaussianRandomField(tau=3.0, alpha=3.0, modes=4)
PLACES = ["uniform", "latin_hypercube", "sobol"]


@pytest.fixture
def square(axis):
    return [axis("x", -1.0, 2.0), axis("y", 0.0, 4.0, periodic=False)]


@pytest.mark.parametrize("place", PLACES)
def test_sensors_lie_in_the_domain_and_differ_between_samples(place, item, problem, square, many):
    one = item("a", ["x", "y"], LAW, place, (50,))
    points = place_sensors(problem(one, space=square), one, many(6))
    assert points.shape == (6, 50, 2)
    assert points[..., 0].min() >= -1 and points[..., 0].max() <= 2
    assert points[..., 1].min() >= 0 and points[..., 1].max() <= 4
    assert points[..., 0].min() < -0.8 and points[..., 1].max() > 3.8
    assert len({tuple(p.flatten().tolist()) for p in points}) == 6


def test_a_grid_excludes_the_right_end_of_periodic_axes_only(item, problem, square, many):
    one = item("a", ["x", "y"], LAW, "grid", (3, 5))
    points = place_sensors(problem(one, space=square), one, many(2))
    assert points[0, ::5, 0].tolist() == [-1, 0, 1]
    assert points[0, :5, 1].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(points[0], points[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_grid_is_shared_in_every_precision(dtype, item, problem, square, many):
    p = problem(item("a", ["x", "y"], LAW, "grid", (3, 5)), space=square)
    seen = observe(sample_inputs(p, many(2)), p, many(2), dtype)["a"]
    assert seen.distinct_points.shape == (1, 15, 2)
    assert seen.distinct_points.dtype == dtype
    assert torch.equal(seen.points[0], seen.points[1])


def test_functions_are_evaluated_at_shared_sensors_without_copies_of_them(
    item, problem, square, many, monkeypatch
):
    p = problem(item("a", ["x", "y"], LAW, "grid", (3, 5)), space=square)
    functions = sample_inputs(p, many(4))
    separate = functions["a"](place_sensors(p, p.inputs[0], many(4)).contiguous())
    sizes, kind = [], type(functions["a"])
    derivative = kind.derivative
    monkeypatch.setattr(
        kind,
        "derivative",
        lambda own, points, order: sizes.append(len(points)) or derivative(own, points, order),
    )
    seen = observe(functions, p, many(4))["a"]
    assert sizes == [1]
    assert torch.equal(seen.values[..., 0], separate)


def test_scalars_have_one_sensor_without_coordinates(item, problem, many):
    one = item("nu", [], laws.Uniform(1.0, 2.0))
    p = problem(one)
    seen = observe(sample_inputs(p, many(3)), p, many(3))["nu"]
    assert seen.points.shape == (3, 1, 0)
    assert seen.values.shape == (3, 1, 1)
    assert torch.equal(seen.values[:, 0, 0], sample_inputs(p, many(3))["nu"].values)


def test_sensors_see_the_function_and_nothing_hidden(item, problem, square, many):
    p = problem(
        item("a", ["y", "x"], LAW, "sobol", (9,)),
        item("g", ["x"], LAW, hidden=True),
        space=square,
    )
    functions = sample_inputs(p, many(3))
    seen = observe(functions, p, many(3), torch.float32)
    assert list(seen) == ["a"]
    assert seen["a"].values.dtype == seen["a"].points.dtype == torch.float32
    exact = functions["a"](place_sensors(p, p.inputs[0], many(3)))
    torch.testing.assert_close(seen["a"].values[..., 0], exact.float())


@pytest.mark.parametrize("place", PLACES)
def test_sensors_of_a_sample_are_the_same_in_any_batch(place, item, problem, many):
    one = item("a", ["x"], LAW, place, (7,))
    p, few = problem(one), many(3)
    assert torch.equal(place_sensors(p, one, many(9))[:3], place_sensors(p, one, few))


def test_another_step_moves_the_sensors(item, problem, many):
    one = item("a", ["x"], LAW)
    a, b = (place_sensors(problem(one), one, many(3, step=s)) for s in (0, 1))
    assert not torch.equal(a, b)


def test_sensors_at_the_points_of_the_solution_are_those_of_each_sample(
    item, problem, square, many
):
    p = problem(
        item("a", ["y", "x"], LAW, "points", (5,)),
        item("b", ["x"], LAW, "points", (5,)),
        space=square,
        time=False,
    )
    there = torch.rand(3, 5, 2, generator=torch.Generator().manual_seed(0)).double()
    functions = sample_inputs(p, many(3))
    seen = observe(functions, p, many(3), points=there)
    assert torch.equal(seen["a"].points, there[..., [1, 0]])
    assert torch.equal(seen["a"].values[..., 0], functions["a"](there[..., [1, 0]]))
    assert torch.equal(seen["b"].points, there[..., :1])


def test_sensors_at_the_points_of_no_solution_are_refused(item, problem, square, many):
    p = problem(item("a", ["x", "y"], LAW, "points", (5,)), space=square)
    with pytest.raises(
        NotSupportedError, match="functions of the distribution come without; give --data"
    ):
        observe(sample_inputs(p, many(2)), p, many(2))
