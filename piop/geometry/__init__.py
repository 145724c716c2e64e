"""Shapes in the plane and their boundaries; ``piop.geometry.delaunay`` meshes them with SciPy."""

from piop.geometry.apart import Apart, apart
from piop.geometry.curve import Arc, Curve, Segment
from piop.geometry.mesh import Mesh, quality
from piop.geometry.outline import Corner, Outline, named_by_sides, outline
from piop.geometry.radial import RadialArc
from piop.geometry.radius import GeometryError, Radius
from piop.geometry.shape import Difference, Disk, Polygon, Shape, Star, Union, box

__all__ = [
    "Apart",
    "Arc",
    "Corner",
    "Curve",
    "Difference",
    "Disk",
    "GeometryError",
    "Mesh",
    "Outline",
    "Polygon",
    "RadialArc",
    "Radius",
    "Segment",
    "Shape",
    "Star",
    "Union",
    "apart",
    "box",
    "named_by_sides",
    "outline",
    "quality",
]
