"""Boundaries of shapes: area, corners, faces, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.domain import (
    Difference,
    Disk,
    GeometryError,
    Outline,
    Polygon,
    Radius,
    StarShaped,
    Union,
    box,
    outline,
)
from piop.domain.curve import Arc
from piop.domain.outline import named_by_sides

from .cases import AREAS, CAVITY, CROSS, L_SHAPE, MOON, RING, U_SHAPE, UNIT


@pytest.mark.parametrize("name", AREAS)
def test_area_inside_the_outline_is_that_of_the_shape(name):
    shape, area = AREAS[name]
    assert outline(shape).area == pytest.approx(area, rel=1e-12)


def test_angles_are_those_inside_the_shape():
    angles = sorted(c.angle for c in outline(L_SHAPE).corners)
    assert angles == pytest.approx([math.pi / 2] * 5 + [3 * math.pi / 2])
    hole = [c.angle for c in outline(Difference(UNIT, (box((0.4, 0.6), (0.4, 0.6)),))).corners]
    assert sorted(hole) == pytest.approx([math.pi / 2] * 4 + [3 * math.pi / 2] * 4)
    assert [c.angle for c in outline(RING).corners] == pytest.approx([math.pi] * 8)
    tips = [c.angle for c in outline(MOON).corners if abs(c.angle - math.pi) > 1e-6]
    # circles cross at the angle between their radii
    assert tips == pytest.approx([math.acos(1 - 0.5**2 / 2)] * 2)


def test_outer_loop_comes_first_and_holes_run_the_other_way():
    found = outline(RING)
    outer, inner = ([found.curves[i] for i in loop] for loop in found.loops)
    assert all(isinstance(c, Arc) and c.radius == 0.5 and c.sweep > 0 for c in outer)
    assert all(isinstance(c, Arc) and c.radius == 0.12 and c.sweep < 0 for c in inner)


def test_curves_have_the_shape_on_their_left():
    for shape, _ in AREAS.values():
        for curve in outline(shape).curves:
            s = np.linspace(0.05, 0.95, 7)
            along = curve.direction(s)
            left = np.stack([-along[:, 1], along[:, 0]], 1)
            assert shape.inside(curve.at(s) + 1e-5 * left).all()
            assert not shape.inside(curve.at(s) - 1e-5 * left).any()


def test_faces_are_sides_of_the_box_around_holes_by_name_and_the_rest():
    def faces(shape):
        return set(named_by_sides(outline(shape), [(0, 1)] * 2, ("x", "y"), "outline").faces)

    sides = {"x.min", "x.max", "y.min", "y.max"}
    assert faces(UNIT) == sides
    assert faces(CAVITY) == sides | {"cavity"}
    assert faces(U_SHAPE) == faces(CROSS) == sides | {"outline"}
    assert faces(Disk((0.5, 0.5), 0.5)) == {"outline"}


def test_shared_sides_of_a_union_vanish():
    assert outline(Union((UNIT, box((1, 2), (0, 1))))).area == pytest.approx(2)
    joined = outline(Union((UNIT, box((0.5, 2), (0, 1)), box((0, 2), (0.2, 0.8)))))
    assert joined.area == pytest.approx(2)
    assert len(joined.loops) == 1


REFUSED = [
    (Difference(UNIT, (box((-1, 2), (-1, 2)),)), "the shape is empty"),
    (Polygon(((0, 0), (1, 1), (1, 0), (0, 1))), r"touches itself at \(0.5, 0.5\)"),
    (Difference(UNIT, (Disk((0.5, 0.25), 0.25),)), r"touches itself at \(0.5, "),
    (Union((UNIT, box((2, 3), (0, 1)))), "in 2 parts"),
    (Union((UNIT, box((1, 2), (1, 2)))), r"touches itself at \(1, 1\)"),
]


@pytest.mark.parametrize(("shape", "message"), REFUSED)
def test_what_has_no_boundary_of_its_own_is_refused(shape, message):
    with pytest.raises(GeometryError, match=message):
        outline(shape)


number = st.floats(0.05, 0.95).map(lambda v: round(v, 3))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(disks=st.lists(st.tuples(number, number, st.floats(0.05, 0.4)), min_size=1, max_size=3))
def test_area_of_a_square_less_any_disks_is_that_counted_on_a_fine_grid(disks):
    shape = Difference(UNIT, tuple(Disk((x, y), r) for x, y, r in disks))
    try:
        found = outline(shape)
    except GeometryError as error:  # several parts, tangent circles: an error, no guess
        assert "parts" in str(error) or "touches" in str(error)
        return
    side = (np.arange(600) + 0.5) / 600
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    assert found.area == pytest.approx(shape.inside(grid).mean(), abs=4e-3)


@pytest.mark.parametrize("name", [*AREAS, "star"])
def test_normals_point_out(name):
    """By the divergence theorem for linear fields."""
    wave = Radius.of(lambda angle: 0.7 + 0.2 * np.cos(3 * angle))
    shape = AREAS[name][0] if name in AREAS else StarShaped((0.3, -0.2), wave)
    found = outline(shape)
    found = Outline(tuple(c.named(c.face or "rest") for c in found.curves), found.loops)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    matrix, shift = np.random.default_rng(0).normal(size=(2, 2)), np.array([0.7, -0.3])
    flux = 0.0
    for curve in found.curves:
        points = curve.at(curve.along((nodes + 1) / 2))
        normals = found.normals(points, curve.face)
        assert np.linalg.norm(normals, axis=1) == pytest.approx(1)
        through = ((points @ matrix.T + shift) * normals).sum(1)
        flux += through @ weights * curve.length / 2
    assert flux == pytest.approx(np.trace(matrix) * found.area, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", AREAS)
def test_the_box_around_a_shape_holds_it_with_little_room(name):
    found = outline(AREAS[name][0])
    low, high = found.box()
    places = np.concatenate([c.at(np.linspace(0, 1, 1001)) for c in found.curves])
    assert (places > low).all() and (places < high).all()
    assert np.prod(np.ptp(places, axis=0)) > 0.99 * np.prod(high - low)


@pytest.mark.parametrize("name", [*AREAS, "star"])
def test_distances_are_negative_outside_and_of_points_of_the_boundary(name):
    wave = Radius.of(lambda angle: 0.7 + 0.2 * np.cos(3 * angle))
    shape = AREAS[name][0] if name in AREAS else StarShaped((0.3, -0.2), wave)
    found = outline(shape)
    low, high = found.box()
    points = np.random.default_rng(1).uniform(low - 0.3, high + 0.3, (2000, 2))
    feet, distance = found.nearest(points)
    assert np.array_equal(distance > 0, shape.inside(points))
    assert np.linalg.norm(points - feet, axis=1) == pytest.approx(np.abs(distance))
    assert np.abs(distance) == pytest.approx(found.distance(points))
