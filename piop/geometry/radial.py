"""Pieces of the boundary of a star: what a radius traces as it turns about a centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from piop.geometry.curve import Array, Curve, Point, cross
from piop.geometry.radius import Radius

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
