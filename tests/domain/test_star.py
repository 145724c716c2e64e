"""Stars: what a radius that depends on the angle sweeps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.domain import Difference, Disk, GeometryError, Radius, StarShaped, Union, box, outline

from .cases import UNIT
from .test_mesh import check

ANGLES = 2 * math.pi * np.arange(20_000) / 20_000


def wavy(size=0.3, wave=0.05, number=5):
    """A radius with one wave, and its slope."""
    return (
        lambda angle: size + wave * np.cos(number * angle),
        lambda angle: -wave * number * np.sin(number * angle),
    )


def random_radius(seed, waves=10):
    """That of the unit cells of Geo-FNO, cut off after some waves, and its slope."""
    random = np.random.default_rng(seed)
    k = np.arange(1, waves + 1)
    scale = np.sqrt(16 / (k**2 + 9) / math.pi)
    a, b = random.standard_normal((2, waves)) * scale

    def field(angle):
        return np.cos(np.outer(angle, k)) @ a + np.sin(np.outer(angle, k)) @ b

    def slope(angle):
        along = np.sin(np.outer(angle, k)) @ (-k * a) + np.cos(np.outer(angle, k)) @ (k * b)
        e = np.exp(field(angle))
        return -0.2 * e / (1 + e) ** 2 * along

    return lambda angle: 0.2 + 0.2 / (1 + np.exp(field(angle))), slope


RADII = {"wavy": wavy(), **{f"random {n}": random_radius(n) for n in range(3)}}


@pytest.mark.parametrize("name", RADII)
def test_area_and_length_are_those_of_the_integrals(name):
    """Trapezoids of a smooth periodic function miss by less than rounding."""
    radius, slope = RADII[name]
    found = outline(StarShaped((0.4, -0.3), Radius.of(radius), face="star"))
    r, along = radius(ANGLES), slope(ANGLES)
    assert found.area == pytest.approx(math.pi * np.mean(r**2), rel=1e-9)
    length = 2 * math.pi * np.mean(np.sqrt(r**2 + along**2))
    assert sum(c.length for c in found.curves) == pytest.approx(length, rel=1e-7)
    hole = outline(Difference(box((-1, 2), (-1, 1)), (StarShaped((0.4, -0.3), Radius.of(radius)),)))
    assert hole.area == pytest.approx(6 - found.area, rel=1e-9)


@pytest.mark.parametrize("name", RADII)
def test_tangents_are_those_of_differences_and_nearest_points_are_nearest(name):
    radius, _ = RADII[name]
    random = np.random.default_rng(1)
    for curve in StarShaped((0.5, 0.5), Radius.of(radius)).curves():
        s, h = np.linspace(0.1, 0.9, 9), 1e-5
        secant = (curve.at(s + h) - curve.at(s - h)) / (2 * h)
        secant /= np.linalg.norm(secant, axis=1, keepdims=True)
        assert np.abs(curve.direction(s) - secant).max() < 1e-6
        assert np.abs(curve.at(curve.parameter(curve.at(s))) - curve.at(s)).max() < 1e-12
        beside = curve.at(s) + 0.004 * random.uniform(-1, 1, (9, 2))
        every = curve.at(np.linspace(0, 1, 20_001))
        least = np.linalg.norm(every[:, None] - beside, axis=2).min(0)
        found = curve.distance(beside)
        assert (found <= least + 1e-12).all()
        assert (least - found).max() < curve.length / 20_000  # the step between those looked at


@pytest.mark.parametrize("name", RADII)
@pytest.mark.parametrize("size", [0.2, 0.07])
def test_triangles_fill_it_and_meet_its_boundary(name, size):
    star = StarShaped((0.5, 0.5), Radius.of(RADII[name][0]), face="cavity")
    found, mesh = check(Difference(UNIT, (star,)), size)
    chords = mesh.points[mesh.edges]
    turns = []
    for (start, stop), k in zip(chords, mesh.curves, strict=True):
        curve = found.curves[k]
        s = curve.parameter(np.stack([start, stop]))
        along = curve.direction(s)
        turns.append(math.acos(min(1.0, float(along[0] @ along[1]))))
    assert max(turns) < math.pi / 8 + 1e-2


@settings(max_examples=8, deadline=None)
@given(st.floats(0.15, 0.3), st.floats(-0.3, 0.3), st.integers(2, 7), st.floats(0.2, 0.8))
def test_any_wave_makes_a_mesh(size, share, number, x):
    radius = Radius.of(wavy(size, share * size, number)[0])
    check(Difference(box((-0.5, 1.5), (0, 1)), (StarShaped((x, 0.5), radius, face="hole"),)), 0.15)


def test_a_constant_radius_is_a_disk():
    disk, star = (
        outline(Disk((0.5, 0.5), 0.2)),
        outline(StarShaped((0.5, 0.5), Radius.of(lambda _: 0.2))),
    )
    assert star.area == pytest.approx(disk.area, rel=1e-12)
    assert [c.angle for c in star.corners] == pytest.approx([math.pi] * 4)
    assert sum(c.turn for c in star.curves) == pytest.approx(2 * math.pi, rel=1e-4)


def test_stars_cut_straight_sides_disks_and_each_other():
    """Areas by counting the squares of a fine grid."""
    first = StarShaped((0.5, 0.0), Radius.of(wavy()[0]), face="first")
    second = StarShaped((0.4, 0.35), Radius.of(wavy(0.2, 0.03, 4)[0]), face="second")
    middles = (np.arange(1200) + 0.5) / 1200
    grid = np.stack(np.meshgrid(middles, middles), -1).reshape(-1, 2)
    for shape in (
        Difference(UNIT, (first,)),
        Difference(UNIT, (Union((first, second)),)),
        Difference(UNIT, (Disk((0.5, 0.5), 0.25), first)),
    ):
        assert outline(shape).area == pytest.approx(shape.inside(grid).mean(), abs=2e-4)


def test_curves_of_one_star_meet_at_their_ends_alone():
    curves = StarShaped((0.5, 0.5), Radius.of(wavy()[0])).curves()
    assert len(curves[0].intersections(curves[1])) == 0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda angle: 0.1 - 0.2 * np.cos(angle), "its radius is -0.1 at the angle 0"),
        (lambda angle: np.where(angle < 1, np.nan, 0.2), "its radius is nan at the angle 0"),
        (lambda angle: np.where(angle < 1, 0.1, 0.2), "jumps, or changes too fast"),
        (lambda angle: 0.2 + 0.01 * np.cos(900 * angle), "fewer or longer waves"),
    ],
)
def test_radii_that_trace_no_boundary_are_refused(function, message):
    with pytest.raises(GeometryError, match=message):
        Radius.of(function)


def test_radii_are_replaced_by_their_key_wherever_they_stand():
    star = StarShaped((0.5, 0.5), Radius.of(lambda _: 0.2), "here")
    shape = Difference(Union((UNIT, Disk((1, 1), 0.1))), (star,))
    other = shape.with_radii({"here": Radius.of(lambda _: 0.3), "there": Radius.of(lambda _: 9.0)})
    area = outline(shape).area - outline(other).area
    assert area == pytest.approx(math.pi * (0.09 - 0.04), rel=1e-9)
