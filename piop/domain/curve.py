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
    @abstractmethod
    def swept(self) -> float:
        """½ ∫ (x dy − y dx) along it: over a closed loop these add up to the area."""

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
    def crossed_by_line(self, line: Segment) -> Array:
        """Points ``[K, 2]`` where the line that a segment lies on crosses it."""

    @abstractmethod
    def crossed_by_circle(self, circle: Arc) -> Array:
        """Points ``[K, 2]`` where the circle that an arc lies on crosses it."""

    def follows(self, centre: Point, radius: object) -> bool:
        """Whether it lies on the curve that a radius traces about a centre."""
        del centre, radius
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

    @property
    def swept(self) -> float:
        """See the base class."""
        return chord_swept(self)

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

    def part(self, start: float, stop: float) -> Segment:
        """See the base class."""
        ends = self.at(np.array([start, stop])).tolist()
        return Segment(self.face, tuple(ends[0]), tuple(ends[1]))

    def side(self, points: Array) -> Array:
        """See the base class."""
        return cross(self.direction(0.0), points - np.asarray(self.start))

    def intersections(self, other: Curve) -> Array:
        """See the base class."""
        return other.crossed_by_line(self)

    def crossed_by_line(self, line: Segment) -> Array:
        """See the base class."""
        return _cross_lines(line, self)

    def crossed_by_circle(self, circle: Arc) -> Array:
        """See the base class."""
        return _cross_line_and_circle(self, circle)


@final
@dataclass(frozen=True)
class Arc(Curve):
    """A part of a circle.

    Attributes:
        centre: Of the circle.
        radius: Of the circle.
        first: Angle of the first point.
        sweep: Angle to the last point, positive counter-clockwise; at most a full turn.
    """

    centre: Point
    radius: float
    first: float
    sweep: float

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
        return chord_swept(self) + 0.5 * self.radius**2 * (self.sweep - math.sin(self.sweep))

    def at(self, s: Array | float) -> Array:
        """See the base class."""
        angle = self.first + np.asarray(s) * self.sweep
        round_it = np.stack([np.cos(angle), np.sin(angle)], -1)
        return np.asarray(self.centre) + self.radius * round_it

    def direction(self, s: Array | float) -> Array:
        """See the base class."""
        angle = self.first + np.asarray(s) * self.sweep
        return np.sign(self.sweep) * np.stack([-np.sin(angle), np.cos(angle)], -1)

    def parameter(self, points: Array) -> Array:
        """See the base class."""
        away = points - np.asarray(self.centre)
        middle = self.first + self.sweep / 2
        angle = np.arctan2(away[..., 1], away[..., 0]) - middle
        angle = (angle + math.pi) % (2 * math.pi) - math.pi  # nearest to the middle of the arc
        return np.clip(0.5 + angle / self.sweep, 0, 1)

    def part(self, start: float, stop: float) -> Arc:
        """See the base class."""
        first, sweep = self.first + start * self.sweep, (stop - start) * self.sweep
        return Arc(self.face, self.centre, self.radius, first, sweep)

    def side(self, points: Array) -> Array:
        """See the base class."""
        return np.linalg.norm(points - np.asarray(self.centre), axis=-1) - self.radius

    def intersections(self, other: Curve) -> Array:
        """See the base class."""
        return other.crossed_by_circle(self)

    def crossed_by_line(self, line: Segment) -> Array:
        """See the base class."""
        return _cross_line_and_circle(line, self)

    def crossed_by_circle(self, circle: Arc) -> Array:
        """See the base class."""
        return _cross_circles(circle, self)


def chord_swept(curve: Curve) -> float:
    """½ ∫ (x dy − y dx) along the chord of a curve."""
    (x0, y0), (x1, y1) = curve.at(np.array([0.0, 1.0])).tolist()
    return 0.5 * (x0 * y1 - x1 * y0)


def cross(a: Array, b: Array) -> Array:
    """Third component of the cross product of vectors in the plane."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _cross_lines(one: Segment, other: Segment) -> Array:
    a, b = one.direction(0.0), other.direction(0.0)
    sine = cross(a, b)
    if abs(sine) < 1e-12:
        return np.empty((0, 2))
    gap = np.asarray(other.start) - np.asarray(one.start)
    along = cross(gap, b) / sine
    return (np.asarray(one.start) + along * a)[None]


def _cross_line_and_circle(line: Segment, circle: Arc) -> Array:
    along = line.direction(0.0)
    away = np.asarray(circle.centre) - np.asarray(line.start)
    foot = np.asarray(line.start) + (away @ along) * along
    left = circle.radius**2 - float(np.sum((foot - np.asarray(circle.centre)) ** 2))
    return _both_ways(foot, along, left, circle.radius)


def _cross_circles(one: Arc, other: Arc) -> Array:
    between = np.asarray(other.centre) - np.asarray(one.centre)
    d = float(np.linalg.norm(between))
    if d < 1e-12 * one.radius:
        return np.empty((0, 2))
    along = (d**2 + one.radius**2 - other.radius**2) / (2 * d)
    foot = np.asarray(one.centre) + along * between / d
    across = np.array([-between[1], between[0]]) / d
    return _both_ways(foot, across, one.radius**2 - along**2, one.radius)


def _both_ways(foot: Array, along: Array, square: float, radius: float) -> Array:
    """Points at ±√square from a foot; the foot itself where they nearly touch."""
    if square < -1e-12 * radius**2:
        return np.empty((0, 2))
    if square < 1e-12 * radius**2:
        return foot[None]
    step = math.sqrt(square) * along
    return np.stack([foot - step, foot + step])
