"""R-functions: smooth formulas that are positive inside a region and vanish on its boundary."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np

from piop.domain.curve import Array, GeometryError, Point, cross

NEAR = 1e-10
"""Squared distances, in squares of the size, below which roots have no slope: at corners themselves
four derivatives of them stay within single precision."""

ROUND = 0.5
"""Of the size: how far from a corner a product is a product."""


class Formula(ABC):
    """A function of the point, positive inside a region, about the distance from its boundary."""

    @abstractmethod
    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """Evaluate at coordinates of any array shape."""

    def complement(self) -> Formula:
        """Return the function of everything outside the region.

        Raises:
            NotImplementedError: If it is known, or positive, inside alone.
        """
        raise NotImplementedError(f"{type(self).__name__} is for the inside of a region alone")

    def smoothed(self) -> Formula:
        """Return a function that suits corners better, where it is positive throughout."""
        return self

    @property
    def line(self) -> Line | None:
        """Itself where it is the distance from a line; None elsewhere."""
        return None


@final
@dataclass(frozen=True)
class Line(Formula):
    """Distance from a line, positive on its left.

    Attributes:
        point: A point of it.
        along: Its direction, a unit vector.
    """

    point: Point
    along: Point

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        (px, py), (ax, ay) = self.point, self.along
        return (y - py) * ax - (x - px) * ay

    @property
    def line(self) -> Line:
        """See the base class."""
        return self

    def complement(self) -> Formula:
        """See the base class."""
        return Line(self.point, (-self.along[0], -self.along[1]))


@final
@dataclass(frozen=True)
class Circle(Formula):
    """(R² − r²)/(2R), of slope one at radius R.

    Attributes:
        centre: Where r is zero.
        radius: R.
        sign: 1 for what is inside, −1 for what is outside.
    """

    centre: Point
    radius: float
    sign: int = 1

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        x, y = x - self.centre[0], y - self.centre[1]
        return (self.radius**2 - (x * x + y * y)) * (self.sign / (2 * self.radius))

    def complement(self) -> Formula:
        """See the base class."""
        return Circle(self.centre, self.radius, -self.sign)


@dataclass(frozen=True)
class Pair(Formula):
    """Two regions put together.

    Attributes:
        first: The function a of one.
        second: The function b of the other.
        angle: Where their boundaries cross, inside of what is in both, or outside of what is in
            either; π where they do not, or nothing is known.
        size: Length of the whole.
    """

    first: Formula
    second: Formula
    angle: float
    size: float


@final
@dataclass(frozen=True)
class RIntersection(Pair):
    """What is in two regions: a + b − √(a² + b²)."""

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        a, b = self.first(x, y, maths), self.second(x, y, maths)
        return a + b - _power(a, b, 0.5, self.size, maths)

    def complement(self) -> Formula:
        """See the base class."""
        return RUnion(self.first.complement(), self.second.complement(), self.angle, self.size)

    def smoothed(self) -> Formula:
        """See the base class."""
        first, second = self.first.smoothed(), self.second.smoothed()
        return SmoothIntersection(first, second, self.angle, self.size)


@final
@dataclass(frozen=True)
class RUnion(Pair):
    """What is in one of two regions at least: a + b + √(a² + b²)."""

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        a, b = self.first(x, y, maths), self.second(x, y, maths)
        return a + b + _power(a, b, 0.5, self.size, maths)

    def complement(self) -> Formula:
        """See the base class."""
        first, second = self.first.complement(), self.second.complement()
        return RIntersection(first, second, self.angle, self.size)

    def smoothed(self) -> Formula:
        """See the base class: a wedge where two lines meet at an angle."""
        a, b = self.first.line, self.second.line
        if a is None or b is None or not self.angle < math.pi:
            return self
        return _wedge(a, b, self)


@final
@dataclass(frozen=True)
class SmoothIntersection(Pair):
    """The intersection where both functions are positive: product over root mean square.

    At a corner of angle α it is as flat as harmonic functions that vanish on both sides are there,
    r^(π/α) but no flatter than the product itself, so that what it multiplies may be smooth.
    """

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        a, b = self.first(x, y, maths), self.second(x, y, maths)
        power = min(math.pi / self.angle, 2.0)
        found, squares = a * b, a * a + b * b
        if power < 2:
            found = found * _off_zero(squares, self.size, maths) ** (0.5 * power - 1)
        if power > 1:
            found = found * (squares + (ROUND * self.size) ** 2) ** (0.5 - 0.5 * power)
        return found


@final
@dataclass(frozen=True)
class Wedge(Formula):
    """r^(π/ω) cos(πθ/ω), harmonic in a wedge of angle ω > π and zero on its sides.

    Attributes:
        corner: Its corner.
        middle: Direction from which θ is counted, a unit vector.
        angle: ω.
        size: Length of the whole.
    """

    corner: Point
    middle: Point
    angle: float
    size: float

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        x, y = x - self.corner[0], y - self.corner[1]
        (mx, my), power = self.middle, math.pi / self.angle
        along, aside = x * mx + y * my, y * mx - x * my
        radius = maths.sqrt(_off_zero(x * x + y * y, self.size, maths))
        half = maths.arctan(aside / (radius + along))
        found = _power(x, y, 0.5 * power, self.size, maths) * maths.cos(half * (2 * power))
        return found * self.size ** (1 - power)


def _wedge(a: Line, b: Line, formula: RUnion) -> Wedge:
    (ax, ay), (bx, by) = a.along, b.along
    reach = ((b.point[0] - a.point[0]) * by - (b.point[1] - a.point[1]) * bx) / (ax * by - ay * bx)
    corner = (a.point[0] + reach * ax, a.point[1] + reach * ay)
    middle = (-(ay + by), ax + bx)
    length = math.hypot(*middle)
    direction = (middle[0] / length, middle[1] / length)
    return Wedge(corner, direction, 2 * math.pi - formula.angle, formula.size)


def _power(a: Any, b: Any, exponent: float, size: float, maths: Any) -> Any:
    """(a² + b²) to a power between zero and one, without a slope where it is zero."""
    squares = a * a + b * b
    return squares * _off_zero(squares, size, maths) ** (exponent - 1)


def _off_zero(squares: Any, size: float, maths: Any) -> Any:
    """Squares of lengths, never quite zero."""
    return maths.clip(squares, NEAR * size**2, None)


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
    if cross(points, np.roll(points, -1, 0)).sum() < 0:
        points = points[::-1]
    # Two corners of the convex hull; an odd direction, so that no side lies across it.
    along = points @ np.array([math.cos(0.3), math.sin(0.3)])
    start = int(along.argmin())
    points, along = np.roll(points, -start, 0), np.roll(along, -start)
    stop = int(along.argmax())
    closed = np.concatenate([points, points[:1]])
    angle = max(_angle(points, 0), _angle(points, stop))
    first, second = (_left_of(c, size) for c in (closed[: stop + 1], closed[stop:]))
    return RIntersection(first, second, angle, size)


def _left_of(chain: Array, size: float) -> Formula:
    """What is to the left of a chain whose first and last side have no end."""
    if len(chain) == 2:
        return Line(_point(chain[0]), _point(_unit(chain[1] - chain[0])))
    middle = len(chain) // 2
    for j in sorted(range(1, len(chain) - 1), key=lambda j: abs(j - middle)):
        if _stays_clear(chain, j, size):
            angle = _angle(chain, j)
            first, second = _left_of(chain[: j + 1], size), _left_of(chain[j:], size)
            if angle < math.pi:
                return RIntersection(first, second, angle, size)
            return RUnion(first, second, 2 * math.pi - angle, size)
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
