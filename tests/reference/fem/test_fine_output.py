"""Outputs finer than the meshes: points between nodes, and estimates of what is interpolated."""

import numpy as np
import pytest
import sympy

from piop.domain.triangulation import triangulate
from piop.reference import solve_reference
from piop.reference.fem.meshes import MeshHierarchy
from piop.reference.fem.space import Space, nearest_triangles
from piop.reference.solution import Limits

from .cases import CAVITY, X, Y, manufactured, on_shape

L_SHAPE = {"polygon": [[0, 0], [1, 0], [1, 0.5], [0.5, 0.5], [0.5, 1], [0, 1]]}
DISK = {"disk": [0.5, 0.5, 0.5]}
WAVE = sympy.exp(X) * sympy.sin(3 * Y)
BOWL = X**2 + Y**2 - X
FEW = Limits(modes=(8192, 64, 64))  # at most 4096 nodes: one mesh of an output of 33 × 33


@pytest.mark.parametrize("domain", [CAVITY, DISK, L_SHAPE], ids=["hole", "disk", "l"])
def test_an_output_for_which_one_mesh_would_fit_has_an_honest_estimate(domain):
    problem = manufactured(WAVE, 1, 1, domain=domain)
    solution = solve_reference(problem, {}, shape=(33, 33), tolerance=1e-4, limits=FEW)
    points = solution.points[0].numpy()
    truth = sympy.lambdify((X, Y), WAVE, "numpy")(*points.T)
    error = np.linalg.norm(solution.values["u"][0].numpy() - truth) / np.linalg.norm(truth)
    assert len(points) > 700
    assert 0 < error <= float(solution.error_estimate) <= 1e-4


def test_points_that_are_counted_may_be_too_many_for_two_meshes():
    boundary = {"rest": {"dirichlet": {"u": 0}}}
    problem = on_shape("-lap(u) = -4", boundary, DISK, save={"points": 1500})
    solution = solve_reference(problem, {}, tolerance=1e-3, limits=FEW)
    truth = ((solution.points[0].numpy() - 0.5) ** 2).sum(1) - 0.25
    error = np.linalg.norm(solution.values["u"][0].numpy() - truth) / np.linalg.norm(truth)
    assert solution.points.shape == (1, 1500, 2)
    assert error <= float(solution.error_estimate) <= 1e-3


def test_an_output_for_which_two_meshes_fit_lies_on_their_nodes_as_ever():
    problem = manufactured(WAVE, 1, 1, domain=L_SHAPE)
    solution = solve_reference(problem, {}, shape=(9, 9))
    usual = triangulate(problem.domain.outline, 1 / 8).points
    assert np.array_equal(solution.points[0].numpy(), usual)


@pytest.mark.parametrize("domain", [CAVITY, L_SHAPE], ids=["hole", "l"])
def test_interpolation_between_nodes_is_that_of_the_elements(domain):
    """On graded meshes: a square is in the space but for bent edges, which err as their cube."""
    outline = on_shape("-lap(u) = 1", {"rest": {"dirichlet": {"u": 0}}}, domain).domain.outline
    meshes = iter(MeshHierarchy(outline, triangulate(outline, 0.2), _prescribed(outline), 2))
    for _ in range(3):
        level = next(meshes)
    space = Space(level.curved(outline), 2, level.faces(outline), [])
    points = triangulate(outline, 0.03).points
    bowl = sympy.lambdify((X, Y), BOWL)
    found = space.interpolation(points) @ bowl(*space.points.T)
    assert np.abs(found - bowl(*points.T)).max() < (1e-5 if domain is CAVITY else 1e-13)


def _prescribed(outline):
    return dict.fromkeys(outline.faces, True)


def test_the_triangle_of_a_point_is_found_beside_many_small_ones():
    """A fan of a thousand slivers is nearer to the point than the middle of its own triangle."""
    angles = np.linspace(0, np.pi / 2, 1001)
    rim = 0.01 * np.stack([np.cos(angles), np.sin(angles)])
    slivers = np.stack([np.zeros((2, 1000)), rim[:, :-1], rim[:, 1:]], 1)
    large = np.array([[0.0, 1.0, -1.0], [0.0, -2.0, -2.0]])[:, :, None]
    corners = np.concatenate([slivers, large], 2)
    assert nearest_triangles(corners, np.array([[0.0, -0.001]])).tolist() == [1000]
