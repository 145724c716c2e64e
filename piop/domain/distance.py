"""Approximate distance functions: zero on the faces, positive inside, maximum one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import numpy as np

from piop.domain.curve import GeometryError
from piop.domain.outline import Outline
from piop.domain.rfunctions import Formula, RIntersection, half_planes
from piop.domain.shapes import Shape

_GRID = 65  # points along each axis at which it is evaluated
_PROBES = 129  # and along each curve
_OFF = 1e-3  # of the size: nearer points are left out
_LEAST = 1e-8  # of the size: what is less there vanishes
_MOST = 1e-6  # of the size: what is more on the boundary does not


class DistanceFactor(ABC):
    """A function that vanishes on faces, is positive inside and one at its largest."""

    @property
    @abstractmethod
    def axes(self) -> tuple[int, ...]:
        """Numbers of the axes of space that it depends on."""

    @abstractmethod
    def __call__(self, *coordinates: Any, maths: Any = np) -> Any:
        """Evaluate at points.

        Args:
            *coordinates: Along each of ``axes``, of one shape.
            maths: NumPy, or a module with the same functions.
        """


@final
@dataclass(frozen=True)
class IntervalDistance(DistanceFactor):
    """Zero at one or both ends of an interval, linear or quadratic between.

    Attributes:
        axis: Number of the axis.
        low: Start of the interval, units of the axis.
        high: End of the interval, units of the axis.
        ends: Whether it vanishes at the start, and at the end.
    """

    axis: int
    low: float
    high: float
    ends: tuple[bool, bool]

    @property
    def axes(self) -> tuple[int, ...]:
        """See the base class."""
        return (self.axis,)

    def __call__(self, *coordinates: Any, maths: Any = np) -> Any:
        """See the base class."""
        (at,) = coordinates
        length = self.high - self.low
        if all(self.ends):
            return (at - self.low) * (self.high - at) * (4 / length**2)
        return (at - self.low) / length if self.ends[0] else (self.high - at) / length


@final
@dataclass(frozen=True)
class ApproximateDistance(DistanceFactor):
    """Zero on the whole boundary of a shape in the plane.

    Attributes:
        formula: Up to a factor.
        height: Its largest value.
    """

    formula: Formula
    height: float

    @property
    def axes(self) -> tuple[int, ...]:
        """See the base class."""
        return (0, 1)

    def __call__(self, *coordinates: Any, maths: Any = np) -> Any:
        """See the base class."""
        x, y = coordinates
        return self.formula(x, y, maths) * (1 / self.height)


def approximate_distance(region: Shape, found: Outline) -> ApproximateDistance:
    """Return the approximate distance from a boundary as a formula.

    Args:
        region: The shape.
        found: Its boundary.

    Raises:
        GeometryError: If there is none, with the reason.
    """
    size = math.sqrt(found.area)
    straight = all(c.straight for c in found.curves)
    whole = _of_sides(found, size) if straight else region.distance_formula(size)
    formula = whole.smoothed()
    (x0, y0), (x1, y1) = found.box()
    grid = np.meshgrid(np.linspace(x0, x1, _GRID), np.linspace(y0, y1, _GRID), indexing="ij")
    inside = np.stack(grid, -1).reshape(-1, 2)
    inside = inside[region.inside(inside)]
    inside = inside[found.distance(inside) > _OFF * size]
    values = formula(inside[:, 0], inside[:, 1], np)
    # Parts that touch along a line, inside the shape, vanish there together.
    touching = np.concatenate([c.at(np.linspace(0, 1, _PROBES)) for c in region.curves()])
    touching = touching[region.inside(touching) & (found.distance(touching) > _OFF * size)]
    edge = np.concatenate([c.at(np.linspace(0, 1, _PROBES)) for c in found.curves])
    signs = formula(touching[:, 0], touching[:, 1], np)
    if not min(values.min(), signs.min(initial=size)) > _LEAST * size:
        raise GeometryError("its parts touch along a line")
    if not np.abs(formula(edge[:, 0], edge[:, 1], np)).max() < _MOST * size:
        raise GeometryError("its parts do not make up its boundary")
    return ApproximateDistance(formula, float(values.max()))


def _of_sides(found: Outline, size: float) -> Formula:
    """Straight sides loop by loop, whatever parts they come from."""
    loops = [[tuple(found.curves[i].at(0.0).tolist()) for i in loop] for loop in found.loops]
    outer, *holes = (half_planes(loop, size) for loop in loops)
    return reduce(lambda a, b: RIntersection(a, b.complement(), math.pi, size), holes, outer)
