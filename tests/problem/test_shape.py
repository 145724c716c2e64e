"""Shapes in specs: what they are called, and what is refused with its place."""

import pytest

from piop.errors import SpecError
from piop.problem import Problem

SPEC = """piop: 1
name: case
space: {x: [0, 1], y: [0, 1]}
parameters: {R: 0.2}
unknowns: [u]
equations: [-R*lap(u) = 1]
boundary: {rest: {dirichlet: {u: 0}}}
domain: DOMAIN
"""
CAVITY = "{box: [[0, 1], [0, 1]], holes: {cavity: {disk: [0.5, 0.5, R]}}}"
L_SHAPE = "{polygon: [[0, 0], [1, 0], [1, 0.5], [0.5, 0.5], [0.5, 1], [0, 1]]}"
RING = "{difference: [{disk: [0.5, 0.5, 0.5]}, {disk: [0.5, 0.5, R]}]}"
SIDES = {"x.min", "x.max", "y.min", "y.max"}


def problem(domain, boundary=None):
    text = SPEC.replace("DOMAIN", domain)
    if boundary is not None:
        text = text.replace("{rest: {dirichlet: {u: 0}}}", boundary)
    return Problem.from_yaml(text)


@pytest.mark.parametrize(
    ("domain", "faces", "area"),
    [
        (CAVITY, {*SIDES, "cavity"}, 1 - 3.141592653589793 * 0.04),
        (L_SHAPE, {*SIDES, "outline"}, 0.75),
        (RING, {"outline"}, 3.141592653589793 * 0.21),
        ("{box: [[0, 1], [0, 1]]}", SIDES, 1),
        ("{union: [{box: [[0, 1], [0, 0.5]]}, {disk: [0.5, 0.5, 0.5]}]}", None, None),
    ],
)
def test_faces_of_a_shape(domain, faces, area):
    found = problem(domain)
    assert not found.domain.is_box
    if faces is not None:
        assert set(found.boundary) == faces
        assert found.domain.volume == pytest.approx(area)
    assert all(len(c) == 1 for c in found.boundary.values())


def test_a_box_has_no_shape():
    text = SPEC.replace("domain: DOMAIN\n", "")
    assert Problem.from_yaml(text).domain.is_box


def test_named_faces_take_their_own_conditions():
    given = "{rest: {dirichlet: {u: 0}}, x: {dirichlet: {u: 1}}, cavity: {neumann: {u: 0}}}"
    found = problem(CAVITY, given)
    kinds = {face: (c[0].keyword, c[0].values[0]) for face, c in found.boundary.items()}
    assert kinds["cavity"] == ("neumann", 0)
    assert kinds["x.min"] == kinds["x.max"] == ("dirichlet", 1)
    assert kinds["y.min"] == kinds["y.max"] == ("dirichlet", 0)


EMPTY = "{difference: [{disk: [0.5, 0.5, R]}, {disk: [0.5, 0.5, 0.3]}]}"
BOW = "{polygon: [[0, 0], [1, 1], [1, 0], [0, 1]]}"
TWICE = "{rest: [{dirichlet: {u: 0}}, {neumann: {u: 0}}]}"
EQUATIONS = "{rest: ['dx(u)*nx = 0', 'dy(u) = 0']}"
ACROSS = "{x: {dirichlet: {u: 0}}, rest: {dirichlet: {u: 0}}}"


@pytest.mark.parametrize(
    ("domain", "boundary", "message"),
    [
        (L_SHAPE, "{x: {dirichlet: {u: 0}}}", "boundary.y.max: u needs 1 condition here; 0 given"),
        (RING, "{hole: {dirichlet: {u: 0}}}", "'hole' is not a face or an axis"),
        (RING, ACROSS, "no part of the boundary lies on a side across x"),
        (CAVITY.replace("cavity", "rest"), None, "'rest' has a meaning in boundary"),
        (CAVITY.replace("0.5, R", "0.2, R"), None, r"touches itself at \(0.5, 0\)"),
        (BOW, None, r":8:1: domain: the boundary touches itself at \(0.5, 0.5\)"),
        (EMPTY, None, "the shape is empty"),
        (CAVITY, TWICE, "u needs 1 condition here; 2 given"),
        (CAVITY, EQUATIONS, "2 conditions where the equations ask for 1"),
    ],
)
def test_refused_with_the_reason(domain, boundary, message):
    with pytest.raises(SpecError, match=message):
        problem(domain, boundary)
