"""Meshes of triangles, by Delaunay triangulation refined by circumcentres.

J. Ruppert, A Delaunay refinement algorithm for quality 2-dimensional mesh generation, J. Algorithms
18 (1995), doi:10.1006/jagm.1995.1021: an edge of the boundary whose diametral circle holds another
point is halved; a triangle that is too large or too thin gets a point at the centre of its
circumcircle, unless that point lies in the diametral circle of an edge, which is halved in its
place. Near sharp corners edges end on circles of radii that are powers of two, so that those of
both sides stop halving each other (sec. 5 there). Here many centres are added at once, none of them
inside the circumcircle of another that came first; Qhull triangulates.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay, KDTree

from piop.domain.curve import Array, GeometryError, Point, cross
from piop.domain.outline import Outline

MOST = 200_000  # points of a mesh
_ROUNDS = 400
_THIN = 1.35  # circumradius to shortest side: angles of at least 21.7 degrees
_LARGE = 0.70  # circumradius to the wanted side; 0.577 is that of an equilateral triangle
_STEP = math.pi / 8  # most that the boundary turns along one edge
_SHARP = math.pi / 3
_SMOOTHINGS = 4


@final
@dataclass(frozen=True)
class TriangleMesh:
    """Triangles that fill a shape, and the edges along its boundary.

    Attributes:
        points: Corners of triangles ``[V, 2]``.
        triangles: Their corners, counter-clockwise ``[T, 3]``.
        edges: Ends of the edges on the boundary, the shape on their left ``[E, 2]``.
        curves: Index of the outline's curve that each edge is a chord of ``[E]``.
    """

    points: Array
    triangles: Array
    edges: Array
    curves: Array


def areas(points: Array, triangles: Array) -> Array:
    """Signed areas ``[T]``."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return 0.5 * cross(b - a, c - a)


def sides(points: Array, triangles: Array) -> Array:
    """Lengths of the sides opposite to each corner ``[T, 3]``."""
    corners = points[triangles]
    return np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, -2, 1), axis=-1)


def circumcircles(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Centres ``[T, 2]`` and radii ``[T]`` of the circles through the corners."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    b, c = b - a, c - a
    twice = 2 * cross(b, c)
    bb, cc = (b * b).sum(1), (c * c).sum(1)
    x = (c[:, 1] * bb - b[:, 1] * cc) / twice
    y = (b[:, 0] * cc - c[:, 0] * bb) / twice
    return a + np.stack([x, y], 1), np.hypot(x, y)


def triangulate(outline: Outline, size: float) -> TriangleMesh:
    """Mesh a shape with triangles of about one size, smaller where the boundary asks for it.

    Args:
        outline: The boundary.
        size: Length of a side.

    Raises:
        GeometryError: If the shape needs too many triangles, as between parts that nearly touch.
    """
    return _Refinement(outline, size).run()


@final
class _Refinement:
    """Points and edges as they grow."""

    def __init__(self, outline: Outline, size: float) -> None:
        self.outline, self.size, self.whole = outline, size, outline.size
        self._require_few(outline.area / size**2)
        self.sharp = [c for c in outline.corners if c.angle < _SHARP]
        self.points: list[Array] = []
        self.number: dict[Point, int] = {}
        self.edges: list[tuple[int, int, int, float, float]] = []
        for k, curve in enumerate(outline.curves):
            s = curve.steps(size, _STEP)
            nodes = [self._node(p) for p in curve.at(s)]
            ends = pairwise(zip(nodes, s.tolist(), strict=True))
            self.edges += [(a, b, k, start, stop) for (a, start), (b, stop) in ends]
        self.sharp_nodes = {self._node(np.array(c.point)) for c in self.sharp}

    def _node(self, point: Array) -> int:
        """Number of a point; ends of curves that meet are one point."""
        key = tuple(np.round(point / self.whole, 8).tolist())
        if key not in self.number:
            self.number[key] = len(self.points)
            self.points.append(point)
        return self.number[key]

    def run(self) -> TriangleMesh:
        for _ in range(_ROUNDS):
            points = np.array(self.points)
            self._require_few(len(points))
            encroached = self._encroached(points, points)
            if len(encroached):
                self._halve(encroached)
                continue
            triangles = self._inside(points)
            centres, reach = self._centres(points, triangles)
            hit = self._encroached(points, centres)
            if len(hit):
                self._halve(hit)
            elif len(centres):
                self.points += list(_apart(centres, reach))
            else:
                return self._finished(points, triangles)
        reason = "parts of the boundary are too close to each other"
        raise GeometryError(f"it cannot be meshed: {reason}")

    def _require_few(self, count: float) -> None:
        if count > MOST:
            raise GeometryError(f"more than {MOST} points are needed; ask for larger triangles")

    def _encroached(self, points: Array, others: Array) -> Array:
        """Edges whose diametral circle holds one of the other points."""
        if not len(others):
            return np.empty(0, dtype=int)
        ends = np.array([e[:2] for e in self.edges])
        middles = points[ends].mean(1)
        radii = 0.5 * np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
        near = min(3, len(others))  # its two ends, and another one
        distances, _ = KDTree(others).query(middles, k=near)
        held = np.count_nonzero(distances.reshape(len(ends), -1) < radii[:, None] * (1 - 1e-9), 1)
        return np.flatnonzero(held)

    def _halve(self, which: Array) -> None:
        for i in which.tolist():
            a, b, k, start, stop = self.edges[i]
            middle = self._cut(a, b, k, start, stop)
            new = self._node(self.outline.curves[k].at(middle))
            self.edges[i] = (a, new, k, start, middle)
            self.edges.append((new, b, k, middle, stop))

    def _cut(self, a: int, b: int, k: int, start: float, stop: float) -> float:
        """Where to cut an edge: in the middle, or a power of two away from a sharp corner."""
        if (a in self.sharp_nodes) == (b in self.sharp_nodes):
            return 0.5 * (start + stop)
        length = abs(stop - start) * self.outline.curves[k].length
        fraction = 2.0 ** round(math.log2(length / 2)) / length
        fraction = fraction if 0.25 <= fraction <= 0.75 else 0.5
        return start + (fraction if a in self.sharp_nodes else 1 - fraction) * (stop - start)

    def _inside(self, points: Array) -> Array:
        """Triangles inside: those connected, without crossing an edge, to the left of one."""
        found = Delaunay(points)
        triangles, across = found.simplices.astype(np.int64), found.neighbors.astype(np.int64)
        flipped = areas(points, triangles) < 0
        triangles[flipped, 1:] = triangles[flipped, :0:-1]
        across[flipped, 1:] = across[flipped, :0:-1]
        count = len(points)
        # side k runs from corner k + 1 to corner k + 2, neighbour k lies across it
        keys = np.roll(triangles, -1, 1) * count + np.roll(triangles, -2, 1)
        ends = np.array([e[:2] for e in self.edges])
        forth, back = ends[:, 0] * count + ends[:, 1], ends[:, 1] * count + ends[:, 0]
        left = np.isin(keys, forth)
        if np.count_nonzero(left) != len(ends):
            raise GeometryError("it cannot be meshed: an edge of the boundary was lost")
        cut = left | np.isin(keys, back) | (across < 0)
        one, side = np.nonzero(~cut)
        shape = (len(triangles), len(triangles))
        graph = coo_array((np.ones(len(one)), (one, across[one, side])), shape)
        _, label = connected_components(graph, directed=False)
        return triangles[np.isin(label, label[left.any(1)])]

    def _centres(self, points: Array, triangles: Array) -> tuple[Array, Array]:
        """Circumcentres of triangles that are too large or too thin, the largest first."""
        centres, radii = circumcircles(points, triangles)
        lengths = sides(points, triangles)
        thin = (radii > _THIN * lengths.min(1)) & ~self._in_sharp_corner(triangles, lengths)
        chosen = np.flatnonzero(thin | (radii > _LARGE * self.size))
        chosen = chosen[np.argsort(-radii[chosen], kind="stable")]
        return centres[chosen], radii[chosen]

    def _in_sharp_corner(self, triangles: Array, lengths: Array) -> Array:
        """Triangles whose shortest side spans a sharp corner: no point can widen that."""
        if not self.sharp_nodes:
            return np.zeros(len(triangles), dtype=bool)
        legs: defaultdict[int, set[int]] = defaultdict(set)
        for a, b, k, _, _ in self.edges:
            own = {i for i, c in enumerate(self.sharp) if k in (c.before, c.after)}
            legs[a] |= own
            legs[b] |= own
        shortest = lengths.argmin(1)
        rows = np.arange(len(triangles))
        ends = [triangles[rows, (shortest + k) % 3].tolist() for k in (1, 2)]
        return np.array([bool(legs[a] & legs[b]) for a, b in zip(*ends, strict=True)])

    def _finished(self, points: Array, triangles: Array) -> TriangleMesh:
        """Move inner points to the mean of their neighbours as long as thin triangles gain."""
        fixed = np.zeros(len(points), dtype=bool)
        fixed[np.array([e[:2] for e in self.edges]).ravel()] = True
        best, worst = (points, triangles), _thinnest(points, triangles)
        for _ in range(_SMOOTHINGS):
            points = np.where(fixed[:, None], points, _neighbours_mean(points, triangles))
            if len(self._encroached(points, points)):
                break
            triangles = self._inside(points)
            thinnest = _thinnest(points, triangles)
            if thinnest >= worst:
                best, worst = (points, triangles), thinnest
        return self._mesh(*best)

    def _mesh(self, points: Array, triangles: Array) -> TriangleMesh:
        edges = np.array([e[:2] for e in self.edges])
        x, y = points[edges].transpose(2, 0, 1)
        area = 0.5 * float(np.sum(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]))
        if abs(areas(points, triangles).sum() - area) > 1e-9 * area:
            raise GeometryError("it cannot be meshed: triangles do not fill it")
        return TriangleMesh(points, triangles, edges, np.array([e[2] for e in self.edges]))


def _apart(centres: Array, reach: Array) -> Array:
    """Keep points that no earlier one that is kept has within its reach."""
    tree, alive, kept = KDTree(centres), np.ones(len(centres), dtype=bool), []
    for i in range(len(centres)):
        if alive[i]:
            kept.append(i)
            alive[tree.query_ball_point(centres[i], reach[i])] = False
    return centres[kept]


def _neighbours_mean(points: Array, triangles: Array) -> Array:
    total, count = np.zeros_like(points), np.zeros(len(points))
    for k in (1, 2):
        np.add.at(total, triangles, points[np.roll(triangles, k, 1)])
        np.add.at(count, triangles, 1.0)
    return total / np.maximum(count, 1)[:, None]


def _thinnest(points: Array, triangles: Array) -> float:
    """Least ratio of shortest side to circumradius."""
    _, radii = circumcircles(points, triangles)
    return float((sides(points, triangles).min(1) / radii).min())
