"""Designs and collocation points: inside, on the right face, well spread, the same in any batch."""

import pytest
import torch
from scipy import stats

from piop.sampling import boundary_points, collocation, initial_points
from piop.sampling.collocation import unit_points

METHODS = ["uniform", "latin_hypercube", "sobol"]


@pytest.fixture
def square(problem, axis):
    return problem(space=[axis("x", -1.0, 2.0), axis("y", 0.0, 4.0, periodic=False)])


@pytest.mark.parametrize("method", METHODS)
def test_points_fill_the_box_of_time_and_space(method, square, many):
    points = collocation(square, many(4), 300, method)
    assert points.shape == (4, 300, 3)
    for column, (low, high) in enumerate([(0, 2), (-1, 2), (0, 4)]):
        share = (points[..., column].flatten() - low) / (high - low)
        assert stats.kstest(share.numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_points_of_a_sample_are_the_same_in_any_batch(method, square, many):
    whole, part = (collocation(square, many(n), 20, method) for n in (7, 3))
    assert torch.equal(whole[:3], part)
    assert not torch.equal(whole[0], whole[1])


def test_latin_hypercube_has_one_point_in_every_slice(many):
    points = unit_points(many(5), "a", 32, 3, "latin_hypercube")
    slices = (points * 32).floor().sort(dim=1).values
    assert torch.equal(slices, torch.arange(32.0).double()[None, :, None].expand(5, 32, 3))


def test_within_its_slice_a_latin_hypercube_point_is_anywhere(many):
    points = unit_points(many(500), "a", 4, 2, "latin_hypercube")
    assert stats.kstest((points * 4 % 1).flatten().numpy(), "uniform").pvalue > 1e-3


def test_scrambled_sobol_points_keep_their_balance(many):
    points = unit_points(many(5), "a", 64, 2, "sobol")
    # A scrambled (0, 6, 2)-net: every elementary box of volume 1/64 holds exactly one point.
    for rows, columns in ((64, 1), (16, 4), (8, 8), (2, 32)):
        box = (points[..., 0] * rows).floor() * columns + (points[..., 1] * columns).floor()
        assert torch.equal(box.sort(dim=1).values, torch.arange(64.0).double().expand(5, 64))


def test_scrambled_sobol_points_are_uniform_over_samples(many):
    first = unit_points(many(3000), "a", 3, 1, "sobol")[:, 0, 0]
    assert stats.kstest(first.numpy(), "uniform").pvalue > 1e-3


def test_a_grid_has_equally_many_points_along_every_axis(square, many):
    points = collocation(square, many(2), 30, "grid")
    assert points.shape == (2, 27, 3)
    assert points[0, ::9, 0].tolist() == [0, 1, 2]
    assert points[0, :9:3, 1].tolist() == [-1, 0, 1]  # periodic: right end left out
    assert points[0, :3, 2].tolist() == [0, 2, 4]


@pytest.mark.parametrize("method", [*METHODS, "grid"])
def test_initial_points_lie_at_the_start(method, square, many):
    points = initial_points(square, many(3), 16, method)
    assert points.shape == (3, 16, 3)
    assert points[..., 0].unique().tolist() == [0.0]
    assert len(points[0, :, 1].unique()) > 3


@pytest.mark.parametrize(
    ("face", "column", "value"),
    [("x.min", 1, -1), ("x.max", 1, 2), ("y.min", 2, 0), ("y.max", 2, 4)],
)
def test_boundary_points_lie_on_their_face(face, column, value, square, many):
    points = boundary_points(square, many(3), 40, face)
    assert points[..., column].unique().tolist() == [value]
    others = [c for c in range(3) if c != column]
    assert all(points[..., c].std() > 0.3 for c in others)


def test_the_faces_of_an_interval_without_time_are_points(problem, many):
    points = boundary_points(problem(time=False), many(2), 3, "x.max", "grid")
    assert points.tolist() == [[[1.0]], [[1.0]]]
    assert boundary_points(problem(time=False), many(2), 3, "x.max").tolist() == [[[1.0]] * 3] * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, d: collocation(p, d, 4, "halton"), "'halton' is not a way to place points; one"),
        (lambda p, d: collocation(p, d, 0), "count: 0 is not positive"),
        (lambda p, d: collocation(p, d, 0, "grid"), "count: 0 is not positive"),
        (
            lambda p, d: boundary_points(p, d, 4, "z.min"),
            "'z.min' is not a face; one of x.min, x.max",
        ),
    ],
)
def test_what_cannot_be_placed_is_refused(call, message, square, many):
    with pytest.raises(ValueError, match=message):
        call(square, many(2))


def test_a_steady_problem_has_no_time_to_place_points_in(problem, many):
    with pytest.raises(ValueError, match="no initial points"):
        initial_points(problem(time=False), many(1), 4)
