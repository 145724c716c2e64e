"""Points that solutions on a shape are given at: as many as are asked for, well spread."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import KDTree

from piop.domain import Outline, TriangleMesh
from piop.domain.delaunay import triangulate
from piop.reference.fem.pointwise import Array

_SPARE = 1.25  # nodes of the first mesh to points that are chosen among them
_FINER = 0.85  # by which triangles shrink where there are too few
_SMOOTH = 1e-6  # angles that differ from π by more make a corner


def mesh_for(outline: Outline, points: int, degree: int) -> TriangleMesh:
    """Mesh a shape so finely that elements have somewhat more nodes than are asked for.

    Args:
        outline: Its boundary.
        points: How many are asked for.
        degree: Of the elements.

    Raises:
        GeometryError: If it cannot be meshed.
    """
    wanted = _SPARE * points + len(outline.corners)
    nodes_of_a_unit = degree**2 * 2 / math.sqrt(3)  # of triangles with sides of one
    side = math.sqrt(nodes_of_a_unit * outline.area / wanted)
    while True:
        mesh = triangulate(outline, side)
        have = nodes(mesh, degree)
        if have >= wanted:
            return mesh
        side *= min(_FINER, math.sqrt(have / wanted))


def nodes(mesh: TriangleMesh, degree: int) -> int:
    """Nodes of elements of degree one or two: corners, and middles of edges."""
    edges = (3 * len(mesh.triangles) + len(mesh.edges)) // 2
    return len(mesh.points) + (edges if degree == 2 else 0)


def spread(outline: Outline, places: Array, count: int) -> Array:
    """Choose nodes that are as far from each other as can be had, one after the other.

    The next is always the farthest from those chosen (T. F. Gonzalez, Clustering to minimize the
    maximum intercluster distance, Theor. Comput. Sci. 38 (1985), doi:10.1016/0304-3975(85)90224-5):
    no point of the shape is then farther from the cloud than its nearest two points from each
    other, but for the distance between nodes. Corners are left out: slopes may be infinite there.

    Args:
        outline: Boundary of the shape.
        places: Where the nodes are ``[n, 2]``.
        count: How many to choose.

    Returns:
        Their numbers ``[count]``, ascending.
    """
    corners = [c.place for c in outline.corners if abs(c.angle - math.pi) > _SMOOTH]
    away = np.full(len(places), np.inf)
    if corners:
        away[KDTree(places).query(np.array(corners))[1]] = -np.inf
    chosen = [int(np.argmin(np.where(away > 0, places.sum(1), np.inf)))]
    for _ in range(count - 1):
        gap = np.linalg.norm(places - places[chosen[-1]], axis=1)
        away = np.minimum(away, gap)
        chosen.append(int(away.argmax()))
    return np.sort(chosen)


def found_again(places: Array, wanted: Array) -> Array:
    """Numbers of the points of ``places [n, 2]`` that are nearest to those wanted ``[m, 2]``."""
    return np.asarray(KDTree(places).query(wanted)[1])
