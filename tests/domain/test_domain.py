"""The three kinds of domain behind one interface."""

import numpy as np
import pytest
import sympy as sp

from piop.domain import (
    Box,
    Coordinate,
    Difference,
    Disk,
    GeometryError,
    PlaneRegion,
    Polygon,
    Radius,
    RegionFamily,
    StarShaped,
    box,
    trace,
)

X = Coordinate("x", sp.Symbol("x", real=True), 0.0, 2.0)
Y = Coordinate("y", sp.Symbol("y", real=True), -1.0, 3.0)
Z = Coordinate("z", sp.Symbol("z", real=True), 0.0, 1.0)
SIDES = (0.0, 2.0), (-1.0, 3.0)
CAVITY = Difference(box(*SIDES), (Disk((1.0, 1.0), 0.5, "cavity"),))
SLANTED = Polygon(((0, -1), (2, -1), (0, 3)))


def region(shape):
    return PlaneRegion((X, Y), shape, trace(shape, SIDES, ("x", "y")))


def family():
    star = StarShaped((1.0, 1.0), Radius.of(lambda angle: 0.5 + 0 * angle), "domain.of.hole")
    members = {"square": region(box(*SIDES)), "hole": region(Difference(box(*SIDES), (star,)))}
    return RegionFamily((X, Y), members, "k", {"domain.of.hole": sp.Symbol("r")}, True)


FIXED = {
    "interval": Box((X,)),
    "rectangle": Box((X, Y)),
    "cuboid": Box((X, Y, Z)),
    "cavity": region(CAVITY),
    "slanted": region(SLANTED),
}


@pytest.fixture(params=FIXED)
def domain(request):
    return FIXED[request.param]


def inside(domain, count=4000):
    low, high = np.array(domain.bounds).T
    points = low + (high - low) * np.random.default_rng(0).random((count, len(domain.axes)))
    return points[domain.contains(points)]


def test_the_filled_fraction_is_that_of_points_inside(domain):
    assert len(inside(domain)) / 4000 == pytest.approx(domain.filled, abs=0.03)


def test_points_of_faces_lie_on_the_boundary(domain):
    fractions = np.random.default_rng(1).random((50, len(domain.axes) - 1))
    for face in domain.faces:
        points = domain.points_on(face, fractions)
        assert points.shape == (50, len(domain.axes))
        assert domain.touches(points).all()
    assert domain.touches(domain.boundary_points(np.array([0.2, 0.7]))).all()
    assert not domain.touches(inside(domain)).any()


def test_a_step_along_the_normal_leaves_the_domain(domain):
    fractions = np.random.default_rng(2).random((20, len(domain.axes) - 1))
    for face in domain.faces:
        points = domain.points_on(face, 0.1 + 0.8 * fractions)
        normals = domain.normals(points, face)
        assert np.linalg.norm(normals, axis=1) == pytest.approx(1)
        assert not domain.contains(points + 1e-4 * normals).any()
        assert domain.contains(points - 1e-4 * normals).all()


def test_symbolic_normals_are_the_numbers_where_faces_are_straight(domain):
    for face in domain.faces:
        normal = domain.normal(face)
        point = domain.points_on(face, np.full((1, len(domain.axes) - 1), 0.3))
        if face == "cavity":
            assert [n.func.__name__ for n in normal] == domain.normal_names
        else:
            assert [float(n) for n in normal] == pytest.approx(domain.normals(point, face)[0])


def test_distance_factors_vanish_on_their_faces_and_are_positive_inside(domain):
    points = inside(domain)
    value = np.ones(len(points))
    for factor in domain.distance_factors(domain.faces):
        columns = [points[:, i] for i in factor.axes]
        value = value * factor(*columns)
        assert factor(*columns).max() <= 1 + 1e-9
    assert value.min() > 0
    edge = domain.boundary_points(np.array([0.3, 0.6]))
    factors = domain.distance_factors(domain.faces)
    product = np.prod([f(*(edge[:, i] for i in f.axes)) for f in factors], axis=0)
    assert np.abs(product).max() < 1e-6
    assert domain.distance_factors(()) == ()


def test_faces_of_a_box_stand_across_an_axis():
    found = Box((X, Y))
    assert found.faces == ("x.min", "x.max", "y.min", "y.max")
    assert found.across("y.max") == (Y, 3.0)
    assert found.where("x.max") == "at x = 2"
    assert found.is_box and not found.varies and found.fixed is found
    with pytest.raises(GeometryError, match="stands across no axis"):
        FIXED["cavity"].across("cavity")


def test_a_region_says_where_its_faces_are():
    assert FIXED["cavity"].where("cavity") == "on cavity"
    assert set(FIXED["slanted"].faces) == {"x.min", "y.min", "outline"}
    assert not FIXED["cavity"].is_box


def test_a_family_has_the_faces_of_all_members_and_no_common_region():
    found = family()
    assert found.varies and not found.is_box
    assert found.faces == ("y.min", "x.max", "y.max", "x.min", "outline")
    assert found.selection == ("k", {n: m.faces for n, m in found.members.items()})
    assert [float(n) for n in found.normal("x.max")] == [1.0, 0.0]
    with pytest.raises(GeometryError, match="differs from sample to sample"):
        _ = found.fixed
    assert found.typical is next(iter(found.members.values()))


def test_a_sample_of_a_family_has_its_own_radius():
    outline = family().sample({"domain.of.hole": Radius.of(lambda a: 0.25 + 0 * a)}, 1)
    assert outline.area == pytest.approx(8 - np.pi * 0.25**2)
    with pytest.raises(GeometryError, match="there are shapes 0 to 1"):
        family().sample({}, 2)
    with pytest.raises(GeometryError, match="reaches out of the interval"):
        family().sample({"domain.of.hole": Radius.of(lambda a: 1.5 + 0 * a)}, 1)
