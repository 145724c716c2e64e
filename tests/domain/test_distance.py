"""Distances to boundaries as formulas: zero there, positive inside, smooth but at corners."""

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
    Shape,
    StarShaped,
    Union,
    box,
    outline,
)
from piop.domain.distance import approximate_distance
from piop.domain.rfunctions import half_planes

from .cases import AREAS, CAVITY, CROSS, L_SHAPE, RING, UNIT

SPIRAL = Polygon(
    ((0, 0), (5, 0), (5, 5), (1, 5), (1, 2), (3, 2), (3, 3), (2, 3), (2, 4), (4, 4), (4, 1), (0, 1))
)
TEETH = ((7, 3), (6, 3), (6, 1), (5, 1), (5, 3), (4, 3), (4, 1), (3, 1), (3, 3), (2, 3), (2, 1))
COMB = Polygon(((0, 0), (7, 0), *TEETH, (1, 1), (1, 3), (0, 3)))
HEXAGON = Polygon(tuple((math.cos(k * math.pi / 3), math.sin(k * math.pi / 3)) for k in range(6)))
SHAPES: dict[str, Shape] = {name: shape for name, (shape, _) in AREAS.items()} | {
    "spiral": SPIRAL,
    "comb": COMB,
    "hexagon": HEXAGON,
    "zed": Polygon(((0, 0), (2, 0), (2, 1), (3, 1), (3, 2), (1, 2), (1, 1), (0, 1))),
    "joined boxes": Union((UNIT, box((1, 2), (0, 0.5)))),
    "box in a box": Difference(box((0, 3), (0, 3)), (box((1, 2), (1, 2)),)),
    "half moon": Union((Disk((0, 0), 1), box((0, 2), (-0.5, 0.5)))),
}


def places(found: Outline, count: int = 4000):
    low, high = found.box()
    return low + (high - low) * np.random.default_rng(0).random((count, 2))


def at(distance, points):
    return distance(points[..., 0], points[..., 1])


@pytest.mark.parametrize("name", SHAPES)
def test_it_is_positive_inside_and_one_at_its_largest(name):
    found = outline(SHAPES[name])
    distance = approximate_distance(SHAPES[name], found)
    points = places(found, 20000)
    values = at(distance, points[SHAPES[name].inside(points)])
    assert values.min() > 0
    assert 0.95 < values.max() < 1.05


@pytest.mark.parametrize("name", SHAPES)
def test_it_vanishes_on_the_boundary_with_a_slope(name):
    """Away from corners the value near the boundary is the distance times a positive slope."""
    found = outline(SHAPES[name])
    distance = approximate_distance(SHAPES[name], found)
    size = math.sqrt(found.area)
    for curve in found.curves:
        s = np.linspace(0.1, 0.9, 9)
        edge, along = curve.at(s), curve.direction(s)
        inward = np.stack([-along[:, 1], along[:, 0]], 1)
        assert np.abs(at(distance, edge)).max() < 1e-13
        near, twice = (at(distance, edge + h * size * inward) for h in (1e-5, 2e-5))
        assert (near > 1e-8).all()
        assert twice / near == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("name", SHAPES)
def test_it_is_smooth_away_from_the_boundary(name):
    """A kink of slope k would make second differences k/h; those of half the step do not grow."""
    found = outline(SHAPES[name])
    size = math.sqrt(found.area)
    distance, points = approximate_distance(SHAPES[name], found), places(found, 60000)
    points = points[SHAPES[name].inside(points)]
    points = points[found.distance(points) > 0.03 * size]

    def bend(h):
        step = h * size * np.array([math.cos(0.7), math.sin(0.7)])
        ends = at(distance, points + step) + at(distance, points - step)
        return np.abs(ends - 2 * at(distance, points)).max() / h**2

    assert bend(1e-3) < 1.5 * bend(4e-3) + 1e-6


def test_a_disk_and_a_ring_have_simple_distances():
    disk = Disk((1, 2), 0.5)
    distance = approximate_distance(disk, outline(disk))
    points = places(outline(disk))
    r2 = ((points - (1, 2)) ** 2).sum(1)
    assert at(distance, points) == pytest.approx(1 - 4 * r2, rel=1e-2, abs=1e-12)
    ring = approximate_distance(RING, outline(RING))
    angle = np.linspace(0, 6, 13)
    round_it = np.stack([np.cos(angle), np.sin(angle)], 1)
    for radius in (0.2, 0.3, 0.45):
        values = at(ring, 0.5 + radius * round_it)
        assert values == pytest.approx(values[0])


@pytest.mark.parametrize(
    ("corner", "ways", "power"),
    [
        ((-1, -1), (math.pi / 4, math.pi / 6), 2.0),  # a right angle: like the product of distances
        ((0, 0), (-3 * math.pi / 4, 0.0), 2 / 3),  # the inner corner of an L
    ],
)
def test_at_a_corner_it_is_as_flat_as_harmonic_functions_are(corner, ways, power):
    distance = approximate_distance(L_SHAPE, outline(L_SHAPE))
    for way in ways:
        out = np.array([[math.cos(way), math.sin(way)]])
        values = [float(at(distance, corner + r * out)[0]) for r in (1e-4, 1e-3)]
        assert math.log10(values[1] / values[0]) == pytest.approx(power, abs=0.01)


def test_at_the_inner_corner_of_an_l_it_is_harmonic_to_leading_order():
    """r^(2/3) cos(2θ/3) about the diagonal: the ratios between directions tell."""
    distance = approximate_distance(L_SHAPE, outline(L_SHAPE))
    angles = np.linspace(-0.7 * math.pi, 0.7 * math.pi, 9)
    ways = angles - 3 * math.pi / 4
    points = 1e-3 * np.stack([np.cos(ways), np.sin(ways)], 1)
    values = at(distance, points)
    assert values / values[4] == pytest.approx(np.cos(2 * angles / 3), rel=5e-3)


def test_at_corners_themselves_it_is_finite():
    for name in SHAPES:
        found = outline(SHAPES[name])
        corners = np.array([c.point for c in found.corners])
        assert np.abs(at(approximate_distance(SHAPES[name], found), corners)).max() < 1e-6


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.3, 2), min_size=3, max_size=14), st.booleans())
def test_half_planes_make_up_any_polygon(radii, turned):
    """Polygons seen from one point, spiky and with corners of all angles."""
    ways = 2 * math.pi * (np.arange(len(radii)) + 0.1) / len(radii)
    corners = [(r * math.cos(w), r * math.sin(w)) for r, w in zip(radii, ways, strict=True)]
    polygon = Polygon(tuple(corners[::-1] if turned else corners))
    formula = half_planes(polygon.corners, 1.0)
    points = np.random.default_rng(1).uniform(-2, 2, (3000, 2))
    assert ((formula(points[:, 0], points[:, 1], np) > 0) == polygon.inside(points)).all()


@pytest.mark.parametrize("name", ["spiral", "comb", "hexagon", "zed", "L"])
def test_half_planes_make_up_polygons_that_wind(name):
    polygon = SHAPES[name]
    assert isinstance(polygon, Polygon)
    points = places(outline(polygon), 20000) * 1.2
    formula = half_planes(polygon.corners, 1.0)
    assert ((formula(points[:, 0], points[:, 1], np) > 0) == polygon.inside(points)).all()
    outside = formula.complement()
    assert outside(points[:, 0], points[:, 1], np) == pytest.approx(
        -formula(points[:, 0], points[:, 1], np)
    )


def test_corners_at_which_nothing_turns_are_no_corners():
    cut = Polygon(((0, 0), (0.5, 0), (1, 0), (1, 0.3), (1, 1), (0.2, 1), (0, 1), (0, 0.7)))
    assert half_planes(cut.corners, 1.0) == half_planes(UNIT.corners, 1.0)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (StarShaped((0, 0), Radius.of(lambda angle: 1 + 0 * angle)), "the boundary of a star"),
        (Union((UNIT, box((1, 2), (0, 0.5)), Disk((0, 1), 0.3))), "its parts touch along a line"),
    ],
)
def test_what_has_no_formula_is_told(shape, reason):
    with pytest.raises(GeometryError, match=reason):
        approximate_distance(shape, outline(shape))


def test_sides_that_are_shared_inside_do_no_harm():
    """A cross of two boxes and boxes side by side are taken by their sides, not by their parts."""
    for shape in (CROSS, SHAPES["joined boxes"]):
        found = outline(shape)
        middle = np.array([[1.0, 0.25]]) if shape is not CROSS else np.array([[0.5, 0.5]])
        assert at(approximate_distance(shape, found), middle)[0] > 0.3


def test_a_hole_far_from_the_sides_does_not_flatten_corners():
    distance = approximate_distance(CAVITY, outline(CAVITY))
    near = at(distance, np.array([[1e-4, 1e-4], [1e-3, 1e-3]]))
    assert near[1] / near[0] == pytest.approx(100, rel=0.02)
