"""Shapes to choose from: each sample is solved on the one that it drew."""

import math

import numpy as np
import pytest
import torch

from piop.problem import Problem
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs
from piop.sampling.functions import ScalarFunction

SHAPES = {
    "square": {"box": [[0, 1], [0, 1]]},
    "disk": {"disk": [0.5, 0.5, 0.5]},
    "ring": {"disk": [0.5, 0.5, 0.5], "holes": {"inner": {"disk": [0.5, 0.5, 0.12]}}},
    "l": {"polygon": [[0, 0], [1, 0], [1, 0.5], [0.5, 0.5], [0.5, 1], [0, 1]]},
    "u": {"difference": [{"box": [[0, 1], [0, 1]]}, {"box": [[0.25, 0.75], [0.25, 1]]}]},
}
NAMES = list(SHAPES)
ZERO = {"rest": {"dirichlet": {"u": 0}}}


def on(domain, numbers=None, boundary=None):
    """−Δu = s on a shape, or on shapes of which k is the number."""
    last = {} if numbers is None else {"k": integer(numbers - 1)}
    return Problem(
        name="case",
        space={"x": [0, 1], "y": [0, 1]},
        domain=domain,
        unknowns=["u"],
        inputs={**last, "s": {"law": "uniform", "low": 1, "high": 2}},
        equations=["-lap(u) = s"],
        boundary=boundary or ZERO,
        save={"points": 60},
    )


def integer(high):
    return {"law": "integer", "low": 0, "high": high, "hidden": True}


def all_five():
    return on({"choose": "k", "of": SHAPES}, 5)


def given(numbers, sizes):
    values = {"k": numbers, "s": sizes}
    return {n: ScalarFunction(torch.tensor(v, dtype=torch.float64)) for n, v in values.items()}


@pytest.fixture(scope="module")
def solved():
    """The shapes in their turn, and the first of them again."""
    return solve_reference(all_five(), given([0, 1, 2, 3, 4, 2, 0], [1, 1.5, 1, 2, 1, 2, 2]))


@pytest.mark.parametrize("number", range(5), ids=NAMES)
def test_a_chosen_shape_is_solved_as_one_by_itself(solved, number):
    alone = on(SHAPES[NAMES[number]])
    size = [1, 1.5, 1, 2, 1][number]
    found = solve_reference(alone, {"s": given([0], [size])["s"]})
    assert torch.equal(found.points[0], solved.points[number])
    torch.testing.assert_close(found.values["u"][0], solved.values["u"][number], rtol=1e-11, atol=0)
    torch.testing.assert_close(found.error_estimate[0], solved.error_estimate[number])
    assert bool(solved.accepted[number])


@pytest.mark.parametrize("number", range(5), ids=NAMES)
def test_points_lie_in_the_shape_and_what_rest_says_holds_on_all_of_its_boundary(solved, number):
    domain = list(all_five().domain.members.values())[number]
    points, values = solved.points[number].numpy(), solved.values["u"][number].numpy()
    edge = domain.outline.distance(points) < 1e-9
    assert domain.contains(points[~edge]).all()
    for face in domain.faces:
        near = [c.distance(points) < 1e-9 for c in domain.outline.curves if c.face == face]
        assert np.any(near, axis=0).sum() > 1
    assert np.abs(values[edge]).max() == 0
    assert values[~edge].min() > 0


def test_a_disk_and_a_ring_have_the_solutions_of_torsion(solved):
    for sample, (size, inner) in {1: (1.5, None), 2: (1, 0.12), 5: (2, 0.12)}.items():
        r = np.linalg.norm(solved.points[sample].numpy() - 0.5, axis=1)
        truth = (0.25 - r**2) / 4
        if inner is not None:
            truth -= (0.25 - inner**2) / 4 * np.log(r / 0.5) / math.log(inner / 0.5)
        gap = solved.values["u"][sample].numpy() - size * truth
        estimate = float(solved.error_estimate[sample])
        assert np.linalg.norm(gap) <= estimate * np.linalg.norm(size * truth)


def test_a_sample_has_its_shape_whatever_is_beside_it(solved):
    functions = given([2, 0, 3], [1, 1, 2])
    other = solve_reference(all_five(), functions)
    for here, there in enumerate((2, 0, 3)):
        assert torch.equal(other.points[here], solved.points[there])
        own, usual = other.values["u"][here], solved.values["u"][there]
        torch.testing.assert_close(own, usual, rtol=1e-11, atol=0)


def test_draws_choose_the_shape(solved):
    problem = all_five()
    functions = sample_inputs(problem, Draws(3, 0, torch.arange(12)))
    numbers = functions["k"].on_grid(()).long().tolist()
    assert len(set(numbers)) > 3
    solution = solve_reference(problem, functions, tolerance=0.5)
    for sample, number in enumerate(numbers):
        assert torch.equal(solution.points[sample], solved.points[number])
    assert not any(
        torch.equal(solved.points[a], solved.points[b]) for a in range(5) for b in range(a)
    )


def test_a_face_named_in_all_shapes_has_its_own_condition():
    shapes = {n: SHAPES[n] for n in ("square", "l")}
    boundary = {"y.min": {"neumann": {"u": 0}}, **ZERO}
    found = solve_reference(on({"choose": "k", "of": shapes}, 2, boundary), given([1, 0], [1, 1]))
    for sample, name in enumerate(("l", "square")):
        alone = solve_reference(on(SHAPES[name], None, boundary), {"s": given([0], [1])["s"]})
        torch.testing.assert_close(found.values["u"][sample], alone.values["u"][0])
        bottom = found.points[sample, :, 1] == 0
        assert found.values["u"][sample][bottom].max() > 0.02


def test_a_radius_that_is_drawn_makes_every_shape_its_own():
    star = {"star": {"centre": [0.5, 0.5], "angle": "phi", "radius": "0.2*s"}}
    shapes = {"disk": SHAPES["disk"], "ring": {"disk": [0.5, 0.5, 0.5], "holes": {"inner": star}}}
    problem = on({"choose": "k", "of": shapes}, 2)
    found = solve_reference(problem, given([1, 0, 1], [1, 1, 1.5]), tolerance=0.5)
    away = (found.points - 0.5).norm(dim=-1).min(1).values
    assert 0.2 - 1e-9 < float(away[0]) < 0.22
    assert float(away[1]) < 0.15
    assert 0.3 - 1e-9 < float(away[2]) < 0.32


def test_a_number_without_a_shape_is_marked_with_the_reason():
    found = solve_reference(all_five(), given([1, 7], [1, 1]), tolerance=0.5)
    assert found.accepted.tolist() == [True, False]
    assert found.values["u"][1].isnan().all()
    assert found.notes == ("sample 1: the shape: its number is 7, and there are shapes 0 to 4",)
