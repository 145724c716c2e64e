"""Batches that are drawn ahead are those of their steps, and others are not drawn ahead."""

import pytest
import torch

from piop.problem import Problem
from piop.sampling import Draws
from piop.training.batches.ahead import BatchesAhead
from piop.training.batches.batch import flatten
from piop.training.batches.equations import EquationSource
from piop.training.config import PointsConfig, SamplingConfig

WALLS = """
piop: 1
name: source_between_walls
space: {x: [0, 1], y: [0, 2]}
unknowns: [u]
inputs:
  a: {law: uniform, low: 1, high: 2}
  f: {of: [x, y], law: gaussian_random_field, matern: {smoothness: 2.5, length: 0.5, variance: 1}}
equations: ["-a*(dxx(u) + dyy(u)) = f"]
boundary:
  x: {dirichlet: {u: 0}}
  y: {neumann: {u: 0}}
sensors: {f: {count: [5, 5], place: grid}}
save: {x: 9, y: 9}
"""


@pytest.fixture(scope="session")
def walls():
    return Problem.from_yaml(WALLS)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("heat", {}),
        ("heat", {"constraints": "soft"}),
        ("heat", {"points": PointsConfig(functions=1, queries=20)}),
        ("heat", {"points": PointsConfig(functions=3, queries=20, method="sobol")}),
        ("walls", {"form": "strong"}),
    ],
)
def test_batches_are_those_of_their_steps(builder, request, name, settings):
    ahead = builder(request.getfixturevalue(name), **settings).draw
    assert isinstance(ahead, BatchesAhead)
    assert ahead.steps > 1
    for step in (0, 1, ahead.steps, 2 * ahead.steps - 1, 1):
        tensors, rebuild = flatten(ahead(step, 0.0))
        alone, _ = flatten(ahead.equations(step, 0.0))
        rebuild(alone)  # the same parts
        torch.testing.assert_close(tensors, alone, rtol=1e-12, atol=1e-12)


def test_a_source_that_begins_later_has_the_same_numbers(builder, heat):
    whole, resumed = builder(heat).draw, builder(heat).draw
    last = [whole(step, 0.0) for step in range(6)][-1]
    for one, other in zip(flatten(last)[0], flatten(resumed(5, 0.5))[0], strict=True):
        assert torch.equal(one, other)


def test_steps_are_drawn_together_once_and_by_a_resume_as_well(builder, heat, monkeypatch):
    ahead, drawn = builder(heat).draw, []
    plain = ahead.equations.of_steps

    def of_steps(steps, fraction):
        drawn.append(steps)
        return plain(steps, fraction)

    monkeypatch.setattr(ahead.equations, "of_steps", of_steps)
    for step in range(ahead.steps - 1, 2 * ahead.steps):  # begins in the middle, as a resume does
        ahead(step, 0.0)
    assert drawn == [range(ahead.steps), range(ahead.steps, 2 * ahead.steps)]


@pytest.mark.parametrize(
    "settings",
    [
        {"points": PointsConfig(functions=3, queries=6, method="residual_adaptive")},
        {"points": PointsConfig(functions=3, queries=6, shared=True)},
        {"points": PointsConfig(functions=3, queries=6), "sampling": SamplingConfig(horizon=0.5)},
        {"points": PointsConfig(functions=17, queries=6)},
    ],
)
def test_batches_that_depend_on_more_than_their_step_are_not_drawn_ahead(builder, heat, settings):
    assert isinstance(builder(heat, **settings).draw, EquationSource)


def test_points_that_all_functions_share_are_not_drawn_ahead(builder, heat):
    plain = builder(heat).draw.equations
    plain.residual.same_points = True  # as of linear steady equations on a lattice
    assert BatchesAhead.where_possible(plain) is plain
    with pytest.raises(ValueError, match="ahead"):
        BatchesAhead(plain, 2)


def test_draws_of_several_steps_are_those_of_each():
    index = torch.tensor([4, 5, 4, 5])
    together = Draws(7, 1, index, steps=torch.tensor([1, 1, 3, 3])).uniform("demo", 5)
    for rows, step in ((slice(0, 2), 1), (slice(2, 4), 3)):
        assert torch.equal(together[rows], Draws(7, step, index[:2]).uniform("demo", 5))
    with pytest.raises(ValueError, match="steps"):
        Draws(7, 1, index, steps=torch.tensor([1]))
