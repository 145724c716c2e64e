"""The boundary of a shape as closed loops of curves, with the shape on their left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from piop.domain.curve import Array, Curve, GeometryError, Point, cross
from piop.domain.shapes import Shape

SAME = 1e-9  # of the size of a shape: points that are nearer than this are one
_ASIDE = 1e-6  # of the size: how far beside a curve is looked whether the shape is there
_ROOM = 1e-3  # of the sides of a box: more than a curve bends out between the points looked at


@final
@dataclass(frozen=True)
class Corner:
    """Where one curve ends and the next begins.

    Attributes:
        point: Where they meet.
        angle: Inside the shape, between 0 and 2π; π where the boundary is smooth.
        before: Index of the curve that ends here.
        after: Index of the curve that begins here.
    """

    point: Point
    angle: float
    before: int
    after: int


@final
@dataclass(frozen=True)
class Outline:
    """The boundary of a connected shape.

    Attributes:
        curves: All of them, the shape on their left, loop by loop.
        loops: Indices of the curves of each loop, the outermost loop first.
    """

    curves: tuple[Curve, ...]
    loops: tuple[tuple[int, ...], ...]

    @property
    def faces(self) -> tuple[str, ...]:
        """Names of the parts of the boundary, in the order they are met."""
        return tuple(dict.fromkeys(c.face for c in self.curves))

    @property
    def corners(self) -> tuple[Corner, ...]:
        """Where curves meet."""
        found = []
        for loop in self.loops:
            for before, after in zip(loop, (*loop[1:], loop[0]), strict=True):
                a, b = self.curves[before].direction(1.0), self.curves[after].direction(0.0)
                turn = math.atan2(cross(a, b), float(a @ b))
                x, y = self.curves[after].at(0.0).tolist()
                found.append(Corner((x, y), math.pi - turn, before, after))
        return tuple(found)

    @property
    def size(self) -> float:
        """Diagonal of the box around it."""
        ends = np.concatenate([c.at(np.linspace(0, 1, 9)) for c in self.curves])
        return float(np.linalg.norm(np.ptp(ends, axis=0)))

    @property
    def area(self) -> float:
        """Area of the shape."""
        return sum(loop_area([self.curves[i] for i in loop]) for loop in self.loops)

    def distance(self, points: Array) -> Array:
        """Distances ``[N]`` of points from the boundary, without sign."""
        return np.min([c.distance(points) for c in self.curves], axis=0)

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """Nearest points ``[N, 2]`` of the boundary, and distances ``[N]``, negative outside.

        Where that is a corner, the curve decides that a point is farthest aside of.
        """
        at = [c.parameter(points) for c in self.curves]
        feet, along = (
            np.stack([f(s) for f, s in zip(own, at, strict=True)])
            for own in ([c.at for c in self.curves], [c.direction for c in self.curves])
        )
        away = points - feet
        distance, aside = np.linalg.norm(away, axis=-1), cross(along, away)
        tied = distance <= (1 + 1e-9) * distance.min(0)
        own = np.where(tied, np.abs(aside), -1.0).argmax(0), np.arange(len(points))
        return feet[own], np.where(aside[own] < 0, -distance[own], distance[own])

    def normals(self, points: Array, face: str) -> Array:
        """Outward unit normals ``[N, 2]`` of a face, where it is nearest to points ``[N, 2]``."""
        curves = [c for c in self.curves if c.face == face]
        near = np.argmin([c.distance(points) for c in curves], axis=0)
        along = np.empty_like(points)
        for i, curve in enumerate(curves):
            own = near == i
            along[own] = curve.direction(curve.parameter(points[own]))
        return np.stack([along[:, 1], -along[:, 0]], -1)  # the shape is on the left

    def box(self) -> Array:
        """A box ``[2, 2]`` around the shape, lows first, with some room."""
        points = np.concatenate([c.at(np.linspace(0, 1, 65)) for c in self.curves])
        room = _ROOM * np.ptp(points, axis=0)
        return np.stack([points.min(0) - room, points.max(0) + room])


def outline(shape: Shape) -> Outline:
    """Trace the boundary of a shape.

    Curves are cut where they meet; a part is boundary if the shape is on one of its sides alone.

    Raises:
        GeometryError: If nothing is inside, if the boundary touches itself, or if the shape is in
            several parts.
    """
    curves = shape.curves()
    size = max(float(np.linalg.norm(np.ptp(c.at(np.linspace(0, 1, 9)), axis=0))) for c in curves)
    parts = _cut(curves, SAME * size)
    oriented = (_with_shape_on_left(part, shape, _ASIDE * size) for part in parts)
    kept = _once([curve for curve in oriented if curve is not None], 10 * SAME * size)
    if not kept:
        raise GeometryError("the shape is empty: nothing is inside")
    return _loops(kept, 10 * SAME * size)


def loop_area(loop: Iterable[Curve]) -> float:
    """Area to the left of a closed loop; negative for the loop of a hole."""
    return sum(curve.swept for curve in loop)


def _cut(curves: tuple[Curve, ...], same: float) -> list[Curve]:
    """Cut curves wherever they meet others or end on them."""
    ends = np.concatenate([c.at(np.array([0.0, 1.0])) for c in curves])
    parts = []
    for i, curve in enumerate(curves):
        found = [ends]
        for j, other in enumerate(curves):
            if i != j:
                points = curve.intersections(other)
                found.append(points[other.distance(points) < same])
        points = np.concatenate(found)
        cuts = curve.parameter(points[curve.distance(points) < same])
        cuts = np.sort(np.concatenate([cuts, [0.0, 1.0]]))
        cuts = cuts[np.append(True, np.diff(cuts) * curve.length > same)]
        cuts[-1] = 1.0
        parts += [curve.part(a, b) for a, b in pairwise(cuts.tolist())]
    return parts


def _with_shape_on_left(curve: Curve, shape: Shape, aside: float) -> Curve | None:
    along = curve.direction(0.5)
    left = np.array([-along[1], along[0]])
    middle = curve.at(0.5)
    here, there = shape.inside(np.stack([middle + aside * left, middle - aside * left]))
    if here == there:
        return None
    return curve if here else curve.part(1.0, 0.0)


def _once(curves: list[Curve], same: float) -> list[Curve]:
    """Keep one of the curves that coincide, one with a name if there is one."""
    kept: list[Curve] = []
    for curve in sorted(curves, key=lambda c: not c.face):
        probe = np.array([0.0, 0.5, 1.0])
        if not any(np.abs(curve.at(probe) - k.at(probe)).max() < same for k in kept):
            kept.append(curve)
    return kept


def _loops(curves: list[Curve], same: float) -> Outline:
    starts = np.array([c.at(0.0) for c in curves])
    following = []
    for curve in curves:
        near = np.flatnonzero(np.linalg.norm(starts - curve.at(1.0), axis=1) < same)
        if len(near) != 1:
            x, y = curve.at(1.0).tolist()
            how = "touches itself" if len(near) else "does not close"
            raise GeometryError(f"the boundary {how} at ({x:.6g}, {y:.6g})")
        following.append(int(near[0]))
    left, loops = set(range(len(curves))), []
    while left:
        loop = [min(left)]
        while following[loop[-1]] != loop[0]:
            loop.append(following[loop[-1]])
        left -= set(loop)
        loops.append(loop)
    loops.sort(key=lambda loop: -loop_area(curves[i] for i in loop))
    count = sum(loop_area(curves[i] for i in loop) > 0 for loop in loops)
    if count != 1:
        raise GeometryError(f"the shape is in {count} parts; a connected one is needed")
    order = [i for loop in loops for i in loop]
    number = {old: new for new, old in enumerate(order)}
    return Outline(
        tuple(curves[i] for i in order), tuple(tuple(number[i] for i in loop) for loop in loops)
    )


def named_by_sides(
    found: Outline, intervals: Sequence[tuple[float, float]], names: Sequence[str], rest: str
) -> Outline:
    """Name curves without a name: those on a side of the box around the shape by that side.

    Args:
        found: The outline.
        intervals: Ends of the box along both axes.
        names: Of the axes; the sides are then called ``x.min`` and so on.
        rest: Name of what is on no side.
    """
    slack = 10 * SAME * found.size
    sides = [
        (axis, end, f"{names[axis]}.{side}")
        for axis, ends in enumerate(intervals)
        for end, side in zip(ends, ("min", "max"), strict=True)
    ]

    def name(curve: Curve) -> str:
        ends = curve.at(np.array([0.0, 1.0]))
        here = [n for axis, end, n in sides if np.abs(ends[:, axis] - end).max() < slack]
        return here[0] if curve.straight and here else rest

    return Outline(tuple(c if c.face else c.named(name(c)) for c in found.curves), found.loops)
