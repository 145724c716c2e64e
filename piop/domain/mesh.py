"""Meshes of triangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from piop.domain.curve import Array, cross


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


def quality(mesh: TriangleMesh) -> Array:
    """Smallest angle of each triangle in degrees ``[T]``; 60 at best."""
    a, b, c = np.sort(sides(mesh.points, mesh.triangles), axis=1).T
    return np.degrees(np.arccos(np.clip((b**2 + c**2 - a**2) / (2 * b * c), -1, 1)))


def circumcircles(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Centres ``[T, 2]`` and radii ``[T]`` of the circles through the corners."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    b, c = b - a, c - a
    twice = 2 * cross(b, c)
    bb, cc = (b * b).sum(1), (c * c).sum(1)
    x = (c[:, 1] * bb - b[:, 1] * cc) / twice
    y = (b[:, 0] * cc - c[:, 0] * bb) / twice
    return a + np.stack([x, y], 1), np.hypot(x, y)
