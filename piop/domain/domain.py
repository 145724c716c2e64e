"""`Domain`: the region of space that a problem is posed on; `Box`, the product of intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from sympy import Expr, Integer, Symbol

from piop.domain.curve import Array, GeometryError
from piop.domain.distance import DistanceFactor, IntervalDistance

ENDS = {"min": -1, "max": 1}
"""End of an axis → direction of the outward normal there."""


@final
@dataclass(frozen=True)
class Coordinate:
    """One axis of the domain.

    Attributes:
        name: As in the spec.
        symbol: Real SymPy symbol.
        low: Start of the interval, in the unit of the coordinate.
        high: End of the interval.
        periodic: Whether the ends are one point.
    """

    name: str
    symbol: Symbol
    low: float
    high: float
    periodic: bool = False

    @property
    def length(self) -> float:
        """Length of the interval."""
        return self.high - self.low


@dataclass(frozen=True, eq=False)
class Domain(ABC):
    """The region of space that a problem is posed on, with its faces.

    Attributes:
        axes: Coordinates of space, one to three.
        is_box: Whether it is all of the box of its axes.
        varies: Whether samples have regions of their own.
        distance_text: How prescribed values are met exactly, a clause.
    """

    axes: tuple[Coordinate, ...]
    is_box: ClassVar[bool] = False
    varies: ClassVar[bool] = False
    distance_text: ClassVar[str] = "through the distance to the boundary"

    @property
    @abstractmethod
    def fixed(self) -> FixedDomain:
        """The one region that all samples have.

        Raises:
            GeometryError: If samples have regions of their own.
        """

    @property
    @abstractmethod
    def typical(self) -> FixedDomain:
        """The region of all samples, or one of theirs, for statistics over samples."""

    @property
    @abstractmethod
    def faces(self) -> tuple[str, ...]:
        """Names of the parts of the boundary."""

    @property
    def selection(self) -> tuple[str, Mapping[str, tuple[str, ...]]] | None:
        """The input that selects a sample's region, and the faces of each region by its name.

        None where nothing is selected.
        """
        return None

    @abstractmethod
    def normal(self, face: str) -> tuple[Expr, ...]:
        """Return the outward normal on a face, one component per axis.

        Numbers where the face is straight; elsewhere functions of space, whose names
        :attr:`normal_names` are and whose values :meth:`FixedDomain.normals`.
        """

    @property
    def normal_names(self) -> list[str]:
        """Names of the components of a normal that is no number, in residuals."""
        return [f"outward {axis.name}" for axis in self.axes]

    def where(self, face: str) -> str:
        """Say where a face is, such as ``at x = 0``."""
        return f"on {face}"

    def across(self, face: str) -> tuple[Coordinate, float]:
        """Return the axis that a face of a box stands across, and its position along that axis.

        Raises:
            GeometryError: If the domain is no box.
        """
        raise GeometryError(f"the face {face} of a region stands across no axis")


class FixedDomain(Domain):
    """A domain that all samples have in common, so that points can be placed in it."""

    @property
    def fixed(self) -> FixedDomain:
        """Itself."""
        return self

    @property
    def typical(self) -> FixedDomain:
        """Itself."""
        return self

    @property
    @abstractmethod
    def volume(self) -> float:
        """Its length, area or volume."""

    @property
    @abstractmethod
    def bounds(self) -> list[tuple[float, float]]:
        """Along each axis the ends of a box around it."""

    @property
    def filled(self) -> float:
        """Fraction of that box that it fills."""
        return self.volume / math.prod(high - low for low, high in self.bounds)

    @abstractmethod
    def contains(self, points: Array) -> Array:
        """Tell which points ``[N, d]`` lie inside ``[N]``; on the boundary it may be either."""

    @abstractmethod
    def touches(self, points: Array) -> Array:
        """Tell which points ``[N, d]`` lie on the boundary ``[N]``, up to rounding."""

    @abstractmethod
    def normals(self, points: Array, face: str) -> Array:
        """Return outward unit normals ``[N, d]`` of a face, where it is nearest to points."""

    @abstractmethod
    def points_on(self, face: str, fractions: Array) -> Array:
        """Return points of a face ``[N, d]``.

        Args:
            face: Part of the boundary.
            fractions: Of its length along each of its own directions ``[N, d - 1]``.
        """

    @abstractmethod
    def boundary_points(self, fractions: Array) -> Array:
        """Return points ``[K, d]`` at fractions of the way along every part of the boundary."""

    @abstractmethod
    def distance_factors(self, faces: Sequence[str]) -> tuple[DistanceFactor, ...]:
        """Return factors whose product is an approximate distance to faces.

        Raises:
            GeometryError: If no formula gives the distance to a boundary that is not straight.
        """


@final
@dataclass(frozen=True, eq=False)
class Box(FixedDomain):
    """All of the box of its axes; faces are ``x.min``, ``x.max`` and so on."""

    is_box = True
    distance_text = "through the distance to the wall"

    @property
    def faces(self) -> tuple[str, ...]:
        """See the base class; those of periodic axes too."""
        return tuple(f"{axis.name}.{end}" for axis in self.axes for end in ENDS)

    @property
    def volume(self) -> float:
        """See the base class."""
        return math.prod(axis.length for axis in self.axes)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """See the base class."""
        return [(axis.low, axis.high) for axis in self.axes]

    def contains(self, points: Array) -> Array:
        """See the base class."""
        low, high = np.array(self.bounds).T
        return ((points >= low) & (points <= high)).all(-1)

    def touches(self, points: Array) -> Array:
        """See the base class."""
        low, high = np.array(self.bounds).T
        return ((points == low) | (points == high)).any(-1)

    def normal(self, face: str) -> tuple[Expr, ...]:
        """See the base class; whole numbers."""
        (across, _), sign = self.across(face), ENDS[face.split(".")[1]]
        return tuple(Integer(sign if axis is across else 0) for axis in self.axes)

    def normals(self, points: Array, face: str) -> Array:
        """See the base class."""
        return np.broadcast_to([float(n) for n in self.normal(face)], points.shape)  # type: ignore[arg-type]

    def where(self, face: str) -> str:
        """See the base class."""
        axis, at = self.across(face)
        return f"at {axis.name} = {at:g}"

    def distance_factors(self, faces: Sequence[str]) -> tuple[DistanceFactor, ...]:
        """See the base class; one factor for each axis with such faces."""
        found = []
        for i, axis in enumerate(self.axes):
            low, high = (f"{axis.name}.{end}" in faces for end in ENDS)
            if low or high:
                found.append(IntervalDistance(i, axis.low, axis.high, (low, high)))
        return tuple(found)

    def points_on(self, face: str, fractions: Array) -> Array:
        """See the base class."""
        across, at = self.across(face)
        others = iter(fractions.T)
        columns = [
            np.full(len(fractions), at) if a is across else a.low + a.length * next(others)
            for a in self.axes
        ]
        return np.stack(columns, -1)

    def boundary_points(self, fractions: Array) -> Array:
        """See the base class; along the diagonal of each face."""
        along = np.repeat(fractions[:, None], len(self.axes) - 1, 1)
        return np.concatenate([self.points_on(face, along) for face in self.faces])

    def across(self, face: str) -> tuple[Coordinate, float]:
        """See the base class."""
        name, end = face.split(".")
        axis = next(axis for axis in self.axes if axis.name == name)
        return axis, axis.low if end == "min" else axis.high
