"""Meshes: they fill the shape, meet its boundary, and have no thin triangles."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.domain import Difference, Disk, GeometryError, Polygon, box, outline
from piop.domain.triangulation import areas, sides, triangulate

from .cases import AREAS, UNIT


def edge_counts(mesh):
    every = np.concatenate([mesh.triangles[:, [k, (k + 1) % 3]] for k in range(3)])
    found, count = np.unique(np.sort(every, 1), axis=0, return_counts=True)
    return {tuple(e): c for e, c in zip(found.tolist(), count.tolist(), strict=True)}


def quality(mesh):
    """Smallest angle of each triangle in degrees ``[T]``; 60 at best."""
    a, b, c = np.sort(sides(mesh.points, mesh.triangles), axis=1).T
    return np.degrees(np.arccos(np.clip((b**2 + c**2 - a**2) / (2 * b * c), -1, 1)))


def check(shape, size):
    """Every inner edge has two triangles, every outer one is an edge of the outline."""
    found = outline(shape)
    mesh = triangulate(found, size)
    counts = edge_counts(mesh)
    outer = {tuple(sorted(e)) for e in mesh.edges.tolist()}
    assert {e for e, c in counts.items() if c == 1} == outer
    assert set(counts.values()) <= {1, 2}
    assert np.unique(mesh.triangles).tolist() == list(range(len(mesh.points)))
    assert (areas(mesh.points, mesh.triangles) > 0).all()
    for k, curve in enumerate(found.curves):
        ends = mesh.points[mesh.edges[mesh.curves == k].ravel()]
        assert curve.distance(ends).max() < 1e-12 * found.size
    return found, mesh


@pytest.mark.parametrize("name", AREAS)
@pytest.mark.parametrize("size", [0.2, 0.08])
def test_triangles_fill_the_shape_and_are_not_thin(name, size):
    shape, area = AREAS[name]
    found, mesh = check(shape, size)
    # chords over π/8 cut 2.6 % off a disk
    tolerance = 0.026 if any(c.turn for c in found.curves) else 1e-12
    assert areas(mesh.points, mesh.triangles).sum() == pytest.approx(area, abs=tolerance)
    assert quality(mesh).min() > 20
    assert quality(mesh).mean() > 30
    assert sides(mesh.points, mesh.triangles).max() < 1.5 * size


def test_area_of_a_disk_is_met_with_second_order():
    missing = []
    for size in (0.1, 0.05):
        mesh = triangulate(outline(Disk((0, 0), 1)), size)
        missing.append(math.pi - areas(mesh.points, mesh.triangles).sum())
    assert 1.8 < math.log2(missing[0] / missing[1]) < 2.2


def test_a_gap_is_filled_with_small_triangles_while_large_ones_stay_large():
    _, mesh = check(AREAS["gap"][0], 0.2)
    lengths = sides(mesh.points, mesh.triangles)
    assert lengths.min() < 0.03
    assert lengths.max() > 0.1


def test_a_sharp_corner_ends_with_its_own_angle():
    mesh = check(Polygon(((0, 0), (1, 0), (1, 0.15))), 0.1)[1]
    angles = np.sort(quality(mesh))
    assert angles[0] == pytest.approx(math.degrees(math.atan(0.15)), rel=1e-6)
    assert angles[1] > 8


def test_what_needs_too_many_triangles_is_refused():
    with pytest.raises(GeometryError, match="more than 200000 points"):
        triangulate(outline(UNIT), 5e-4)


number = st.floats(0.15, 0.85)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    disk=st.tuples(number, number, st.floats(0.03, 0.3)),
    low=st.tuples(st.floats(0.1, 0.8), st.floats(0.1, 0.8)),
    sides=st.tuples(st.floats(0.05, 0.6), st.floats(0.05, 0.6)),
    size=st.floats(0.06, 0.4),
)
def test_any_square_less_a_disk_and_a_box_is_meshed_whole(disk, low, sides, size):
    x, y = ((a, a + s) for a, s in zip(low, sides, strict=True))
    shape = Difference(UNIT, (Disk(disk[:2], disk[2]), box(x, y)))
    try:
        found = outline(shape)
    except GeometryError:
        return
    mesh = check(shape, size)[1]
    angles = [c.angle for c in found.corners]
    if min(angles) > math.pi / 3:
        assert quality(mesh).min() > 15
