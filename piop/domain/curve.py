"""Boundary curves: segments, circular arcs, and curves whose radius depends on the angle."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from piop.errors import PiopError

Array = np.ndarray[Any, np.dtype[Any]]
Point = tuple[float, float]


@dataclass(frozen=True)
class Curve(ABC):
    """A piece of a boundary, run through by a parameter s from 0 to 1.

    Attributes:
        face: The part of the boundary it belongs to; empty until that is known.
    """

    face: str

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
        """The piece between two parameters; backwards where the first is the larger."""

    def steps(self, side: float, turn: float) -> Array:
        """Parameters from 0 to 1 between which it is no longer than a side and turns by no more."""
        count = math.ceil(max(self.length / side, self.turn / turn, 1) - 1e-9)
        return np.linspace(0, 1, count + 1)

    def along(self, share: Array) -> Array:
        """Parameters at these shares of its length."""
        return share

    def distance(self, points: Array) -> Array:
        """Distances ``[N]`` of points ``[N, 2]``."""
        return np.linalg.norm(points - self.at(self.parameter(points)), axis=-1)

    def named(self, face: str) -> Self:
        """The same as part of a face."""
        return replace(self, face=face)


@final
@dataclass(frozen=True)
class Segment(Curve):
    """A straight piece.

    Attributes:
        start: First point.
        stop: Last point.
    """

    start: Point
    stop: Point

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


@final
@dataclass(frozen=True)
class Arc(Curve):
    """A piece of a circle.

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


def chord_swept(curve: Curve) -> float:
    """½ ∫ (x dy − y dx) along the chord of a curve."""
    (x0, y0), (x1, y1) = curve.at(np.array([0.0, 1.0])).tolist()
    return 0.5 * (x0 * y1 - x1 * y0)


def cross(a: Array, b: Array) -> Array:
    """Third component of the cross product of vectors in the plane."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


COUNT = 2048
"""Even angles at which a radius is looked at; its spline goes through these values."""
_ROUGH = 1e-5  # of the mean radius: how far a spline may miss values between


class GeometryError(PiopError):
    """A shape that has no boundary to speak of, or that cannot be meshed."""

    exit_code = 2


@final
class Radius:
    """A positive, periodic function of the angle: a cubic spline through values at even angles.

    Args:
        values: At angles 2πk/n ``[n]``.

    Raises:
        GeometryError: If a value is not positive or not finite.
    """

    def __init__(self, values: Array) -> None:
        bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if len(bad):
            angle = 2 * math.pi * bad[0] / len(values)
            message = f"its radius is {values[bad[0]]:.6g} at the angle {angle:.6g}"
            raise GeometryError(f"{message}; a positive number is needed")
        from scipy.interpolate import CubicSpline  # shapes without a star do not need it

        self.step = 2 * math.pi / len(values)
        angles = self.step * np.arange(len(values) + 1)
        self._spline = CubicSpline(angles, np.append(values, values[0]), bc_type="periodic")

    @classmethod
    def of(cls, function: Callable[[Array], Array]) -> Self:
        """Follow a function of the angle, ``[n]`` to ``[n]``.

        Raises:
            GeometryError: If it is not positive, or changes too fast to be followed.
        """
        angles = 2 * math.pi * np.arange(2 * COUNT) / (2 * COUNT)
        values = np.broadcast_to(function(angles), angles.shape)
        made = cls(values)  # of all values, so that every one is looked at
        coarse = cls(values[::2])
        missed = np.abs(coarse(angles[1::2]) - values[1::2])
        if missed.max() > _ROUGH * values.mean():
            angle = angles[1::2][missed.argmax()]
            message = f"its radius jumps, or changes too fast to be followed, at {angle:.6g}"
            raise GeometryError(f"{message}; fewer or longer waves are needed")
        return made

    def __call__(self, angles: Array) -> Array:
        """Values at angles."""
        return self._spline(angles % (2 * math.pi))

    def slope(self, angles: Array) -> Array:
        """Derivatives at angles."""
        return self._spline(angles % (2 * math.pi), 1)


_NEWTON = 6


@final
@dataclass(frozen=True)
class RadialArc(Curve):
    """A piece of what a radius traces as it turns about a centre.

    Attributes:
        centre: The point it turns about.
        radius: By the angle.
        first: Angle of the first point.
        sweep: Angle to the last point, positive counter-clockwise; less than a full turn.
    """

    centre: Point
    radius: Radius
    first: float
    sweep: float

    @cached_property
    def _fine(self) -> tuple[Array, Array, Array]:
        """Even parameters, with length and turning up to each."""
        count = 8 + math.ceil(abs(self.sweep) / self.radius.step)
        s = np.linspace(0, 1, 2 * count + 1)
        speed = np.linalg.norm(self._slope(s), axis=-1) * abs(self.sweep)
        along = self.direction(s)
        bend = np.abs(cross(along[:-1], along[1:]))
        length = np.cumsum((speed[:-2:2] + 4 * speed[1:-1:2] + speed[2::2]) / (6 * count))
        turn = np.cumsum(np.arcsin(np.minimum(bend, 1)))[1::2]
        return s[::2], np.append(0, length), np.append(0, turn)

    @property
    def length(self) -> float:
        """See the base class; by Simpson's rule between the values that the radius goes through."""
        return float(self._fine[1][-1])

    @property
    def turn(self) -> float:
        """See the base class."""
        return float(self._fine[2][-1])

    @property
    def swept(self) -> float:
        """See the base class; r² by Simpson's rule, the rest exactly."""
        s = self._fine[0]
        middles = 0.5 * (s[1:] + s[:-1])
        ends, between = self.radius(self._angle(s)) ** 2, self.radius(self._angle(middles)) ** 2
        square = float(np.sum((ends[1:] + 4 * between + ends[:-1]) * np.diff(s))) / 6
        (x0, y0), (x1, y1) = self.at(np.array([0.0, 1.0])).tolist()
        x, y = self.centre
        return 0.5 * (square * self.sweep + x * (y1 - y0) - y * (x1 - x0))

    def steps(self, side: float, turn: float) -> Array:
        """See the base class; shorter where it bends."""
        s, length, turned = self._fine
        measure = np.maximum(np.diff(length) / side, np.diff(turned) / turn)
        total = np.append(0, np.cumsum(measure))
        count = math.ceil(max(total[-1], 1) - 1e-9)
        inner = np.interp(np.arange(1, count) * total[-1] / count, total, s)
        return np.concatenate([[0.0], inner, [1.0]])

    def along(self, share: Array) -> Array:
        """See the base class."""
        s, length, _ = self._fine
        return np.interp(share * length[-1], length, s)

    def at(self, s: Array | float) -> Array:
        """See the base class."""
        angle = self._angle(s)
        outward = np.stack([np.cos(angle), np.sin(angle)], -1)
        return np.asarray(self.centre) + self.radius(angle)[..., None] * outward

    def direction(self, s: Array | float) -> Array:
        """See the base class."""
        slope = self._slope(s)
        return np.sign(self.sweep) * slope / np.linalg.norm(slope, axis=-1, keepdims=True)

    def parameter(self, points: Array) -> Array:
        """See the base class; from the point at the same angle on, by Newton's method."""
        away = points - np.asarray(self.centre)
        middle = self.first + self.sweep / 2
        angle = np.arctan2(away[..., 1], away[..., 0]) - middle
        angle = (angle + math.pi) % (2 * math.pi) - math.pi
        radial = np.clip(0.5 + angle / self.sweep, 0, 1)
        s = radial
        for _ in range(_NEWTON):
            slope = self._slope(s) * self.sweep
            gap = points - self.at(s)
            s = np.clip(s + (gap * slope).sum(-1) / (slope**2).sum(-1), 0, 1)
        gaps = [np.linalg.norm(points - self.at(t), axis=-1) for t in (radial, s)]
        return np.where(gaps[1] < gaps[0], s, radial)

    def part(self, start: float, stop: float) -> RadialArc:
        """See the base class."""
        first, sweep = self.first + start * self.sweep, (stop - start) * self.sweep
        return RadialArc(self.face, self.centre, self.radius, first, sweep)

    def _angle(self, s: Array | float) -> Array:
        return self.first + np.asarray(s) * self.sweep

    def _slope(self, s: Array | float) -> Array:
        """Derivative of the point by the angle."""
        angle = self._angle(s)
        outward = np.stack([np.cos(angle), np.sin(angle)], -1)
        across = np.stack([-outward[..., 1], outward[..., 0]], -1)
        return (
            self.radius.slope(angle)[..., None] * outward + self.radius(angle)[..., None] * across
        )
