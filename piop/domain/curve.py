"""Curves that boundaries are made of: their interface, segments and circular arcs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np

from piop.errors import PiopError

Array = np.ndarray[Any, np.dtype[Any]]
Point = tuple[float, float]


class GeometryError(PiopError):
    """A shape without a valid boundary, or one that cannot be meshed."""

    exit_code = 2


@dataclass(frozen=True)
class Curve(ABC):
    """A curve of a boundary, parametrised by s from 0 to 1.

    Attributes:
        face: The part of the boundary it belongs to; empty until that is known.
        straight: Whether its direction is the same everywhere.
    """

    face: str
    straight: ClassVar[bool] = False

    @property
    @abstractmethod
    def length(self) -> float:
        """Length along the curve."""

    @property
    @abstractmethod
    def turn(self) -> float:
        """Angle by which its direction turns on its way, to either side; zero where straight."""

    @property
    def swept(self) -> float:
        """½ ∫ (x dy − y dx) along it: over a closed loop these add up to the area.

        Here that of its chord.
        """
        (x0, y0), (x1, y1) = self.at(np.array([0.0, 1.0])).tolist()
        return 0.5 * (x0 * y1 - x1 * y0)

    @abstractmethod
    def at(self, s: Array | float) -> Array:
        """Points ``[…, 2]`` at parameters ``[…]``."""

    @abstractmethod
    def direction(self, s: Array | float) -> Array:
        """Unit tangents ``[…, 2]`` in the sense of growing s."""

    @abstractmethod
    def parameter(self, points: Array) -> Array:
        """Parameters ``[N]`` of the nearest points of the curve."""

    @abstractmethod
    def part(self, start: float, stop: float) -> Self:
        """The part between two parameters; backwards where the first is the larger."""

    @abstractmethod
    def side(self, points: Array) -> Array:
        """Numbers ``[N]`` that change sign across the line or circle that it lies on."""

    @abstractmethod
    def intersections(self, other: Curve) -> Array:
        """Points ``[K, 2]`` where the lines or circles that two curves lie on cross.

        A curve with a radius by the angle takes part itself, between as many points as its radius
        is given by; parts of one such curve meet at their ends alone.
        """

    @abstractmethod
    def crossed_by_line(self, other: Segment) -> Array:
        """Points ``[K, 2]`` where the line that a segment lies on crosses it."""

    @abstractmethod
    def crossed_by_circle(self, other: Arc) -> Array:
        """Points ``[K, 2]`` where the circle that an arc lies on crosses it."""

    def follows(self, centre: Point, radius: object) -> bool:
        """Whether it lies on the curve that a radius traces about a centre."""
        return False

    def steps(self, side: float, turn: float) -> Array:
        """Parameters from 0 to 1 between which it is no longer than a side and turns by no more."""
        count = math.ceil(max(self.length / side, self.turn / turn, 1) - 1e-9)
        return np.linspace(0, 1, count + 1)

    def along(self, fractions: Array) -> Array:
        """Parameters at these fractions of its length."""
        return fractions

    def distance(self, points: Array) -> Array:
        """Distances ``[N]`` of points ``[N, 2]``."""
        return np.linalg.norm(points - self.at(self.parameter(points)), axis=-1)

    def named(self, face: str) -> Self:
        """The same as part of a face."""
        return replace(self, face=face)


@final
@dataclass(frozen=True)
class Segment(Curve):
    """A straight curve.

    Attributes:
        start: First point.
        stop: Last point.
    """

    start: Point
    stop: Point
    straight = True

    @property
    def length(self) -> float:
        """See the base class."""
        return math.dist(self.start, self.stop)

    @property
    def turn(self) -> float:
        """See the base class."""
        return 0.0

    def at(self, s: Array | float) -> Array:
        """See the base class; both ends are met to the last bit."""
        s = np.asarray(s)[..., None]
        return (1 - s) * np.asarray(self.start) + s * np.asarray(self.stop)

    def direction(self, s: Array | float) -> Array:
        """See the base class."""
        along = (np.asarray(self.stop) - np.asarray(self.start)) / self.length
        return np.broadcast_to(along, (*np.shape(s), 2))

    def parameter(self, points: Array) -> Array:
        """See the base class."""
        along = np.asarray(self.stop) - np.asarray(self.start)
        return np.clip((points - np.asarray(self.start)) @ along / (along @ along), 0, 1)

    def part(self, start: float, stop: float) -> Self:
        """See the base class."""
        first, last = self.at(np.array([start, stop])).tolist()
        return replace(self, start=tuple(first), stop=tuple(last))

    def side(self, points: Array) -> Array:
        """See the base class."""
        return cross(self.direction(0.0), points - np.asarray(self.start))

    def intersections(self, other: Curve) -> Array:
        """See the base class."""
        return other.crossed_by_line(self)

    def crossed_by_line(self, other: Segment) -> Array:
        """See the base class."""
        a, b = other.direction(0.0), self.direction(0.0)
        sine = cross(a, b)
        if abs(sine) < 1e-12:
            return np.empty((0, 2))
        gap = np.asarray(self.start) - np.asarray(other.start)
        along = cross(gap, b) / sine
        return (np.asarray(other.start) + along * a)[None]

    def crossed_by_circle(self, other: Arc) -> Array:
        """See the base class."""
        return other.crossed_by_line(self)


@dataclass(frozen=True)
class TurningCurve(Curve):
    """A curve that turns about a centre.

    Attributes:
        centre: The point it turns about.
        radius: A number, or a function of the angle.
        first: Angle of the first point.
        sweep: Angle to the last point, positive counter-clockwise.
    """

    centre: Point
    radius: Any
    first: float
    sweep: float

    def part(self, start: float, stop: float) -> Self:
        """See the base class."""
        first, sweep = self.first + start * self.sweep, (stop - start) * self.sweep
        return replace(self, first=first, sweep=sweep)

    def parameter(self, points: Array) -> Array:
        """See the base class; the point at the same angle."""
        away = points - np.asarray(self.centre)
        middle = self.first + self.sweep / 2
        angle = np.arctan2(away[..., 1], away[..., 0]) - middle
        angle = (angle + math.pi) % (2 * math.pi) - math.pi  # nearest to the middle of the curve
        return np.clip(0.5 + angle / self.sweep, 0, 1)

    def angle(self, s: Array | float) -> Array:
        """Angles ``[…]`` about the centre at parameters ``[…]``."""
        return self.first + np.asarray(s) * self.sweep

    def outward(self, s: Array | float) -> Array:
        """Unit vectors ``[…, 2]`` away from the centre at parameters ``[…]``."""
        angle = self.angle(s)
        return np.stack([np.cos(angle), np.sin(angle)], -1)


@final
@dataclass(frozen=True)
class Arc(TurningCurve):
    """A part of a circle, at most a full turn of it."""

    radius: float

    @property
    def length(self) -> float:
        """See the base class."""
        return self.radius * abs(self.sweep)

    @property
    def turn(self) -> float:
        """See the base class."""
        return abs(self.sweep)

    @property
    def swept(self) -> float:
        """See the base class."""
        return super().swept + 0.5 * self.radius**2 * (self.sweep - math.sin(self.sweep))

    def at(self, s: Array | float) -> Array:
        """See the base class."""
        return np.asarray(self.centre) + self.radius * self.outward(s)

    def direction(self, s: Array | float) -> Array:
        """See the base class."""
        outward = self.outward(s)
        return np.sign(self.sweep) * np.stack([-outward[..., 1], outward[..., 0]], -1)

    def side(self, points: Array) -> Array:
        """See the base class."""
        return np.linalg.norm(points - np.asarray(self.centre), axis=-1) - self.radius

    def intersections(self, other: Curve) -> Array:
        """See the base class."""
        return other.crossed_by_circle(self)

    def crossed_by_line(self, other: Segment) -> Array:
        """See the base class."""
        along = other.direction(0.0)
        away = np.asarray(self.centre) - np.asarray(other.start)
        foot = np.asarray(other.start) + (away @ along) * along
        left = self.radius**2 - float(np.sum((foot - np.asarray(self.centre)) ** 2))
        return _both_ways(foot, along, left, self.radius)

    def crossed_by_circle(self, other: Arc) -> Array:
        """See the base class."""
        between = np.asarray(self.centre) - np.asarray(other.centre)
        d = float(np.linalg.norm(between))
        if d < 1e-12 * other.radius:
            return np.empty((0, 2))
        along = (d**2 + other.radius**2 - self.radius**2) / (2 * d)
        foot = np.asarray(other.centre) + along * between / d
        across = np.array([-between[1], between[0]]) / d
        return _both_ways(foot, across, other.radius**2 - along**2, other.radius)


def cross(a: Array, b: Array) -> Array:
    """Third component of the cross product of vectors in the plane."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _both_ways(foot: Array, along: Array, square: float, radius: float) -> Array:
    """Points at ±√square from a foot; the foot itself where they nearly touch."""
    if square < -1e-12 * radius**2:
        return np.empty((0, 2))
    if square < 1e-12 * radius**2:
        return foot[None]
    step = math.sqrt(square) * along
    return np.stack([foot - step, foot + step])
