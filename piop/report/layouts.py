"""Where solutions are known, as they are drawn: on a grid, or at points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
from scipy.spatial import Delaunay, QhullError

LONGEST = 4.0
"""Longest side of a triangle that is drawn, in median sides, where the region is not known."""


@dataclass(frozen=True)
class View:
    """The coordinates by which a field ``[n1, n2, …]`` is drawn.

    Attributes:
        axes: Coordinate name → positions, in the order of the field's dimensions.
        time: Name of the time coordinate; None for a steady problem.
        units: Labels by name.
    """

    axes: Mapping[str, np.ndarray]
    time: str | None
    units: Mapping[str, str]

    def image_axes(self) -> tuple[str, str] | None:
        """Return the two coordinates of an image; None for a curve."""
        names = list(self.axes)
        if len(names) < 2:
            return None
        first, second, *_ = names if len(names) == 2 else (n for n in names if n != self.time)
        return first, second

    def cuts(self) -> dict[str, int]:
        """Return where the other axes of an image are cut: the last time, the middle of a third."""
        keep = self.image_axes() or self.axes
        ends = {
            name: len(ticks) - 1 if name == self.time else len(ticks) // 2
            for name, ticks in self.axes.items()
        }
        return {name: at for name, at in ends.items() if name not in keep}

    def with_fewer_points(self, most: int) -> View:
        """Return the view with every k-th position of drawn axes, by turns the longest first.

        Args:
            most: Most points of the axes that are drawn.
        """
        axes, cuts = dict(self.axes), self.cuts()
        drawn = sorted((n for n in axes if n not in cuts), key=lambda n: -len(axes[n]))
        turns = cycle(drawn)
        while math.prod(len(axes[name]) for name in drawn) > most:
            name = next(turns)
            axes[name] = axes[name][::2]
        return replace(self, axes=axes)

    def slice(self, values: np.ndarray) -> np.ndarray:
        """Cut a field ``[n1, n2, …]`` to the two dimensions of an image."""
        cuts = self.cuts()
        return values[tuple(cuts.get(name, slice(None)) for name in self.axes)]

    def place(self) -> str:
        """Return where axes are cut, such as `` at t = 1``; nothing where none is."""
        where = [f"{name} = {self.axes[name][at]:.3g}" for name, at in self.cuts().items()]
        return f" at {', '.join(where)}" if where else ""


@dataclass(frozen=True)
class Cloud:
    """Scattered points of the plane, of each of a few samples.

    Attributes:
        names: Names of the two coordinates.
        points: Of each row ``[N, 2]``.
        triangles: Of each row ``[K, 3]``, corners by number; without any, points are drawn alone.
        units: Labels by name.
    """

    names: tuple[str, str]
    points: Sequence[np.ndarray]
    triangles: Sequence[np.ndarray]
    units: Mapping[str, str]

    time: str | None = None

    def of_points(self, kept: Sequence[np.ndarray]) -> Cloud:
        """Return some of the points, and the triangles whose corners are all among them.

        Args:
            kept: Of each row, whether to keep each point ``[N]``.
        """
        numbers = [np.cumsum(own) - 1 for own in kept]
        corners = [t[own[t].all(1)] for t, own in zip(self.triangles, kept, strict=True)]
        return replace(
            self,
            points=[p[own] for p, own in zip(self.points, kept, strict=True)],
            triangles=[n[c] for n, c in zip(numbers, corners, strict=True)],
        )


def triangulate(
    points: np.ndarray, inside: Callable[[np.ndarray], np.ndarray] | None
) -> np.ndarray:
    """Connect points of a region by triangles.

    Args:
        points: ``[N, 2]``.
        inside: Tells which points ``[K, 2]`` lie in the region; without it, triangles with long
            sides are left out.

    Returns:
        Corners of each triangle ``[K, 3]``; none where the points lie on a line.
    """
    try:
        found = Delaunay(points).simplices
    except (QhullError, ValueError):
        return np.empty((0, 3), dtype=int)
    corners = points[found]
    if inside is not None:
        return found[inside(corners.mean(1))]
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    return found[sides.max(1) <= LONGEST * np.median(sides)]
