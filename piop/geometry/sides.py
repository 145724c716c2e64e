"""A polygon as half-planes: each side occurs once in a formula of "both" and "either".

Source: Dobkin, Guibas, Hershberger & Snoeyink 1993, "An efficient algorithm for finding the CSG
representation of a simple polygon", Algorithmica 10, theorems 1 and 2 (doi:10.1007/BF01908629). A
chain of sides, its ends prolonged without end, is cut at a corner where both prolonged parts stay
clear of the rest; what is left of it is in both parts where it turns left, and in either where it
turns right. So boundaries of parts cross at corners of the polygon alone, and nowhere inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from piop.geometry.curve import Array, Point, cross
from piop.geometry.formula import Both, Either, Formula, Line
from piop.geometry.radius import GeometryError

_FLAT = 1e-9  # of the size: corners nearer than this to the line of their neighbours are none
_AHEAD = 1e-9  # of the size: how far a ray leads before it may meet anything


def half_planes(corners: Sequence[Point], size: float) -> Formula:
    """Write what a closed line surrounds as a formula of half-planes.

    Args:
        corners: Of a line that does not touch itself, whichever way round it runs.
        size: Length of the whole.

    Raises:
        GeometryError: If it cannot be taken apart.
    """
    points = _corners(np.array(corners, dtype=float), size)
    if len(points) < 3:
        raise GeometryError("a polygon needs three corners")
    following = np.roll(points, -1, 0)
    if cross(points, following).sum() < 0:
        points = points[::-1]
    # Two corners of the convex hull; an odd direction, so that no side lies across it.
    along = points @ np.array([math.cos(0.3), math.sin(0.3)])
    start = int(along.argmin())
    points = np.roll(points, -start, 0)
    stop = int(np.roll(along, -start).argmax())
    closed = np.concatenate([points, points[:1]])
    angle = max(_angle(points, 0), _angle(points, stop))
    first, second = (_left_of(c, size) for c in (closed[: stop + 1], closed[stop:]))
    return Both(first, second, angle, size)


def _left_of(chain: Array, size: float) -> Formula:
    """What is to the left of a chain whose first and last side have no end."""
    if len(chain) == 2:
        along = (chain[1] - chain[0]) / np.linalg.norm(chain[1] - chain[0])
        return Line(_point(chain[0]), _point(along))
    middle = len(chain) // 2
    for j in sorted(range(1, len(chain) - 1), key=lambda j: abs(j - middle)):
        if _stays_clear(chain, j, size):
            angle = _angle(chain, j)
            first, second = _left_of(chain[: j + 1], size), _left_of(chain[j:], size)
            if angle < math.pi:
                return Both(first, second, angle, size)
            return Either(first, second, 2 * math.pi - angle, size)
    raise GeometryError("a polygon has no corner to be cut at")


def _stays_clear(chain: Array, j: int, size: float) -> bool:
    """Whether both sides at a corner, prolonged beyond it, meet nothing of the chain."""
    far = 10 * size
    head = chain[0] + far * _unit(chain[0] - chain[1])
    tail = chain[-1] + far * _unit(chain[-1] - chain[-2])
    whole = np.concatenate([head[None], chain, tail[None]])
    for before in (chain[j - 1], chain[j + 1]):
        end = chain[j] + 5 * size * _unit(chain[j] - before)
        begin = chain[j] + _AHEAD * size * _unit(chain[j] - before)
        if any(_meet(begin, end, a, b, size) for a, b in pairwise(whole)):
            return False
    return True


def _meet(a: Array, b: Array, c: Array, d: Array, size: float) -> bool:
    """Whether two segments meet."""
    slack = 1e-12 * size
    along, other = _unit(b - a), _unit(d - c)
    of_c, of_d = float(cross(along, c - a)), float(cross(along, d - a))
    of_a, of_b = float(cross(other, a - c)), float(cross(other, b - c))
    if abs(of_c) <= slack and abs(of_d) <= slack:  # on one line
        ends = sorted((float(along @ (c - a)), float(along @ (d - a))))
        return ends[1] > 0 and ends[0] < float(along @ (b - a))
    return of_c * of_d <= 0 and of_a * of_b <= 0


def _corners(points: Array, size: float) -> Array:
    """Leave out corners at which nothing turns."""
    kept = list(range(len(points)))
    for i in range(len(points)):
        if len(kept) < 3:
            break
        at = kept.index(i)
        before, after = points[kept[at - 1]], points[kept[(at + 1) % len(kept)]]
        into, out = points[i] - before, after - points[i]
        length = np.linalg.norm(after - before)
        flat = abs(cross(after - before, into)) <= _FLAT * size * length and into @ out >= 0
        if flat or np.linalg.norm(into) <= _FLAT * size:
            kept.pop(at)
    return points[kept]


def _angle(points: Array, j: int) -> float:
    """Angle on the left of a line at a corner."""
    into, out = points[j] - points[j - 1], points[(j + 1) % len(points)] - points[j]
    return math.pi - math.atan2(float(cross(into, out)), float(into @ out))


def _unit(vector: Array) -> Array:
    return vector / np.linalg.norm(vector)


def _point(vector: Array) -> Any:
    return tuple(vector.tolist())
