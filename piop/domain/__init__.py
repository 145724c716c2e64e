"""Shapes in the plane and their boundaries; ``piop.domain.delaunay`` meshes them with SciPy."""

from piop.domain.curve import Arc, Curve, GeometryError, RadialArc, Radius, Segment
from piop.domain.distance import ApproximateDistance, approximate_distance
from piop.domain.mesh import TriangleMesh, quality
from piop.domain.outline import Corner, Outline, named_by_sides, outline
from piop.domain.shapes import Difference, Disk, Polygon, Shape, Star, Union, box

__all__ = [
    "ApproximateDistance",
    "Arc",
    "Corner",
    "Curve",
    "Difference",
    "Disk",
    "GeometryError",
    "Outline",
    "Polygon",
    "RadialArc",
    "Radius",
    "Segment",
    "Shape",
    "Star",
    "TriangleMesh",
    "Union",
    "approximate_distance",
    "box",
    "named_by_sides",
    "outline",
    "quality",
]
