"""Where pieces of boundaries cross."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from piop.domain.curve import Arc, Array, Curve, RadialArc, Segment, cross

_HALVINGS = 52


def intersections(one: Curve, other: Curve) -> Array:
    """Points ``[K, 2]`` where the lines or circles that two curves lie on cross.

    Of what a radius traces the piece itself is looked at, between as many points as it is given by;
    pieces of one such curve meet at their ends alone.
    """
    for traced, another in ((one, other), (other, one)):
        if isinstance(traced, RadialArc):
            return _traced(traced, another)
    if isinstance(one, Segment) and isinstance(other, Segment):
        return _lines(one, other)
    if isinstance(one, Arc) and isinstance(other, Arc):
        return _circles(one, other)
    if isinstance(one, Arc):
        one, other = other, one
    assert isinstance(one, Segment)  # noqa: S101 - the cases above are the others
    assert isinstance(other, Arc)  # noqa: S101
    return _line_and_circle(one, other)


def _lines(one: Segment, other: Segment) -> Array:
    a, b = one.direction(0.0), other.direction(0.0)
    sine = cross(a, b)
    if abs(sine) < 1e-12:
        return np.empty((0, 2))
    gap = np.asarray(other.start) - np.asarray(one.start)
    along = cross(gap, b) / sine
    return (np.asarray(one.start) + along * a)[None]


def _line_and_circle(line: Segment, circle: Arc) -> Array:
    along = line.direction(0.0)
    away = np.asarray(circle.centre) - np.asarray(line.start)
    foot = np.asarray(line.start) + (away @ along) * along
    left = circle.radius**2 - float(np.sum((foot - np.asarray(circle.centre)) ** 2))
    return _both_ways(foot, along, left, circle.radius)


def _circles(one: Arc, other: Arc) -> Array:
    apart = np.asarray(other.centre) - np.asarray(one.centre)
    d = float(np.linalg.norm(apart))
    if d < 1e-12 * one.radius:
        return np.empty((0, 2))
    along = (d**2 + one.radius**2 - other.radius**2) / (2 * d)
    foot = np.asarray(one.centre) + along * apart / d
    across = np.array([-apart[1], apart[0]]) / d
    return _both_ways(foot, across, one.radius**2 - along**2, one.radius)


def _both_ways(foot: Array, along: Array, square: float, radius: float) -> Array:
    """Points at ±√square from a foot; the foot itself where they nearly touch."""
    if square < -1e-12 * radius**2:
        return np.empty((0, 2))
    if square < 1e-12 * radius**2:
        return foot[None]
    step = math.sqrt(square) * along
    return np.stack([foot - step, foot + step])


def _traced(curve: RadialArc, other: Curve) -> Array:
    """Points of a piece where it changes sides of a line, a circle, or another such curve."""
    if isinstance(other, RadialArc) and (other.radius, other.centre) == (
        curve.radius,
        curve.centre,
    ):
        return np.empty((0, 2))
    count = 8 + math.ceil(abs(curve.sweep) / curve.radius.step)
    low = np.linspace(0, 1, count + 1)
    side = _side(other, curve.at(low))
    crossed = np.flatnonzero(np.sign(side[1:]) * np.sign(side[:-1]) < 0)
    low, high = low[crossed], low[crossed + 1]
    sign = np.sign(side[crossed])
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        before = np.sign(_side(other, curve.at(middle))) == sign
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return curve.at(0.5 * (low + high))


def _side(curve: Curve, points: Array) -> Array:
    """Which side of the line, circle or star that a curve lies on: a number that changes sign."""
    if isinstance(curve, Segment):
        return cross(curve.direction(0.0), points - np.asarray(curve.start))
    assert isinstance(curve, Arc | RadialArc)  # noqa: S101 - there are no others
    away = points - np.asarray(curve.centre)
    radius: Any = curve.radius
    if isinstance(curve, RadialArc):
        radius = curve.radius(np.arctan2(away[..., 1], away[..., 0]))
    return np.linalg.norm(away, axis=-1) - radius
