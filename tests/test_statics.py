"""Charges and wires of Loetzsch et al. 2022: whole inside their shapes, evenly, on every one."""

import numpy as np
import pytest
import torch

from piop.problem import Problem
from piop.sampling import Draws, sample_inputs

PAIRS = [("electrostatics", "rho"), ("magnetostatics", "I")]
SHAPES = ["square", "disk", "ring", "l", "u"]
COUNT, MARGIN = 3000, 0.08
RADIUS = 0.005**0.5


def drawn(name):
    problem = Problem.from_file(name)
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(COUNT)))
    numbers = {n: f.on_grid(()).numpy() for n, f in functions.items() if not f.dimension}
    centres = [np.stack([numbers[f"x{i}"], numbers[f"y{i}"]], 1) for i in (1, 2, 3)]
    return problem, functions, numbers, centres


def even(domain):
    """A fine grid of all places that are so far inside."""
    ticks = (np.arange(200) + 0.5) / 200
    grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1).reshape(-1, 2)
    grid = grid[domain.contains(grid)]
    return grid[domain.outline.distance(grid) >= MARGIN]


@pytest.mark.parametrize("name", [p for p, _ in PAIRS])
@pytest.mark.parametrize("shape", SHAPES)
def test_centres_are_inside_and_uniform(name, shape):
    """Around corners that point inwards the even grid goes a little nearer than the law: 2 %."""
    problem, _, numbers, centres = drawn(f"{name}_u" if shape == "u" else name)
    if shape == "u":
        domain, own = problem.domain, slice(None)
    else:
        number = list(problem.domain.members).index(shape)
        domain = problem.domain.members[shape]
        own = numbers["k"] == number
        assert own.sum() == pytest.approx(COUNT / 4, abs=5 * (COUNT * 3 / 16) ** 0.5)
    for found in centres:
        found = found[own]
        assert domain.contains(found).all()
        assert domain.outline.distance(found).min() > MARGIN - 1e-9 > RADIUS
        truth = even(domain)
        sigma = truth.std(0) / len(found) ** 0.5
        assert (np.abs(found.mean(0) - truth.mean(0)) < 5 * sigma + 0.01).all()
        assert found.std(0) == pytest.approx(truth.std(0), rel=0.08)


@pytest.mark.parametrize(("name", "source"), PAIRS)
@pytest.mark.parametrize("suffix", ["", "_u"])
def test_one_to_three_are_seen(name, source, suffix):
    _, functions, numbers, centres = drawn(name + suffix)
    values, counts = np.unique(numbers["n"], return_counts=True)
    assert values.tolist() == [1, 2, 3]
    assert np.abs(counts - COUNT / 3).max() < 5 * (COUNT * 2 / 9) ** 0.5
    away = np.array([RADIUS, 0.0])
    for i, centre in enumerate(centres):
        others = [c for j, c in enumerate(centres) if j != i]
        for step, inside in ((0.99, True), (1.01, False)):
            points = torch.from_numpy(centre + step * away)[:, None]
            seen = functions[source](points)[:, 0].numpy()
            apart = np.min([np.linalg.norm(c - centre, axis=1) for c in others], 0) > 0.25
            there = numbers["n"] > i
            assert (seen[apart] == (there & inside)[apart]).all()


@pytest.mark.parametrize(("name", "source"), PAIRS)
def test_the_unseen_shape_is_asked_of_the_same_network(name, source):
    seen, unseen = Problem.from_file(name), Problem.from_file(f"{name}_u")
    assert seen.unknowns == unseen.unknowns
    for problem in (seen, unseen):
        (one,) = problem.visible_inputs
        assert (one.name, one.place, one.sensor_shape) == (source, "points", (problem.points,))
