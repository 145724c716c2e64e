"""Solve a conservation law by finite volumes, on finer and finer meshes.

Values are means over windows around the points of the output: a point value beside a shock does
not improve with refinement; a mean over a fixed window converges, at first order, because
the scheme is conservative.

Between two meshes, one of half the cells of the other, windowed means differ by d; before, by D.
Differences that shrink by r = D/d from level to level add up to d/(r − 1) from the finer mesh on:
that is d at first order, which is what shocks allow, and more where convergence is slower. No more
than first order is credited, r ≤ 2, and since one difference may be small by chance, D/3 is the
least. The estimate is that, times a safety factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from piop.forms.conservation import read_conservation_law
from piop.problem import Problem
from piop.problem.constraints import expression_smoothness
from piop.reference.finite_volume.flux import limited_slopes
from piop.reference.finite_volume.scheme import CellMesh, FiniteVolumeStepper, Scheme, beside
from piop.reference.input_values import Sources
from piop.reference.levels import (
    Earlier,
    Fields,
    GridLevel,
    GridResult,
    SolvedSamples,
    relative_scale,
)
from piop.reference.refinement import LevelSolver
from piop.reference.solution import Request

Window = tuple[Tensor, Tensor]
"""Left and right ends of the intervals along an axis that means are taken over."""


def output_windows(
    problem: Problem, shape: tuple[int, ...], points: Sequence[Tensor]
) -> tuple[Window, ...]:
    """Windows as wide as the spacing of the spec's ``save`` grid, or of a finer output's.

    They reach beyond a periodic axis, and are cut at the ends of another.
    """
    saved = problem.save[-len(problem.space) :]
    windows = []
    for axis, n, kept, middles in zip(problem.space, shape, saved, points, strict=True):
        intervals = n if axis.periodic else max(n - 1, 1)
        width = axis.length / max(intervals, kept if axis.periodic else kept - 1)
        low, high = middles - width / 2, middles + width / 2
        if not axis.periodic:
            low, high = low.clamp(min=axis.low), high.clamp(max=axis.high)
        windows.append((low, high))
    return tuple(windows)


def means(u: Tensor, mesh: CellMesh, windows: tuple[Window, ...], linear: bool = True) -> Tensor:
    """Means over windows of cell means, ``[B, n, *shape]``.

    Args:
        u: Cell means ``[B, n, *sizes]``.
        mesh: Their cells.
        windows: Along each axis.
        linear: Whether the function is taken as limited-linear in a cell, or constant.
    """
    for axis, (low, high) in enumerate(windows):
        width = (high - low).reshape([-1] + [1] * (u.ndim - 3 - axis))
        total = _integral(u, mesh, axis, high, linear) - _integral(u, mesh, axis, low, linear)
        u = total / width
    return u


def _integral(u: Tensor, mesh: CellMesh, axis: int, ends: Tensor, linear: bool) -> Tensor:
    """∫ from the low end of the axis to ``ends``."""
    dim, n, h = 2 + axis, mesh.sizes[axis], mesh.widths[axis]
    position, periodic = (ends - mesh.space[axis].low) / h, mesh.space[axis].periodic
    cell = position.floor()
    if not periodic:
        cell = cell.clamp(0, n - 1)
    shape = [-1] + [1] * (u.ndim - 1 - dim)
    within = (position - cell).reshape(shape)
    laps, index = (cell / n).floor().reshape(shape), (cell % n).long()
    sums = u.cumsum(dim)
    whole = sums.narrow(dim, n - 1, 1)
    before = (sums - u).index_select(dim, index) + laps * whole
    part = u.index_select(dim, index) * within
    if linear:
        slope = limited_slopes(beside(u, dim, periodic), dim).index_select(dim, index)
        part = part + 0.5 * slope * (within**2 - within)
    return h * (before + part)


_SAFETY = 1.5  # of differences that are credited with the first order at most
_SLOWEST = 1.2  # ratio of differences below which none is believed
_START = (64, 32)
_POINTS = {1: 16, 2: 4}  # of a cell and axis, where the initial state has jumps
_GAUSS = 3**-0.5


@final
class ShockSolver(LevelSolver[GridLevel, GridResult]):
    """Solves a conservation law on meshes of equal cells.

    Values are means over windows as wide as a cell of the spec's ``save`` grid (of a finer
    output's own), not point values: ``piop.reference.finite_volume.solve`` says why. Results hold
    them as ``[n, T, *shape]``.
    """

    history = 2
    initial_means = True

    def __init__(self, sources: Sources, request: Request) -> None:
        super().__init__(sources, request)
        self.law = read_conservation_law(self.problem.pde)
        self.windows = output_windows(self.problem, request.shape, self.axes)
        self.coarsest = self._first_level()

    def _first_level(self) -> GridLevel:
        """Return a mesh of half a cell per window, but four levels below the limit."""
        start, sizes = _START[len(self.problem.space) - 1], []
        for axis, (low, high) in zip(self.problem.space, self.windows, strict=True):
            cells = axis.length / float((high - low).max())
            power = 2 ** max(0, round(cells).bit_length() - 1)
            sizes.append(max(4, min(max(start, power // 2), self.most // 8)))
        return GridLevel(1, tuple(sizes))

    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor]:
        """See the base class; cells take sources and coefficients at their centres."""
        mesh = CellMesh(self.problem.space, sizes, self.request.device)
        return {c.name: points for c, points in zip(self.problem.space, mesh.centres, strict=True)}

    def _initial(self, sources: Sources, mesh: CellMesh, samples: Sequence[int]) -> Tensor:
        """Cell means of the initial state ``[B, n, *sizes]``, over boxes where they are small."""
        state = initial_means(self.problem, sources, mesh)
        for row, unknown in enumerate(self.problem.unknowns):
            expression = self.problem.initial[unknown][0]
            (sample, *cell), found = self.features.means(expression, samples, mesh.edges)
            state[(sample, torch.full_like(sample, row), *cell)] = found
        return state

    def solve(
        self, level: GridLevel, samples: Sequence[int], earlier: Earlier[GridResult]
    ) -> SolvedSamples[GridResult]:
        """See the base class."""
        problem, request = self.problem, self.request
        sources = self.sources.take(samples)
        mesh = CellMesh(problem.space, level.sizes, request.device)
        scheme = Scheme(problem, self.law, sources, mesh)
        longest = torch.zeros(len(samples), dtype=torch.float64, device=request.device)
        bound = self.features.step_lengths(samples, problem.coordinates[0])
        part = 2.0 ** (1 - level.number)
        own = bound and (lambda t: part * bound(t))
        stepper = FiniteVolumeStepper(
            scheme, samples, request.limits.steps, longest, own, request.progress.at_time
        )
        values, rates = [], []
        steps = stepper.run(self._initial(sources, mesh, samples), sources.start, request.times)
        for t, u in zip(request.times, steps, strict=True):
            rate = scheme.rate_of_change(u, torch.full_like(longest, t))
            values.append(means(u, mesh, self.windows))
            rates.append(means(rate, mesh, self.windows, linear=False))
        found, slopes = torch.stack(values, 2), torch.stack(rates, 2)
        results = [
            self._result(level, found[row], own, float(stepper.longest[row]))
            for row, own in enumerate(earlier)
        ]

        def evaluate(rows: Sequence[int]) -> Fields:
            names = list(enumerate(problem.unknowns))
            return {n: found[rows, i] for i, n in names}, {n: slopes[rows, i] for i, n in names}

        return SolvedSamples(results, evaluate)

    def _result(
        self, level: GridLevel, values: Tensor, earlier: Sequence[GridResult], longest: float
    ) -> GridResult:
        finer = level.halved() if 2 * max(level.sizes) <= self.most else None
        last = finer is None or level.number >= self.request.limits.levels
        every = [values, *(e.values for e in earlier)]
        differences = [_difference(fine, coarse) for fine, coarse in pairwise(every)]
        if len(differences) == 1 and last:
            differences.append(differences[0] / _SLOWEST)
        return GridResult(
            _estimate(differences),
            finer,
            level.sizes,
            f"{level.grid} cells",
            values,
            step=longest,
            remark="shocks converge at first order",
        )


def initial_means(problem: Problem, sources: Sources, mesh: CellMesh) -> Tensor:
    """Cell means of the initial state ``[B, n, *sizes]``.

    By two Gauss points per axis where it is smooth; by many equal parts of a cell where it jumps.
    """
    expressions = [problem.initial[u][0] for u in problem.unknowns]
    rough = min(expression_smoothness(problem, e)[0] for e in expressions) <= 1
    if rough:
        q = _POINTS[len(mesh.sizes)]
        offsets = (torch.arange(q, dtype=torch.float64) + 0.5) / q
    else:
        offsets = 0.5 + 0.5 * _GAUSS * torch.tensor([-1.0, 1.0], dtype=torch.float64)
    weights = torch.full((len(offsets),), 1 / len(offsets), dtype=torch.float64)
    nodes = mesh.quadrature(offsets)
    fields = [mesh.averages(sources.field(e, nodes), weights) for e in expressions]
    return torch.stack(fields, 1)


def _estimate(differences: Sequence[float]) -> float:
    """Bound of the error of the finest of three meshes, from their two differences."""
    if len(differences) < 2:
        return math.inf
    last, before = differences
    ratio = min(max(before / max(last, 1e-300), _SLOWEST), 2.0)
    return _SAFETY * max(last / (ratio - 1), before / 3)


def _difference(fine: Tensor, coarse: Tensor) -> float:
    """Return the largest over unknowns and times of ‖difference‖₂ over space, relative."""
    gap = (fine - coarse).flatten(2).square().mean(-1).sqrt()  # [n, T]
    scale = relative_scale(fine.flatten(2).square().mean((-1, -2)).sqrt())  # [n]
    return float((gap / scale[:, None]).amax())
