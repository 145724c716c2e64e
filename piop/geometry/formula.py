"""Functions of the place that are positive inside a shape and vanish on its boundary.

They are put together from straight sides and circles as the shape is from half-planes and disks.
Numbers decide what is done with them: ``maths`` is NumPy, or any module with the same few
functions, so that what differentiates may pass through.

Source: R-functions, Rvachev 1982; Shapiro 2007, "Semi-analytic geometry with R-functions", Acta
Numerica 16, sec. 3 and 5 (doi:10.1017/S0962492906370012); first order everywhere on the boundary
but at corners, as in Sukumar & Srivastava 2022, sec. 3.2 (doi:10.1016/j.cma.2021.114333), whose
R-equivalence joins what is positive inside.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

from piop.geometry.curve import Point

NEAR = 1e-10
"""Squared distances, in squares of the size, below which roots have no slope: at corners themselves
four derivatives of them stay within single precision."""

ROUND = 0.5
"""Of the size: how far from a corner a product is a product."""


class Formula(ABC):
    """A function of the place, positive inside a region, about the distance from its boundary."""

    @abstractmethod
    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """Evaluate at places of any shape."""

    @abstractmethod
    def outside(self) -> Formula:
        """The same of all that is not in the region."""


@final
@dataclass(frozen=True)
class Line(Formula):
    """Distance from a line, positive on its left.

    Attributes:
        place: A point of it.
        along: Its direction, a unit vector.
    """

    place: Point
    along: Point

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        (px, py), (ax, ay) = self.place, self.along
        return (y - py) * ax - (x - px) * ay

    def outside(self) -> Formula:
        """See the base class."""
        return Line(self.place, (-self.along[0], -self.along[1]))


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

    def outside(self) -> Formula:
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
class Both(Pair):
    """What is in two regions: a + b − √(a² + b²)."""

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        a, b = self.first(x, y, maths), self.second(x, y, maths)
        return a + b - _power(a, b, 0.5, self.size, maths)

    def outside(self) -> Formula:
        """See the base class."""
        return Either(self.first.outside(), self.second.outside(), self.angle, self.size)


@final
@dataclass(frozen=True)
class Either(Pair):
    """What is in one of two regions at least: a + b + √(a² + b²)."""

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        a, b = self.first(x, y, maths), self.second(x, y, maths)
        return a + b + _power(a, b, 0.5, self.size, maths)

    def outside(self) -> Formula:
        """See the base class."""
        return Both(self.first.outside(), self.second.outside(), self.angle, self.size)


@final
@dataclass(frozen=True)
class Joined(Pair):
    """Two regions where both functions are positive: their product over their root mean square.

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

    def outside(self) -> Formula:
        """See the base class.

        Raises:
            NotImplementedError: Always: it is for what is positive.
        """
        raise NotImplementedError("outside a region its functions are not positive")


@final
@dataclass(frozen=True)
class Wedge(Formula):
    """r^(π/ω) cos(πθ/ω), harmonic in a wedge of angle ω > π and zero on its sides.

    Attributes:
        place: Its corner.
        middle: Direction from which θ is counted, a unit vector.
        angle: ω.
        size: Length of the whole.
    """

    place: Point
    middle: Point
    angle: float
    size: float

    def __call__(self, x: Any, y: Any, maths: Any) -> Any:
        """See the base class."""
        x, y = x - self.place[0], y - self.place[1]
        (mx, my), power = self.middle, math.pi / self.angle
        along, aside = x * mx + y * my, y * mx - x * my
        half = maths.arctan(
            aside / (maths.sqrt(_off_zero(x * x + y * y, self.size, maths)) + along)
        )
        found = _power(x, y, 0.5 * power, self.size, maths) * maths.cos(half * (2 * power))
        return found * self.size ** (1 - power)

    def outside(self) -> Formula:
        """See the base class.

        Raises:
            NotImplementedError: Always: its sides are not followed there.
        """
        raise NotImplementedError("a wedge is known inside alone")


def smoothed(formula: Formula) -> Formula:
    """Replace what is in both, where both are positive, by what suits corners better.

    Args:
        formula: Positive wherever it is asked.
    """
    if isinstance(formula, Both):
        first, second = smoothed(formula.first), smoothed(formula.second)
        return Joined(first, second, formula.angle, formula.size)
    if not isinstance(formula, Either):
        return formula
    a, b = formula.first, formula.second
    if isinstance(a, Line) and isinstance(b, Line) and formula.angle < math.pi:
        return _wedge(a, b, formula)
    return formula


def _wedge(a: Line, b: Line, formula: Either) -> Wedge:
    (ax, ay), (bx, by) = a.along, b.along
    reach = ((b.place[0] - a.place[0]) * by - (b.place[1] - a.place[1]) * bx) / (ax * by - ay * bx)
    place = (a.place[0] + reach * ax, a.place[1] + reach * ay)
    middle = (-(ay + by), ax + bx)
    length = math.hypot(*middle)
    direction = (middle[0] / length, middle[1] / length)
    return Wedge(place, direction, 2 * math.pi - formula.angle, formula.size)


def _power(a: Any, b: Any, exponent: float, size: float, maths: Any) -> Any:
    """(a² + b²) to a power between zero and one, without a slope where it is zero."""
    squares = a * a + b * b
    return squares * _off_zero(squares, size, maths) ** (exponent - 1)


def _off_zero(squares: Any, size: float, maths: Any) -> Any:
    """Squares of lengths, never quite zero."""
    return maths.clip(squares, NEAR * size**2, None)
