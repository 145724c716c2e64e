"""Curves whose radius about a centre depends on the angle: boundaries of star-shaped regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np

from piop.domain.curve import Array, Curve, GeometryError, Point, TurningCurve, cross

_HALVINGS = 52
COUNT = 2048
"""Even angles at which a radius is looked at; its spline goes through these values."""
_ROUGH = 1e-5  # of the mean radius: how far a spline may miss values between


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
        from scipy.interpolate import CubicSpline  # most domains do not need it

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
class RadialArc(TurningCurve):
    """A part of the curve that a radius traces as it turns about a centre, less than a full turn.

    Attributes:
        radius: By the angle.
    """

    radius: Radius

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
        ends, between = self.radius(self.angle(s)) ** 2, self.radius(self.angle(middles)) ** 2
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

    def along(self, fractions: Array) -> Array:
        """See the base class."""
        s, length, _ = self._fine
        return np.interp(fractions * length[-1], length, s)

    def at(self, s: Array | float) -> Array:
        """See the base class."""
        return np.asarray(self.centre) + self.radius(self.angle(s))[..., None] * self.outward(s)

    def direction(self, s: Array | float) -> Array:
        """See the base class."""
        slope = self._slope(s)
        return np.sign(self.sweep) * slope / np.linalg.norm(slope, axis=-1, keepdims=True)

    def parameter(self, points: Array) -> Array:
        """See the base class; from the point at the same angle on, by Newton's method."""
        s = radial = super().parameter(points)
        for _ in range(_NEWTON):
            slope = self._slope(s) * self.sweep
            gap = points - self.at(s)
            s = np.clip(s + (gap * slope).sum(-1) / (slope**2).sum(-1), 0, 1)
        gaps = [np.linalg.norm(points - self.at(t), axis=-1) for t in (radial, s)]
        return np.where(gaps[1] < gaps[0], s, radial)

    def side(self, points: Array) -> Array:
        """See the base class."""
        away = points - np.asarray(self.centre)
        radius = self.radius(np.arctan2(away[..., 1], away[..., 0]))
        return np.linalg.norm(away, axis=-1) - radius

    def intersections(self, other: Curve) -> Array:
        """See the base class: where it changes sides of a line, a circle, or another such curve."""
        if other.follows(self.centre, self.radius):
            return np.empty((0, 2))
        count = 8 + math.ceil(abs(self.sweep) / self.radius.step)
        low = np.linspace(0, 1, count + 1)
        side = other.side(self.at(low))
        crossed = np.flatnonzero(np.sign(side[1:]) * np.sign(side[:-1]) < 0)
        low, high = low[crossed], low[crossed + 1]
        sign = np.sign(side[crossed])
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            before = np.sign(other.side(self.at(middle))) == sign
            low, high = np.where(before, middle, low), np.where(before, high, middle)
        return self.at(0.5 * (low + high))

    crossed_by_line = intersections
    crossed_by_circle = intersections

    def follows(self, centre: Point, radius: object) -> bool:
        """See the base class."""
        return (radius, centre) == (self.radius, self.centre)

    def _slope(self, s: Array | float) -> Array:
        """Derivative of the point by the angle."""
        angle, outward = self.angle(s), self.outward(s)
        across = np.stack([-outward[..., 1], outward[..., 0]], -1)
        slope, radius = self.radius.slope(angle)[..., None], self.radius(angle)[..., None]
        return slope * outward + radius * across
