"""Shapes in the plane and their boundaries; ``piop.geometry.delaunay`` meshes them with SciPy."""

from piop.geometry.curve import Arc, Curve, Segment
from piop.geometry.mesh import Mesh, quality
from piop.geometry.outline import Corner, GeometryError, Outline, named_by_sides, outline
from piop.geometry.shape import Difference, Disk, Polygon, Shape, Union, box

__all__ = [
    "Arc",
    "Corner",
    "Curve",
    "Difference",
    "Disk",
    "GeometryError",
    "Mesh",
    "Outline",
    "Polygon",
    "Segment",
    "Shape",
    "Union",
    "box",
    "named_by_sides",
    "outline",
    "quality",
]
