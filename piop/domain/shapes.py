"""Shapes in the plane: polygons, disks and star-shaped regions, their unions and differences."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import final

import numpy as np

from piop.domain.curve import Arc, Array, Curve, GeometryError, Point, Segment
from piop.domain.radial_curve import RadialArc, Radius
from piop.domain.rfunctions import Circle, Formula, RIntersection, RUnion, half_planes


class Shape(ABC):
    """A region of the plane."""

    @abstractmethod
    def inside(self, points: Array) -> Array:
        """Whether points ``[N, 2]`` lie inside ``[N]``; on the boundary it may be either."""

    def curves(self) -> tuple[Curve, ...]:
        """Curves that contain the boundary, and perhaps curves that are not part of it."""
        return tuple(curve for part in self.parts_of() for curve in part.curves())

    @abstractmethod
    def distance_formula(self, size: float) -> Formula:
        """Return a function that is positive inside and vanishes on the boundary.

        Args:
            size: Length of the whole region.

        Raises:
            GeometryError: If there is none.
        """

    def parts_of(self) -> tuple[Shape, ...]:
        """The shapes that it is put together from."""
        return ()

    def with_radii(self, radii: Mapping[str, Radius]) -> Shape:
        """The same shape with other radii of its star-shaped parts, by their keys."""
        return self

    def star_shaped(self) -> Iterator[StarShaped]:
        """The star-shaped regions in it, in the order they are written."""
        for part in self.parts_of():
            yield from part.star_shaped()


@final
@dataclass(frozen=True)
class Polygon(Shape):
    """The inside of a closed line through corners, in either direction.

    Attributes:
        corners: Three or more.
        face: Name of its boundary; may be empty.
    """

    corners: tuple[Point, ...]
    face: str = ""

    def inside(self, points: Array) -> Array:
        """Count the sides that a ray to the right crosses."""
        ends = np.asarray(self.corners, dtype=float)
        (x0, y0), (x1, y1) = ends.T, np.roll(ends, -1, 0).T
        x, y = points[:, :1], points[:, 1:]
        spans = (y0 <= y) != (y1 <= y)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
        return np.count_nonzero(spans & (x < crossing), axis=1) % 2 == 1

    def curves(self) -> tuple[Curve, ...]:
        """Its sides, those without length left out."""
        following = (*self.corners[1:], self.corners[0])
        pairs = zip(self.corners, following, strict=True)
        return tuple(Segment(self.face, a, b) for a, b in pairs if a != b)

    def distance_formula(self, size: float) -> Formula:
        """See the base class."""
        return half_planes(self.corners, size)


def box(x: tuple[float, float], y: tuple[float, float], face: str = "") -> Polygon:
    """A rectangle along the axes, given by an interval along each."""
    return Polygon(((x[0], y[0]), (x[1], y[0]), (x[1], y[1]), (x[0], y[1])), face)


@final
@dataclass(frozen=True)
class Disk(Shape):
    """A disk.

    Attributes:
        centre: Of its circle.
        radius: Of its circle.
        face: Name of its boundary; may be empty.
    """

    centre: Point
    radius: float
    face: str = ""

    def inside(self, points: Array) -> Array:
        """Compare distances from the centre with the radius."""
        return np.linalg.norm(points - np.asarray(self.centre), axis=-1) < self.radius

    def curves(self) -> tuple[Curve, ...]:
        """Four quarters of its circle."""
        circle, quarter = (self.face, self.centre, self.radius), math.pi / 2
        return tuple(Arc(*circle, k * quarter, quarter) for k in range(4))

    def distance_formula(self, size: float) -> Formula:
        """See the base class."""
        return Circle(self.centre, self.radius)


@final
@dataclass(frozen=True)
class StarShaped(Shape):
    """A star-shaped region: what a radius sweeps as it turns once about a centre.

    Attributes:
        centre: From which every point of the boundary is seen.
        radius: By the angle from the first axis, counter-clockwise.
        key: By which the radius can be replaced.
        face: Name of its boundary; may be empty.
    """

    centre: Point
    radius: Radius
    key: str = ""
    face: str = ""

    def inside(self, points: Array) -> Array:
        """Compare distances from the centre with the radius at their angle."""
        away = points - np.asarray(self.centre)
        return np.linalg.norm(away, axis=-1) < self.radius(np.arctan2(away[:, 1], away[:, 0]))

    def curves(self) -> tuple[Curve, ...]:
        """Four quarters of its boundary."""
        curve, quarter = (self.face, self.centre, self.radius), math.pi / 2
        return tuple(RadialArc(*curve, k * quarter, quarter) for k in range(4))

    def distance_formula(self, size: float) -> Formula:
        """See the base class.

        Raises:
            GeometryError: Always.
        """
        raise GeometryError("no formula gives the distance to the boundary of a star")

    def with_radii(self, radii: Mapping[str, Radius]) -> Shape:
        """See the base class."""
        return replace(self, radius=radii.get(self.key, self.radius))

    def star_shaped(self) -> Iterator[StarShaped]:
        """Itself."""
        yield self


@final
@dataclass(frozen=True)
class Union(Shape):
    """The points in any of its parts."""

    parts: tuple[Shape, ...]

    def inside(self, points: Array) -> Array:
        """Inside any part."""
        return np.logical_or.reduce([p.inside(points) for p in self.parts])

    def distance_formula(self, size: float) -> Formula:
        """See the base class."""
        parts = [p.distance_formula(size) for p in self.parts]
        return reduce(lambda a, b: RUnion(a, b, math.pi, size), parts)

    def parts_of(self) -> tuple[Shape, ...]:
        """See the base class."""
        return self.parts

    def with_radii(self, radii: Mapping[str, Radius]) -> Shape:
        """See the base class."""
        return Union(tuple(p.with_radii(radii) for p in self.parts))


@final
@dataclass(frozen=True)
class Difference(Shape):
    """The points in one shape and in none of the others."""

    whole: Shape
    removed: tuple[Shape, ...]

    def inside(self, points: Array) -> Array:
        """Inside the first and outside the rest."""
        return self.whole.inside(points) & ~Union(self.removed).inside(points)

    def distance_formula(self, size: float) -> Formula:
        """See the base class."""
        whole, *removed = (p.distance_formula(size) for p in self.parts_of())
        return reduce(lambda a, b: RIntersection(a, b.complement(), math.pi, size), removed, whole)

    def parts_of(self) -> tuple[Shape, ...]:
        """See the base class."""
        return (self.whole, *self.removed)

    def with_radii(self, radii: Mapping[str, Radius]) -> Shape:
        """See the base class."""
        whole, *removed = (p.with_radii(radii) for p in self.parts_of())
        return Difference(whole, tuple(removed))
