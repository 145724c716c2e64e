"""Points in shapes and on their boundaries: inside, even, the same in any batch."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from piop.problem import Problem
from piop.sampling import boundary_points, collocation, initial_points

SHAPES = {
    "L": "{polygon: [[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]]}",
    "ring": "{disk: [1, 1, 1], holes: {inner: {disk: [1, 1, 0.4]}}}",
    "U": "{difference: [{box: [[0, 2], [0, 2]]}, {box: [[0.5, 1.5], [0.5, 2]]}]}",
    "star": "{star: {centre: [1, 1], angle: phi, radius: 0.7 + 0.2*cos(3*phi)}}",
}
MOMENTS = {  # area, ∬ x, ∬ x²
    "L": (3.0, 2 * 1 + 1 * 0.5, 8 / 3 + 1 / 3),
    "ring": (
        math.pi * (1 - 0.16),
        math.pi * (1 - 0.16),
        math.pi * (1 - 0.16) + math.pi * (1 - 0.4**4) / 4,
    ),
    "U": (2.5, 2.5, 8 / 3 * 2 - 1.5 * (1.5**3 - 0.5**3) / 3),
}
METHODS = ["uniform", "sobol"]


def shaped(shape, time=False):
    words = f"domain: {SHAPES[shape]}\n"
    start = "time: {t: [0, 3]}\ninitial: {u: 0}\n" if time else ""
    left = "dt(u) - lap(u)" if time else "-lap(u)"
    return Problem.from_yaml(
        f"piop: 1\nname: p\nspace: {{x: [0, 2], y: [0, 2]}}\n{words}{start}unknowns: [u]\n"
        f'equations: ["{left} = 1"]\nboundary: {{rest: {{dirichlet: {{u: 0}}}}}}\n'
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_sample_has_as_many_points_inside(shape, method, many):
    problem = shaped(shape)
    points = collocation(problem, many(5), 77, method)
    assert points.shape == (5, 77, 2)
    assert problem.domain.contains(points.reshape(-1, 2).numpy()).all()
    assert len(torch.unique(points.flatten(0, 1), dim=0)) == 5 * 77


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", MOMENTS)
def test_points_have_the_moments_of_the_area(shape, method, many):
    """Within four standard errors; those of Sobol points are smaller still."""
    area, first, second = MOMENTS[shape]
    x = collocation(shaped(shape), many(40), 500, method)[..., 0].flatten()
    for power, exact in ((1, first), (2, second)):
        values = x**power
        assert abs(values.mean() - exact / area) < 4 * values.std() / math.sqrt(len(values))


def test_sobol_points_are_more_even_than_random_ones(many):
    exact = MOMENTS["L"][1] / MOMENTS["L"][0]

    def error(method):
        means = collocation(shaped("L"), many(40), 300, method)[..., 0].mean(1)
        return (means - exact).square().mean().sqrt()

    assert error("sobol") < 0.3 * error("uniform")


@pytest.mark.parametrize("method", METHODS)
def test_points_of_a_sample_are_the_same_in_any_batch(method, many):
    problem = shaped("ring")
    whole, part = (collocation(problem, many(n), 50, method) for n in (9, 3))
    assert torch.equal(whole[:3], part)
    assert not torch.equal(whole[0], whole[1])
    more = collocation(problem, many(3), 90, method)
    assert torch.equal(more[:, :50], part)


def test_time_is_placed_beside_the_shape(many):
    problem = shaped("U", time=True)
    points = collocation(problem, many(4), 200)
    assert 0 <= points[..., 0].min() < 0.1 and 2.9 < points[..., 0].max() <= 3
    assert problem.domain.contains(points[..., 1:].reshape(-1, 2).numpy()).all()
    start = initial_points(problem, many(4), 50)
    assert start[..., 0].unique().tolist() == [0.0]
    assert problem.domain.contains(start[..., 1:].reshape(-1, 2).numpy()).all()
    wall = boundary_points(problem, many(4), 50, "x.min")
    assert wall[..., 0].std() > 0.5 and wall[..., 1].unique().tolist() == [0.0]


@pytest.mark.parametrize(("shape", "share"), [("L", 0.75), ("ring", math.pi * 0.21)])
def test_a_grid_keeps_what_is_inside_and_off_the_boundary(shape, share, many):
    problem = shaped(shape)
    points = collocation(problem, many(2), 400, "grid")
    assert torch.equal(points[0], points[1])
    assert 0.8 * 400 < points.shape[1] <= 400
    assert problem.domain.contains(points[0].numpy()).all()
    assert problem.domain.outline.distance(points[0].numpy()).min() > 1e-9
    step = points[0, :, 1].unique().diff().min()
    assert points.shape[1] * step**2 / 4 == pytest.approx(share, rel=0.15)
    timed = collocation(shaped(shape, time=True), many(1), 400, "grid")
    assert len(timed[0, :, 0].unique()) > 5


def test_a_grid_at_the_start_has_both_axes_of_space(many):
    points = initial_points(shaped("L", time=True), many(1), 100, "grid")
    assert 80 < points.shape[1] <= 100


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, d: collocation(p, d, 9, "latin_hypercube"), "divides a box"),
        (lambda p, d: collocation(p, d, 9, "halton"), "'halton' is not a way to place points"),
        (lambda p, d: collocation(p, d, 0), "count: 0 is not positive"),
        (lambda p, d: collocation(p, d, 0, "grid"), "count: 0 is not positive"),
        (lambda p, d: collocation(p, d, 1, "grid"), "count: 1 points of a grid are too few"),
        (lambda p, d: boundary_points(p, d, 4, "hole"), "'hole' is not a face; one of .*outline"),
    ],
)
def test_what_cannot_be_placed_is_refused(call, message, many):
    with pytest.raises(ValueError, match=message):
        call(shaped("L"), many(2))


def test_points_of_a_face_are_even_along_it(many):
    """On the two inner sides of an L: half on each, uniform on both."""
    points = boundary_points(shaped("L"), many(20), 200, "outline").reshape(-1, 2)
    level = points[:, 1] == 1.0
    assert (points[~level, 0] == 1.0).all()
    assert float(level.double().mean()) == pytest.approx(0.5, abs=0.03)
    assert stats.kstest(points[level, 0].numpy() - 1, "uniform").pvalue > 1e-3
    assert stats.kstest(points[~level, 1].numpy() - 1, "uniform").pvalue > 1e-3


def test_points_of_an_arc_are_even_round_it(many):
    points = boundary_points(shaped("ring"), many(20), 200, "inner").reshape(-1, 2) - 1
    assert torch.allclose(points.norm(dim=1), torch.tensor(0.4, dtype=torch.float64))
    angle = torch.atan2(points[:, 1], points[:, 0]) / (2 * math.pi) + 0.5
    assert stats.kstest(angle.numpy(), "uniform").pvalue > 1e-3


def test_points_of_a_star_are_even_in_length(many):
    """Against shares of length that are measured along a fine polygon."""
    points = boundary_points(shaped("star"), many(20), 200, "outline").reshape(-1, 2).numpy() - 1
    angle = np.linspace(0, 2 * math.pi, 20001)
    line = (0.7 + 0.2 * np.cos(3 * angle))[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    length = np.append(0, np.linalg.norm(np.diff(line, axis=0), axis=1).cumsum())
    own = np.interp(np.arctan2(points[:, 1], points[:, 0]) % (2 * math.pi), angle, length)
    assert stats.kstest(own / length[-1], "uniform").pvalue > 1e-3


def test_points_of_a_face_are_the_same_in_any_batch(many):
    problem = shaped("ring")
    whole, part = (boundary_points(problem, many(n), 20, "outline") for n in (7, 3))
    assert torch.equal(whole[:3], part)
    other = boundary_points(problem, many(3), 20, "inner")
    assert not torch.allclose((other - 1) / 0.4, part - 1)
