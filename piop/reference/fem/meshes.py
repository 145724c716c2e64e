"""Meshes of a region, each finer than the one before, and the points of the output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from scipy.spatial import KDTree
from skfem.mesh import MeshTri1, MeshTri2
from sympy import Expr

from piop.domain import Coordinate, Outline, Radius, RegionFamily
from piop.domain.triangulation import TriangleMesh, triangulate
from piop.reference.fem.space import Array
from piop.reference.input_values import Sources

_MOST_CUTS = 4


@final
@dataclass(frozen=True)
class MeshLevel:
    """One mesh of a region.

    Attributes:
        mesh: Straight triangles, of scikit-fem; vertices of earlier meshes come first, in order.
        curves: Curve of the outline that each facet is a chord of, −1 for inner ones.
    """

    mesh: Any
    curves: Array

    def faces(self, outline: Outline) -> dict[str, Array]:
        """Facets on each face."""
        names = np.array([c.face for c in outline.curves])
        return {
            f: np.flatnonzero((self.curves >= 0) & (names[self.curves] == f)) for f in outline.faces
        }

    def curved(self, outline: Outline) -> Any:
        """The same with edges along arcs bent: the middles of chords moved onto the arcs."""
        if not any(c.turn for c in outline.curves):
            return self.mesh
        bent: Any = MeshTri2.from_mesh(self.mesh)
        points = np.array(bent.doflocs)
        middles = bent.dofs.facet_dofs[0]
        for k, curve in enumerate(outline.curves):
            if curve.turn:
                own = middles[self.curves == k]
                points[:, own] = curve.at(curve.parameter(points[:, own].T)).T
        return replace(bent, doflocs=points)


@final
class MeshHierarchy:
    """The meshes of a shape.

    Args:
        outline: Its boundary.
        mesh: The coarsest one.
        prescribed: Whether values are prescribed on each face.
        degree: Of the elements.
    """

    def __init__(
        self, outline: Outline, mesh: TriangleMesh, prescribed: Mapping[str, bool], degree: int
    ) -> None:
        self.outline, self.first = outline, mesh
        self.same = 1e-8 * outline.size
        self.cuts = self._cuts(prescribed, degree)

    def _cuts(self, prescribed: Mapping[str, bool], degree: int) -> dict[int, int]:
        """Number of additional cuts of the triangles at each corner, beside those in four."""
        found = {}
        for corner in self.outline.corners:
            before, after = (
                prescribed[self.outline.curves[k].face] for k in (corner.before, corner.after)
            )
            if before == after and abs(corner.angle - math.pi) < 1e-6:
                continue
            exponent = math.pi / corner.angle / (1 if before == after else 2)
            away = np.linalg.norm(self.first.points - np.array(corner.point), axis=1)
            extra = math.ceil(degree / exponent - 1e-9) - 1
            found[int(away.argmin())] = min(max(extra, 0), _MOST_CUTS)
        return found

    def __iter__(self) -> Iterator[MeshLevel]:
        """Yield finer and finer meshes, without end."""
        mesh: Any = MeshTri1(self.first.points.T.copy(), self.first.triangles.T.copy())
        while True:
            level = self._level(mesh)
            yield level
            mesh = self._onto_curves(level.mesh, level.mesh.refined())
            for vertex, times in self.cuts.items():
                for _ in range(times):
                    here = np.flatnonzero((mesh.t == vertex).any(0))
                    mesh = self._onto_curves(mesh, mesh.refined(here))

    def _level(self, mesh: Any) -> MeshLevel:
        """Find the curve of each facet on the boundary: both of its ends lie on it."""
        curves = np.full(mesh.facets.shape[1], -1)
        outer = mesh.boundary_facets()
        ends = mesh.p[:, mesh.facets[:, outer]]  # [2, end, facet]
        first, last, middle = (
            np.array([c.distance(p.T) for c in self.outline.curves])
            for p in (ends[:, 0], ends[:, 1], ends.mean(1))
        )
        there = np.maximum(first, last) < self.same
        curves[outer] = np.argmin(np.where(there, middle, np.inf), 0)
        return MeshLevel(mesh, curves)

    def _onto_curves(self, before: Any, mesh: Any) -> Any:
        """Move new vertices on the boundary from chords onto arcs."""
        curves = self._level(before).curves
        bent = [k for k, c in enumerate(self.outline.curves) if c.turn]
        chords = np.flatnonzero(np.isin(curves, bent))
        new = np.arange(before.p.shape[1], mesh.p.shape[1])
        if not len(chords) or not len(new):
            return mesh
        middles = before.p[:, before.facets[:, chords]].mean(1)
        points = np.array(mesh.p)
        away, which = KDTree(middles.T).query(points[:, new].T)
        own = curves[chords][which]
        for k in bent:
            moved = new[(away < self.same) & (own == k)]
            curve = self.outline.curves[k]
            points[:, moved] = curve.at(curve.parameter(points[:, moved].T)).T
        return replace(mesh, doflocs=points)


def samples_by_region(family: RegionFamily, sources: Sources) -> list[list[int]]:
    """Group samples by their regions.

    Args:
        family: The regions.
        sources: Inputs of B samples.

    Returns:
        Samples of each region that occurs. Radii are not compared: where they depend on inputs
        every sample is by itself.
    """
    own = range(sources.batch) if family.redrawn else region_numbers(family, sources)
    found: dict[int, list[int]] = {}
    for sample, number in enumerate(own):
        found.setdefault(number, []).append(sample)
    return list(found.values())


def region_numbers(family: RegionFamily, sources: Sources) -> list[int]:
    """Return the number of each sample's region within its family."""
    numbers = sources.number(family.selector)
    return numbers.expand(sources.batch).round().long().tolist()


def trace_outline(family: RegionFamily, sources: Sources) -> Outline:
    """Trace the boundary of one sample's region.

    Args:
        family: The regions.
        sources: Inputs of that sample, and of others with the same region.

    Raises:
        GeometryError: If there is no such region.
    """
    own = sources.take([0])
    number = region_numbers(family, own)[0] if family.selector else 0
    radii = {key: _radius(own, expression) for key, expression in family.radii.items()}
    return family.sample(radii, number)


def _radius(sources: Sources, expression: Expr) -> Radius:
    evaluate = sources.along(expression, [a.symbol for a in sources.problem.angles])

    def along(angles: Array) -> Array:
        points = torch.from_numpy(angles).to(sources.device)
        return evaluate(points[None])[0].to(torch.float64).cpu().numpy()

    return Radius.of(along)


_SPARE = 1.25  # nodes of the first mesh to points that are chosen among them
_FINER = 0.85  # by which triangles shrink where there are too few
_SMOOTH = 1e-6  # angles that differ from π by more make a corner


def mesh_for(outline: Outline, points: int) -> TriangleMesh:
    """Mesh a shape so finely that elements have somewhat more nodes than the output has points.

    Elements of degree two have nodes at corners and at middles of edges.

    Args:
        outline: Its boundary.
        points: Number of points of the output.

    Raises:
        GeometryError: If it cannot be meshed.
    """
    wanted = _SPARE * points + len(outline.corners)
    nodes_of_a_unit = 8 / math.sqrt(3)  # of triangles with sides of one
    side = math.sqrt(nodes_of_a_unit * outline.area / wanted)
    while True:
        mesh = triangulate(outline, side)
        have = node_count(mesh)
        if have >= wanted:
            return mesh
        side *= min(_FINER, math.sqrt(have / wanted))


def grid_side(space: Sequence[Coordinate], shape: Sequence[int]) -> float:
    """Return how long sides of triangles are that are as large as the cells of a grid.

    Args:
        space: Axes of the box around the shape.
        shape: Points of the grid along each.
    """
    counts = zip(space, shape, strict=True)
    return math.sqrt(math.prod(c.length / max(n - 1, 1) for c, n in counts))


def node_count(mesh: TriangleMesh) -> int:
    """Nodes of elements of degree two: corners and middles of edges."""
    return len(mesh.points) + (3 * len(mesh.triangles) + len(mesh.edges)) // 2


def spread_points(outline: Outline, nodes: Array, count: int) -> Array:
    """Choose nodes as far from each other as possible, one after the other.

    The next is always the farthest from those selected (T. F. Gonzalez, Clustering to minimize the
    maximum intercluster distance, Theor. Comput. Sci. 38 (1985), doi:10.1016/0304-3975(85)90224-5):
    no point of the shape is then farther from the cloud than its nearest two points from each
    other, but for the distance between nodes. Corners are left out: slopes may be infinite there.

    Args:
        outline: Boundary of the shape.
        nodes: Positions of the nodes ``[n, 2]``.
        count: Number of nodes to choose.

    Returns:
        Numbers of the chosen nodes ``[count]``, ascending.
    """
    corners = [c.point for c in outline.corners if abs(c.angle - math.pi) > _SMOOTH]
    away = np.full(len(nodes), np.inf)
    if corners:
        away[KDTree(nodes).query(np.array(corners))[1]] = -np.inf
    selected = [int(np.argmin(np.where(away > 0, nodes.sum(1), np.inf)))]
    for _ in range(count - 1):
        gap = np.linalg.norm(nodes - nodes[selected[-1]], axis=1)
        away = np.minimum(away, gap)
        selected.append(int(away.argmax()))
    return np.sort(selected)
