"""Domains: boxes and regions of the plane; ``piop.domain.triangulation`` meshes them with SciPy."""

from piop.domain.curve import Arc, Curve, GeometryError, Segment
from piop.domain.distance import (
    ApproximateDistance,
    DistanceFactor,
    IntervalDistance,
    approximate_distance,
)
from piop.domain.domain import ENDS, Box, Coordinate, Domain, FixedDomain
from piop.domain.outline import Corner, Outline, named_by_sides, outline
from piop.domain.plane_region import PlaneRegion, RegionFamily, trace
from piop.domain.radial_curve import RadialArc, Radius
from piop.domain.shapes import Difference, Disk, Polygon, Shape, StarShaped, Union, box

__all__ = [
    "ENDS",
    "ApproximateDistance",
    "Arc",
    "Box",
    "Coordinate",
    "Corner",
    "Curve",
    "Difference",
    "Disk",
    "DistanceFactor",
    "Domain",
    "FixedDomain",
    "GeometryError",
    "IntervalDistance",
    "Outline",
    "PlaneRegion",
    "Polygon",
    "RadialArc",
    "Radius",
    "RegionFamily",
    "Segment",
    "Shape",
    "StarShaped",
    "Union",
    "approximate_distance",
    "box",
    "named_by_sides",
    "outline",
    "trace",
]
