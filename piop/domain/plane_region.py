"""Regions of the plane as domains: fixed, or one per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from sympy import Expr, Float, Function, Integer

from piop.domain.curve import Array, GeometryError
from piop.domain.distance import DistanceFactor, approximate_distance
from piop.domain.domain import Domain, FixedDomain
from piop.domain.outline import Outline, named_by_sides, outline
from piop.domain.radial_curve import Radius
from piop.domain.shapes import Shape

OUTLINE = "outline"
"""Face of what lies on no side of the box around a region and belongs to no hole."""
STRAIGHT = 1e-12
"""Directions that differ by less are one."""
_ON = 1e-9  # of the size: points that are nearer to the boundary lie on it


@final
@dataclass(frozen=True, eq=False)
class PlaneRegion(FixedDomain):
    """One region of the plane, which all samples have.

    Attributes:
        shape: The region.
        outline: Its boundary.
    """

    shape: Shape
    outline: Outline

    @property
    def faces(self) -> tuple[str, ...]:
        """See the base class."""
        return self.outline.faces

    @property
    def volume(self) -> float:
        """See the base class: its area."""
        return self.outline.area

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """See the base class."""
        (x0, y0), (x1, y1) = self.outline.box().tolist()
        return [(x0, x1), (y0, y1)]

    def normal(self, face: str) -> tuple[Expr, ...]:
        """See the base class."""
        return _normal(self, (self.outline,), face)

    def contains(self, points: Array) -> Array:
        """See the base class."""
        return np.asarray(self.shape.inside(points))

    def touches(self, points: Array) -> Array:
        """See the base class."""
        return self.outline.distance(points) <= _ON * self.outline.size

    def normals(self, points: Array, face: str) -> Array:
        """See the base class."""
        return self.outline.normals(points, face)

    def points_on(self, face: str, fractions: Array) -> Array:
        """See the base class; the curves of the face one after the other."""
        curves = [c for c in self.outline.curves if c.face == face]
        ends = np.cumsum([0.0] + [c.length for c in curves])
        at = fractions[:, 0] * ends[-1]
        on = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(curves) - 1)
        points = np.empty((len(at), 2))
        for i, curve in enumerate(curves):
            own = on == i
            points[own] = curve.at(curve.along((at[own] - ends[i]) / curve.length))
        return points

    def boundary_points(self, fractions: Array) -> Array:
        """See the base class; on every curve."""
        return np.concatenate([curve.at(fractions) for curve in self.outline.curves])

    def distance_factors(self, faces: Sequence[str]) -> tuple[DistanceFactor, ...]:
        """See the base class; one factor for all of the boundary."""
        return (approximate_distance(self.shape, self.outline),) if faces else ()


@final
@dataclass(frozen=True, eq=False)
class RegionFamily(Domain):
    """A region for each sample: selected from several, or with radii that are drawn.

    Attributes:
        members: The regions by their names in the spec, in the order in which samples number them;
            where radii depend on inputs, those of inputs in the middle of their distributions.
        selector: The hidden input whose value is the number of a sample's region; empty where there
            is one member.
        radii: Radius of each star-shaped part, by where it stands in the spec.
        redrawn: Whether radii depend on inputs, so that no two samples have the same region.
    """

    members: Mapping[str, PlaneRegion]
    selector: str
    radii: Mapping[str, Expr]
    redrawn: bool
    varies = True

    @property
    def fixed(self) -> FixedDomain:
        """See the base class."""
        raise GeometryError("the shape differs from sample to sample")

    @property
    def typical(self) -> FixedDomain:
        """See the base class; the first member."""
        return next(iter(self.members.values()))

    @property
    def faces(self) -> tuple[str, ...]:
        """See the base class; those of every member."""
        return tuple(dict.fromkeys(face for m in self.members.values() for face in m.faces))

    @property
    def selection(self) -> tuple[str, Mapping[str, tuple[str, ...]]] | None:
        """See the base class."""
        if not self.selector:
            return None
        return self.selector, {name: member.faces for name, member in self.members.items()}

    def normal(self, face: str) -> tuple[Expr, ...]:
        """See the base class; numbers where they are the same for all members."""
        return _normal(self, [member.outline for member in self.members.values()], face)

    def sample(self, radii: Mapping[str, Radius], number: int = 0) -> Outline:
        """Trace the boundary of one sample's region.

        Args:
            radii: Of its star-shaped parts, by the keys of ``radii``.
            number: Of the region.

        Raises:
            GeometryError: If there is no such number, or if the region leaves the box of the axes,
                is not connected, touches itself, or has other faces than its member.
        """
        members = tuple(self.members.values())
        if not 0 <= number < len(members):
            last = len(members) - 1
            raise GeometryError(f"its number is {number}, and there are shapes 0 to {last}")
        shape, names = members[number].shape.with_radii(radii), [axis.name for axis in self.axes]
        found = trace(shape, [(axis.low, axis.high) for axis in self.axes], names)
        if set(found.faces) != set(members[number].outline.faces):
            have, usual = (", ".join(sorted(o.faces)) for o in (found, members[number].outline))
            raise GeometryError(f"its faces are {have}, and conditions are given on {usual}")
        return found


def trace(shape: Shape, sides: Sequence[tuple[float, float]], names: Sequence[str]) -> Outline:
    """Trace the boundary of a shape, its curves named by the faces that they are part of.

    Args:
        shape: The shape.
        sides: Ends of the box around it along both axes.
        names: Of the axes.

    Raises:
        GeometryError: If it leaves the box, is empty or not connected, or touches itself.
    """
    for star in shape.star_shaped():
        points = np.concatenate([c.at(np.linspace(0, 1, 257)) for c in star.curves()])
        for axis, (low, high) in enumerate(sides):
            least, most = points[:, axis].min(), points[:, axis].max()
            slack = 1e-9 * (high - low)
            if least < low - slack or most > high + slack:
                raise GeometryError(
                    f"the star {star.key.removeprefix('domain.')} [{least:.4g}, {most:.4g}] along "
                    f"{names[axis]} reaches out of the interval [{low:g}, {high:g}] of space"
                )
    return named_by_sides(outline(shape), sides, names, OUTLINE)


def _normal(domain: Domain, outlines: Sequence[Outline], face: str) -> tuple[Expr, ...]:
    """Return numbers where a face has one direction on all outlines, else functions of space."""
    curves = [c for own in outlines for c in own.curves if c.face == face]
    along = np.array([c.direction(0.0) for c in curves])
    straight = all(c.straight for c in curves)
    if straight and np.ptp(along, axis=0).max() < STRAIGHT:
        return _numbers((along[0, 1], -along[0, 0]))
    symbols = [axis.symbol for axis in domain.axes]
    return tuple(Function(name, real=True)(*symbols) for name in domain.normal_names)


def _numbers(vector: tuple[float, float]) -> tuple[Expr, ...]:
    """Return whole numbers where a direction is along an axis."""
    whole = np.round(vector)
    if np.abs(whole - vector).max() < STRAIGHT:
        return tuple(Integer(int(v)) for v in whole)
    return tuple(Float(float(v)) for v in vector)
