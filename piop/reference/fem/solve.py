"""Refine the mesh until the error that three of them show meets the tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch

from piop.domain import GeometryError, Outline, TriangleMesh
from piop.domain.delaunay import triangulate
from piop.errors import SolverError
from piop.fields import InputFunction
from piop.forms.weak import WeakForm, weak_form
from piop.reference.fem.meshes import (
    MeshHierarchy,
    MeshLevel,
    found_again,
    mesh_for,
    of_one_shape,
    own_outline,
    spread,
)
from piop.reference.fem.space import Array, Space
from piop.reference.fem.system import FiniteElementSystem, Recovery
from piop.reference.solution import Request, Solution, together
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
            the steps of such a grid, and their corners are the points of the output. Where the
            problem says how many points there are, these are spread over the shape, and the
            triangles are as large as they can be.
        degree: Of the piecewise polynomials, 1 or 2.

    Returns:
        The solution. Samples whose own shape cannot be had or meshed are NaN throughout, with the
        reason among the notes.

    Raises:
        SolverError: If the one shape of all cannot be meshed, or the equations not be solved.
    """
    sources, form = Sources(problem, functions, request.device), weak_form(problem.pde)
    if problem.domain.varies:
        groups = of_one_shape(problem, sources)
        parts = [_alike(problem, form, sources, group, request, degree) for group in groups]
        order = torch.tensor([sample for group in groups for sample in group]).argsort()
        return together(parts).take(order)
    every = range(sources.batch)
    try:
        return MeshRefinement(
            problem, form, problem.domain.outline, sources, request, degree, every
        ).run()
    except GeometryError as error:
        raise SolverError(f"{problem.name}: {error}") from None


def _alike(
    problem: Any,
    form: WeakForm,
    sources: Sources,
    samples: Sequence[int],
    request: Request,
    degree: int,
) -> Solution:
    """Solve samples of one shape on that shape."""
    own = sources.take(torch.tensor(samples))
    try:
        outline = own_outline(problem, own)
        return MeshRefinement(problem, form, outline, own, request, degree, samples).run()
    except GeometryError as error:
        texts = [f"sample {sample}: the shape: {error}" for sample in samples]
        return together([_without(problem, text, request) for text in texts])


def _without(problem: Any, note: str, request: Request) -> Solution:
    """What is said of a sample that has no shape."""
    device = request.device
    nothing = torch.full((1, problem.points), math.nan, dtype=torch.float64, device=device)
    error = torch.full((1,), math.inf, dtype=torch.float64, device=device)
    return Solution(
        torch.empty(0, dtype=torch.float64, device=device),
        (),
        dict.fromkeys(problem.channels, nothing),
        {},
        error,
        error < 0,
        torch.zeros((1, 2), dtype=torch.int64),
        torch.zeros(1, dtype=torch.float64, device=device),
        request.tolerance,
        (note,),
        points=nothing[..., None].expand(-1, -1, 2),
    )


@final
@dataclass
class MeshTrack:
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
class MeshRefinement:
    """Solve a batch, each sample on meshes as fine as it needs.

    Args:
        problem: The ``Problem``.
        form: Its weak form.
        outline: Boundary of the shape, which all samples have.
        sources: Its inputs.
        request: What is asked.
        degree: Of the elements.
        named: Numbers of the samples, for messages.

    Raises:
        GeometryError: If the shape cannot be meshed.
    """

    def __init__(
        self,
        problem: Any,
        form: WeakForm,
        outline: Outline,
        sources: Sources,
        request: Request,
        degree: int,
        named: Sequence[int],
    ) -> None:
        self.problem, self.sources, self.request, self.degree = problem, sources, request, degree
        self.form, self.outline, self.named = form, outline, named
        mesh, self.side = self._first_mesh()
        prescribed = {face: bool(given) for face, given in self.form.values.items()}
        self.meshes = MeshHierarchy(outline, mesh, prescribed, degree)
        self.points, self.numbers = mesh.points, np.arange(len(mesh.points))
        self.tracks = [MeshTrack() for _ in range(sources.batch)]
        self.sides = torch.zeros((sources.batch, 2), dtype=torch.int64)
        self.notes: list[str] = []

    def run(self) -> Solution:
        """Solve every sample."""
        left = list(range(self.sources.batch))
        for number, level in enumerate(self.meshes):
            space = self._space(level)
            nodes = self._output(number, space)
            system = FiniteElementSystem(self.problem, self.form, space)
            recovery = Recovery(self.problem, self.form, space)
            for group in self._chunks(left, space.count):
                sources = self.sources.take(torch.tensor(group))
                named = [self.named[sample] for sample in group]
                solved = recovery.complete(sources, system.solve(sources, named), named)
                for sample, values in zip(group, solved, strict=True):
                    self._judge(self.tracks[sample], values[:, nodes])
            for sample in list(left):
                if not self._goes_on(self.tracks[sample], number + 1, space.count):
                    left.remove(sample)
                    self._finish(sample, number, space)
            if not left:
                return self._solution()
        raise AssertionError("meshes have no end")

    def _first_mesh(self) -> tuple[TriangleMesh, float]:
        """The coarsest mesh, and about how long its sides are."""
        if self.problem.points is not None:
            mesh = mesh_for(self.outline, self.problem.points, self.degree)
            mean = self.outline.area / len(mesh.triangles)
            return mesh, math.sqrt(mean * 4 / math.sqrt(3))
        counts = zip(self.problem.space, self.request.shape, strict=True)
        steps = [c.length / max(n - 1, 1) for c, n in counts]
        side = math.sqrt(math.prod(steps))
        return triangulate(self.outline, side), side

    def _output(self, level: int, space: Space) -> Array:
        """Basis functions at the points of the output.

        Those are corners of the first mesh; or some of its nodes, which are corners from the second
        mesh on.
        """
        if self.problem.points is not None and level == 0:
            chosen = spread(self.outline, space.places, self.problem.points)
            self.points = space.places[chosen]
            return chosen
        if self.problem.points is not None and level == 1:
            self.numbers = found_again(space.places[space.corners], self.points)
        return space.corners[self.numbers]

    def _space(self, level: MeshLevel) -> Space:
        mesh = level.mesh if self.degree == 1 else level.curved(self.outline)
        crossed = [f for f, integrand in self.form.faces.items() if integrand.terms]
        return Space(mesh, self.degree, level.faces(self.outline), crossed)

    def _chunks(self, samples: Sequence[int], count: int) -> list[list[int]]:
        size = max(1, _MEMORY // (8 * _NUMBERS * count * len(self.form.atoms)))
        return [list(samples[i : i + size]) for i in range(0, len(samples), size)]

    def _judge(self, track: MeshTrack, values: Array) -> None:
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

    def _goes_on(self, track: MeshTrack, level: int, count: int) -> bool:
        if track.error <= self.request.tolerance:
            return False
        size = count * len(self.form.atoms)
        left = math.floor(math.log(min(_MOST, self.request.limits.modes[1] ** 2) / size, 4))
        if left < 1 or level >= self.request.limits.levels:
            return False
        # Two meshes show no order yet: a third is worth its cost where the best order would do.
        unknown = len(track.values) < 3 and not self.form.jumps
        order = self.degree + 1.0 if unknown else track.order
        error = track.error * (2**track.order - 1) / (2**order - 1)
        reached = error * 2 ** (-left * order)
        return math.isinf(track.error) or 4 * size <= _ENOUGH or reached <= self.request.tolerance

    def _finish(self, sample: int, level: int, space: Space) -> None:
        side = self.side / 2**level
        counts = [round(c.length / side) + 1 for c in self.problem.space]
        self.sides[sample] = torch.tensor(counts)
        track, tolerance = self.tracks[sample], self.request.tolerance
        if track.error > tolerance:
            self.notes.append(
                f"sample {self.named[sample]}: tolerance {tolerance:.1e} not met; on a mesh of "
                f"{space.count} nodes the estimated error is {track.error:.1e} and falls with "
                f"order {track.order:.1f}"
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
            points=torch.from_numpy(self.points).to(device).expand(batch, -1, -1),
        )
