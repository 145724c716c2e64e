"""Domains: boxes and regions of the plane; ``piop.domain.triangulation`` meshes them with SciPy."""

from piop.domain.curve import GeometryError
from piop.domain.distance import DistanceFactor
from piop.domain.domain import ENDS, Box, Coordinate, Domain, FixedDomain
from piop.domain.outline import Outline, outline
from piop.domain.plane_region import PlaneRegion, RegionFamily, trace
from piop.domain.radial_curve import Radius
from piop.domain.shapes import Difference, Disk, Polygon, Shape, StarShaped, Union, box

__all__ = [
    "ENDS",
    "Box",
    "Coordinate",
    "Difference",
    "Disk",
    "DistanceFactor",
    "Domain",
    "FixedDomain",
    "GeometryError",
    "Outline",
    "PlaneRegion",
    "Polygon",
    "Radius",
    "RegionFamily",
    "Shape",
    "StarShaped",
    "Union",
    "box",
    "outline",
    "trace",
]
