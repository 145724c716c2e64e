"""Residual and finite elements, derived apart, agree inside of shapes."""

import pytest
import torch

from piop.problem import Problem
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs

from ..patches import residual_over_bent


def test_the_residual_vanishes_on_the_l_as_triangles_shrink():
    problem = Problem.from_file("poisson_lshape")
    found = []
    for points in (33, 65):
        solution = solve_reference(problem, {}, shape=(points, points), tolerance=1e-2)
        values = {"u": solution.values["u"][0]}
        found.append(
            residual_over_bent(problem, {}, solution.points[0], values, [-0.6, -0.6], 0.3, 8)
        )
    assert found[0] < 1e-3
    assert found[1] < found[0] / 3


@pytest.mark.parametrize("name", ["electrostatics_u", "magnetostatics_u"])
def test_the_residual_vanishes_inside_of_a_charge(name):
    """At its edge the source jumps, which no patch may hold."""
    text = Problem.from_file(name).to_yaml()
    problem = Problem.from_yaml(text.replace("points: 250", "points: 3000"))
    functions = sample_inputs(problem, Draws(3, 0, torch.arange(1)))
    source = next(item.name for item in problem.visible_inputs)
    solution = solve_reference(problem, functions, tolerance=0.5)  # the second mesh
    points = solution.points[0]
    values = {name: solution.values[name][0] for name in problem.channels}
    centre, radius = torch.cat([functions[n].on_grid(()) for n in ("x1", "y1")]).flatten(), 0.06
    here = points[(points - centre).norm(dim=-1) < radius]
    assert (functions[source](here[None]) == 1).all()
    assert residual_over_bent(problem, functions, points, values, centre, radius, 4) < 0.01


@pytest.mark.slow
def test_the_residual_of_elasticity_vanishes_beside_the_cavity():
    """Its points are many, so that second derivatives can be had from them."""
    text = Problem.from_file("elasticity").to_yaml()
    problem = Problem.from_yaml(text.replace("points: 972", "points: 3000"))
    functions = sample_inputs(problem, Draws(7, 0, torch.arange(1)))
    solution = solve_reference(problem, functions, tolerance=0.5)  # the second mesh
    values = {name: solution.values[name][0] for name in problem.channels}
    points = solution.points[0]
    found = residual_over_bent(problem, functions, points, values, [0.12, 0.88], 0.12, 6)
    assert (found < 0.06).all()
