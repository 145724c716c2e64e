"""Refine the mesh until the error that three of them show meets the tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.geometry import GeometryError
from piop.geometry.delaunay import triangulate
from piop.problem.weak import weak_form
from piop.reference.fem.grids import Level, Meshes
from piop.reference.fem.pointwise import Array
from piop.reference.fem.space import Space
from piop.reference.fem.system import System
from piop.reference.request import Request
from piop.reference.solution import Solution
from piop.reference.sources import Sources

SAFETY = 2.0
DEGREE = 2
_MOST = 250_000  # coefficients of all unknowns on the finest mesh
_ENOUGH = 60_000  # beyond which nobody goes who cannot reach the tolerance
_MEMORY = 2**28  # bytes of one chunk of the batch
_NUMBERS = 100  # float64 numbers per coefficient that a chunk holds at once, about


def solve_on_shape(
    problem: Any, functions: Mapping[str, InputFunction], request: Request, degree: int = DEGREE
) -> Solution:
    """Solve a steady problem on a shape by finite elements.

    Args:
        problem: The ``Problem``.
        functions: Inputs by name.
        request: What is asked; its shape sets the size of triangles: their sides are as long as
            the steps of such a grid, and their corners are the points of the output.
        degree: Of the piecewise polynomials, 1 or 2.

    Raises:
        SolverError: If the shape cannot be meshed or the equations not be solved.
    """
    return Refinement(problem, Sources(problem, functions, request.device), request, degree).run()


@final
@dataclass
class Track:
    """What is known of one sample.

    Attributes:
        values: At the points of the output, of the last mesh and the ones before ``[C, P]``.
        error: Estimated, relative.
        order: With which it shrinks from mesh to mesh.
    """

    values: list[Array] = field(default_factory=list)
    error: float = math.inf
    order: float = 1.0


@final
class Refinement:
    """Solve a batch, each sample on meshes as fine as it needs.

    Args:
        problem: The ``Problem``.
        sources: Its inputs.
        request: What is asked.
        degree: Of the elements.
    """

    def __init__(self, problem: Any, sources: Sources, request: Request, degree: int) -> None:
        self.problem, self.sources, self.request, self.degree = problem, sources, request, degree
        self.form = weak_form(problem)
        steps = [
            c.length / max(n - 1, 1) for c, n in zip(problem.space, request.shape, strict=True)
        ]
        self.side = math.sqrt(math.prod(steps))
        try:
            first = triangulate(problem.shape, self.side)
        except GeometryError as error:
            raise SolverError(f"{problem.name}: {error}") from None
        prescribed = {face: bool(given) for face, given in self.form.values.items()}
        self.meshes = Meshes(problem.shape, first, prescribed, degree)
        self.points = torch.from_numpy(first.points)
        self.tracks = [Track() for _ in range(sources.batch)]
        self.sides = torch.zeros((sources.batch, 2), dtype=torch.int64)
        self.notes: list[str] = []

    def run(self) -> Solution:
        """Solve every sample."""
        left = list(range(self.sources.batch))
        for number, level in enumerate(self.meshes):
            space = self._space(level)
            system = System(self.problem, self.form, space)
            for group in self._chunks(left, space.count):
                sources = self.sources.take(torch.tensor(group))
                for sample, values in zip(group, system.solve(sources, group), strict=True):
                    self._judge(self.tracks[sample], values[:, space.corners[: len(self.points)]])
            for sample in list(left):
                if not self._goes_on(self.tracks[sample], number + 1, space.count):
                    left.remove(sample)
                    self._finish(sample, number, space)
            if not left:
                return self._solution()
        raise AssertionError("meshes have no end")

    def _space(self, level: Level) -> Space:
        mesh = level.mesh if self.degree == 1 else level.curved(self.problem.shape)
        crossed = [f for f, integrand in self.form.faces.items() if integrand.terms]
        return Space(mesh, self.degree, level.faces(self.problem.shape), crossed)

    def _chunks(self, samples: Sequence[int], count: int) -> list[list[int]]:
        size = max(1, _MEMORY // (8 * _NUMBERS * count * len(self.form.atoms)))
        return [list(samples[i : i + size]) for i in range(0, len(samples), size)]

    def _judge(self, track: Track, values: Array) -> None:
        """Compare the values of this mesh with those of the ones before."""
        track.values.insert(0, values)
        del track.values[3:]
        if len(track.values) < 2:
            return
        scale = np.maximum(np.linalg.norm(values, axis=1), 1e-300)
        gaps = [
            float((np.linalg.norm(a - b, axis=1) / scale).max()) for a, b in pairwise(track.values)
        ]
        if self.form.jumps:  # single differences depend on where triangles are cut
            track.order = 1.0 if self.form.kinked else 1.5
            gaps[0] = max([gaps[0], *(g / 2**track.order for g in gaps[1:])])
        else:
            observed = math.log2(gaps[1] / gaps[0]) if len(gaps) > 1 and min(gaps) > 0 else 1.0
            track.order = min(max(observed, 0.5), self.degree + 1.0)
        track.error = SAFETY * gaps[0] / (2**track.order - 1)

    def _goes_on(self, track: Track, level: int, count: int) -> bool:
        if track.error <= self.request.tolerance:
            return False
        size = count * len(self.form.atoms)
        left = math.floor(math.log(min(_MOST, self.request.limits.modes[1] ** 2) / size, 4))
        if left < 1 or level >= self.request.limits.levels:
            return False
        reached = track.error * 2 ** (-left * track.order)
        return math.isinf(track.error) or 4 * size <= _ENOUGH or reached <= self.request.tolerance

    def _finish(self, sample: int, level: int, space: Space) -> None:
        side = self.side / 2**level
        counts = [round(c.length / side) + 1 for c in self.problem.space]
        self.sides[sample] = torch.tensor(counts)
        track, tolerance = self.tracks[sample], self.request.tolerance
        if track.error > tolerance:
            self.notes.append(
                f"sample {sample}: tolerance {tolerance:.1e} not met; on a mesh of {space.count} "
                f"nodes the estimated error is {track.error:.1e} and falls with order "
                f"{track.order:.1f}"
            )

    def _solution(self) -> Solution:
        device = self.request.device
        batch = len(self.tracks)
        values = torch.from_numpy(np.stack([t.values[0] for t in self.tracks])).to(device)
        error = torch.tensor([t.error for t in self.tracks], dtype=torch.float64, device=device)
        return Solution(
            torch.empty(0, dtype=torch.float64, device=device),
            (),
            {n: values[:, c].contiguous() for c, n in enumerate(self.problem.channels)},
            {},
            error,
            error <= self.request.tolerance,
            self.sides,
            torch.zeros(batch, dtype=torch.float64, device=device),
            self.request.tolerance,
            tuple(self.notes),
            points=self.points.to(device).expand(batch, -1, -1),
        )
