"""Positions at which solutions are shown: a grid on a box, triangles on a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.domain import PlaneRegion
from piop.domain.triangulation import TriangleMesh, triangulate
from piop.explore.limits import SHOWN_POINTS
from piop.fields import tensor_grid
from piop.problem import Problem
from piop.reference.fem.meshes import grid_side
from piop.run.user_inputs import save_grid


@final
@dataclass(frozen=True)
class Display:
    """Positions at which solutions are shown.

    Attributes:
        problem: The problem.
        times: Times ``[T]``; None for a steady problem.
        axes: Axis of space → positions; empty on a shape, and without space.
        sizes: Points along each axis of the box around a shape, or of the grid.
        mesh: Triangles of a shape; None on a box.
    """

    problem: Problem
    times: Tensor | None
    axes: Mapping[str, Tensor]
    sizes: tuple[int, ...]
    mesh: TriangleMesh | None = None

    @classmethod
    def of(cls, problem: Problem, end_only: bool = False) -> Display:
        """Lay the positions of a problem.

        Args:
            problem: The problem, on a box or on one shape.
            end_only: Whether only the last time is known.
        """
        grid = dict(save_grid(problem, SHOWN_POINTS[len(problem.space)], end_only).axes or {})
        times = None if problem.time is None else grid.pop(problem.time.name)
        sizes = tuple(map(len, grid.values()))
        if problem.domain.is_box:
            return cls(problem, times, grid, sizes)
        outline = cast("PlaneRegion", problem.domain).outline
        mesh = triangulate(outline, grid_side(problem.space, sizes))
        return cls(problem, times, {}, sizes, mesh)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one channel at one time."""
        return self.sizes if self.mesh is None else (len(self.mesh.points),)

    @property
    def moving(self) -> bool:
        """Whether one time after the other is shown; without space all are one line."""
        return self.times is not None and bool(self.problem.space)

    @property
    def frames(self) -> int:
        """Number of times that are shown one after the other; 1 where there is no such axis."""
        return len(self.times) if self.times is not None and self.moving else 1

    def queries(self, frame: int | None = None) -> Queries:
        """Return the queries of one time, or of all.

        Args:
            frame: Number of the time; None for all.
        """
        times = self.times
        if times is not None and frame is not None and self.moving:
            times = times[frame : frame + 1]
        named = (
            {} if times is None or self.problem.time is None else {self.problem.time.name: times}
        )
        if self.mesh is None:
            return Queries(axes=named | dict(self.axes))
        points = torch.from_numpy(self.mesh.points)
        if times is None:
            return Queries(points=points[None])
        when = tensor_grid([times, torch.arange(len(points)).double()])
        return Queries(points=torch.cat((when[:, :1], points[when[:, 1].long()]), 1)[None])

    def along_time(self) -> Queries:
        """Return the queries of all times at one position, of which there is one for each time."""
        first = {name: axis[:1] for name, axis in self.axes.items()}
        return Queries(axes=self._named(self.times) | first)

    def _named(self, times: Tensor | None) -> dict[str, Tensor]:
        time = self.problem.time
        return {} if times is None or time is None else {time.name: times}

    def to_json(self) -> dict[str, Any]:
        """Describe the positions for the page."""
        time = self.problem.time
        return {
            "time": time.name if time is not None else None,
            "times": None if self.times is None else self.times.tolist(),
            "moving": self.moving,
            "axes": [{"name": name, "values": axis.tolist()} for name, axis in self.axes.items()],
            "space": [c.name for c in self.problem.space],
            "box": [[c.low, c.high] for c in self.problem.space],
            "points": None if self.mesh is None else self.mesh.points.tolist(),
            "triangles": None if self.mesh is None else self.mesh.triangles.tolist(),
            "shape": list(self.shape),
        }
