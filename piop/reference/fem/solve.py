"""Solve a steady problem on a region by finite elements, on finer and finer meshes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import cast, final

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from piop.domain import GeometryError, Outline, PlaneRegion, RegionFamily
from piop.domain.triangulation import sides, triangulate
from piop.errors import SolverError
from piop.forms.weak import WeakForm, weak_form
from piop.reference.features import Features
from piop.reference.fem.meshes import (
    MeshHierarchy,
    grid_side,
    mesh_for,
    node_count,
    samples_by_region,
    spread_points,
    trace_outline,
)
from piop.reference.fem.space import Array, Space
from piop.reference.fem.system import FiniteElementSystem, Recovery
from piop.reference.input_values import Sources
from piop.reference.levels import (
    Earlier,
    Fields,
    GridLevel,
    GridResult,
    SolvedSamples,
    observed_order,
    require_balance,
    richardson_error,
)
from piop.reference.refinement import LevelSolver
from piop.reference.solution import Request, Solution, concatenate

DEGREE = 2
"""Of the piecewise polynomials."""
_MOST = 250_000  # coefficients of all unknowns on the finest mesh
_WORTHWHILE = 60_000  # beyond which nothing is refined that cannot reach the tolerance
_LEAST = 3  # meshes within that limit, where the output is too fine for those that hold its points
_NUMBERS = 200  # float64 numbers per coefficient that a sample takes, about


@final
class ShapeSolver:
    """Solves a steady problem on a region of the plane, or on one for each sample.

    Args:
        sources: The problem with its inputs.
        request: What is requested; its shape sets the size of triangles: their sides are as long as
            the steps of such a grid, and their corners are the points of the output. Where the
            problem says how many points there are, these are spread over the shape, and the
            triangles are as large as they can be. An output so fine that only one such mesh would
            fit the limit is interpolated from coarser ones.
    """

    def __init__(self, sources: Sources, request: Request) -> None:
        self.sources, self.request = sources, request
        self.form = weak_form(sources.problem.pde)

    def run(self) -> Solution:
        """Solve every sample.

        Returns:
            The solution. Samples whose own region cannot be traced or meshed are NaN throughout,
            with the reason among the notes.

        Raises:
            SolverError: If the one region of all cannot be meshed, or the equations not be solved.
        """
        domain, sources = self.sources.problem.domain, self.sources
        if isinstance(domain, RegionFamily):
            groups = samples_by_region(domain, sources)
            parts = [self._solve_group(domain, group) for group in groups]
            order = torch.tensor([sample for group in groups for sample in group]).argsort()
            return concatenate(parts).take(order)
        try:
            outline = cast("PlaneRegion", domain).outline
            return MeshSolver(sources, self.request, self.form, outline).run()
        except GeometryError as error:
            raise SolverError(f"{sources.problem.name}: {error}") from None

    def _solve_group(self, family: RegionFamily, samples: Sequence[int]) -> Solution:
        """Solve samples of one region on that region; NaN where it cannot be traced or meshed.

        Of several regions, those that no time is left for are NaN, too.
        """
        own = self.sources.take(samples)
        if 0 not in samples and self.request.seconds_left <= 0:
            notes = [f"sample {s}: not solved, because no time is left" for s in samples]
            return _failed(own, self.request, notes, late=True)
        try:
            solver = MeshSolver(own, self.request, self.form, trace_outline(family, own))
            solver.samples = samples
            return solver.run()
        except GeometryError as error:
            return _failed(own, self.request, [f"sample {s}: the shape: {error}" for s in samples])


def _failed(
    sources: Sources, request: Request, notes: Sequence[str], late: bool = False
) -> Solution:
    """Return NaN for samples without a region, or that come too late, with the reasons."""
    batch, f64 = len(notes), {"dtype": torch.float64, "device": request.device}
    nan = torch.full((batch, sources.problem.points or 0), math.nan, **f64)
    return Solution(
        nan.new_empty(0),
        (),
        dict.fromkeys(sources.problem.channels, nan),
        {},
        nan.new_full((batch,), math.inf),
        torch.zeros((batch, 2), dtype=torch.int64),
        nan.new_zeros(batch),
        request.tolerance,
        tuple(notes),
        points=nan[..., None].expand(-1, -1, 2),
        ended_by_time=torch.full((batch,), late) if request.limits.seconds < math.inf else None,
    )


@final
class MeshSolver(LevelSolver[GridLevel, GridResult]):
    """Solves samples on meshes of one region; results hold values at output points ``[C, P]``.

    Args:
        sources: The problem with its inputs.
        request: What is requested.
        form: The weak form of the problem.
        outline: Boundary of the region, which all samples have.

    Attributes:
        side: Length of the sides of the coarsest mesh, about.
        between: Whether the points of the output lie between nodes of the meshes.

    Raises:
        GeometryError: If the region cannot be meshed.
    """

    history = 2

    def __init__(
        self, sources: Sources, request: Request, form: WeakForm, outline: Outline
    ) -> None:
        super().__init__(sources, request)
        self.axes = ()
        self.form, self.outline = form, outline
        self.largest = min(_MOST, request.limits.modes[1] ** 2)
        if self.problem.points is None:
            self.side = grid_side(self.problem.space, request.shape)
            mesh = triangulate(outline, self.side)
        else:
            mesh = mesh_for(outline, self.problem.points)
            mean = outline.area / len(mesh.triangles)
            self.side = math.sqrt(mean * 4 / math.sqrt(3))
        self.points, self.numbers = mesh.points, np.arange(len(mesh.points))
        room = self.largest / (node_count(mesh) * len(form.atoms))
        self.between = room < 4  # the output is too fine for a second mesh that holds its points
        if self.between:
            if (count := self.problem.points) is not None:
                nodes = mesh_for(outline, 4 * count).points
                self.points = nodes[spread_points(outline, nodes, count)]
            self.side *= 2 ** math.ceil(math.log(4 ** (_LEAST - 1) / room, 4))
            mesh = triangulate(outline, self.side)
        gap = float(sides(mesh.points, mesh.triangles).max()) / DEGREE
        counts = (math.ceil(c.length / gap) for c in self.problem.space)
        self.coarsest = GridLevel(1, tuple(counts))
        prescribed = {face: bool(given) for face, given in self.form.values.items()}
        self.meshes = iter(MeshHierarchy(outline, mesh, prescribed, DEGREE))
        self.level = 0
        self.imbalance: dict[int, Array] = {}

    def run(self) -> Solution:
        """See the base class."""
        solution = super().run()
        points = torch.from_numpy(self.points).to(self.request.device)
        return replace(solution, points=points.expand(self.sources.batch, -1, -1))

    @cached_property
    def features(self) -> Features:
        """The features of the data, and of the inverse of what stands before slopes."""
        own = [s for i, k, j, m, s in self.form.volume.slopes if i == j and k == m > 0]
        resistance = [1 / s for s in own if self.form.linear]
        cell = max(
            c.length / n for c, n in zip(self.problem.space, self.coarsest.sizes, strict=True)
        )
        return Features(self.sources, resistance, outline=self.outline, cell=cell)

    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor]:
        """See the base class: a grid as coarse as nodes on the longest side of a triangle."""
        space = zip(self.problem.space, sizes, strict=True)
        f64 = {"dtype": torch.float64, "device": self.sources.device}
        return {c.name: torch.linspace(float(c.low), float(c.high), n + 1, **f64) for c, n in space}

    def bytes_per_sample(self, level: GridLevel) -> float:
        """See the base class."""
        self._go_to(level)
        return 8 * _NUMBERS * self.space.count * len(self.form.atoms)

    def solve(
        self, level: GridLevel, samples: Sequence[int], earlier: Earlier[GridResult]
    ) -> SolvedSamples[GridResult]:
        """See the base class."""
        self._go_to(level)
        sources = self.sources.take(samples)
        named = [self.samples[sample] for sample in samples]
        state = self.system.solve(sources, named)
        self._require_balance(self.system.imbalance(sources, state), samples)
        solved = self.recovery.complete(sources, state, named)
        results = [
            self._result(level, sample, torch.from_numpy(self.output(values)), own)
            for sample, values, own in zip(samples, solved, earlier, strict=True)
        ]

        def evaluate(rows: Sequence[int]) -> Fields:
            values = torch.stack([results[row].values for row in rows]).to(self.request.device)
            return {n: values[:, c] for c, n in enumerate(self.problem.channels)}, {}

        return SolvedSamples(results, evaluate)

    def _saw(self, level: GridLevel, back: int, sample: int) -> bool:
        """Whether the data were seen so many levels before.

        By one, so that a difference shows an error; by two, so that differences show an order.
        """
        return self.sees(tuple(n // 2**back for n in level.sizes), sample)

    def _require_balance(self, imbalance: Array, samples: Sequence[int]) -> None:
        """Where a constant is free, sources and fluxes must cancel."""
        for own, sample in zip(imbalance, samples, strict=True):
            before = self.imbalance.setdefault(sample, own * math.nan)
            for i in self.system.means:
                name = self.problem.channels[self.form.solved[i]]
                tolerance = self.request.tolerance
                require_balance(own[i], before[i], tolerance, name, self.samples[sample])
            self.imbalance[sample] = own

    def _go_to(self, level: GridLevel) -> None:
        """Discretise on the mesh of a level; meshes come one after the other."""
        while self.level < level.number:
            mesh, self.level = next(self.meshes), self.level + 1
            crossed = [f for f, integrand in self.form.faces.items() if integrand.terms]
            faces = mesh.faces(self.outline)
            self.space = Space(mesh.curved(self.outline), DEGREE, faces, crossed)
            self.output = self._output(self.space)
            self.system = FiniteElementSystem(self.problem, self.form, self.space)
            self.recovery = Recovery(self.problem, self.form, self.space)

    def _output(self, space: Space) -> Callable[[Array], Array]:
        """Return what takes coefficients ``[C, count]`` to values at the points of the output.

        Those are corners of the first mesh; or some of its nodes, which are corners from the second
        mesh on; or they lie anywhere in the triangles.
        """
        if self.between:
            matrix = space.interpolation(self.points)
            return lambda values: (matrix @ values.T).T
        nodes = self._output_nodes(space)
        return lambda values: values[:, nodes]

    def _output_nodes(self, space: Space) -> Array:
        """Return the basis functions at the points of the output."""
        if self.problem.points is not None and self.level == 1:
            chosen = spread_points(self.outline, space.points, self.problem.points)
            self.points = space.points[chosen]
            return chosen
        if self.problem.points is not None and self.level == 2:
            _, self.numbers = KDTree(space.points[space.corners]).query(self.points)
        return space.corners[self.numbers]

    def _result(
        self, level: GridLevel, sample: int, values: Tensor, earlier: Sequence[GridResult]
    ) -> GridResult:
        known = earlier if len(earlier) < 2 or self._saw(level, 2, sample) else earlier[:1]
        every = [v.numpy() for v in (values, *(e.values for e in known))]
        error, order = self._estimate(every)
        agreed = not known or self._saw(level, 1, sample)
        size = self.space.count * len(self.form.atoms)
        left = math.floor(math.log(self.largest / size, 4))
        # Two meshes show no order yet: a third is worth its cost where the best order would do.
        unknown = len(every) < 3 and not self.form.jumps
        best = DEGREE + 1.0 if unknown else order
        expected = error * (2**order - 1) / (2**best - 1) * 2 ** (-left * best)
        side = self.side / 2 ** (level.number - 1)
        return GridResult(
            error if agreed else math.inf,
            level.halved() if left >= 1 else None,
            [round(c.length / side) + 1 for c in self.problem.space],
            f"a mesh of {self.space.count} nodes",
            values,
            expected=0.0 if 4 * size <= _WORTHWHILE else expected,
            remark=f"the error falls with order {order:.1f}",
            reported=error if agreed else max(error, 1.01 * self.request.tolerance),
        )

    def _estimate(self, values: Sequence[Array]) -> tuple[float, float]:
        """Estimate the error of the last mesh's values, newest first, and its order."""
        if len(values) < 2:
            return math.inf, 1.0
        scale = np.maximum(np.linalg.norm(values[0], axis=1), 1e-300)
        differences = [
            float((np.linalg.norm(a - b, axis=1) / scale).max()) for a, b in pairwise(values)
        ]
        if self.form.jumps:  # single differences depend on where triangles are cut
            order = 1.0 if self.form.kinked else 1.5
            largest = max([differences[0], *(d / 2**order for d in differences[1:])])
            return richardson_error(largest, order), order
        order = min(max(observed_order(differences), 0.5), DEGREE + 1.0)
        return richardson_error(differences[0], order), order
