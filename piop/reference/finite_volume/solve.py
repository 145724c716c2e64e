"""Solve a conservation law on finer and finer meshes until the error estimate meets the tolerance.

Between two meshes, one of half the cells of the other, windowed means differ by d; before, by D.
Differences that shrink by r = D/d a level add up to d/(r − 1) from the finer mesh on: that is d at
first order, which is what shocks allow, and more where convergence is slower. No more than first
order is credited, r ≤ 2, and since one difference may be small by chance, D/3 is the least. The
estimate is that, times a safety factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.conservation import ConservationLaw, read_conservation_law
from piop.problem.constraints import expression_smoothness
from piop.reference.finite_volume.mesh import CellMesh
from piop.reference.finite_volume.scheme import Scheme
from piop.reference.finite_volume.time_stepping import FiniteVolumeStepper
from piop.reference.finite_volume.windows import Window, means, output_windows
from piop.reference.solution import Request, Solution
from piop.reference.sources import Sources

SAFETY = 1.5
_SLOWEST = 1.2  # ratio of differences below which none is believed
_START = (64, 32)
_FLOOR = 1e-9  # unknowns below this share of the largest are measured against it
_POINTS = {1: 16, 2: 4}  # of a cell and axis, where the initial state has jumps
_GAUSS = 3**-0.5


@dataclass
class _Run:
    """One mesh: windowed values and slopes ``[B, n, T, *shape]``, and the longest steps ``[B]``."""

    values: Tensor
    slopes: Tensor
    longest: Tensor


def solve_law(problem: Any, functions: Mapping[str, InputFunction], request: Request) -> Solution:
    """Solve a conservation law; called by ``piop.reference.solve_reference``.

    Values are means over windows as wide as a cell of the spec's ``save`` grid (of a finer
    output's own), not point values: ``piop.reference.finite_volume.windows`` says why.
    """
    return _Ladder(problem, functions, request).climb()


class _Ladder:
    def __init__(
        self, problem: Any, functions: Mapping[str, InputFunction], request: Request
    ) -> None:
        self.problem, self.request = problem, request
        self.law: ConservationLaw = read_conservation_law(problem.pde)
        self.sources = Sources(problem, functions, request.device)
        self.windows: tuple[Window, ...] = output_windows(problem, request.shape, request.device)
        count, rank = self.sources.batch, len(problem.space)
        self.error = torch.full((count,), torch.inf, dtype=torch.float64)
        self.modes = torch.zeros(count, rank, dtype=torch.int64)
        self.step = torch.zeros(count, dtype=torch.float64)
        shape = (count, len(problem.unknowns), len(request.times), *request.shape)
        self.values = torch.zeros(shape, dtype=torch.float64, device=request.device)
        self.slopes = torch.zeros_like(self.values)
        self.notes: list[str] = []

    def climb(self) -> Solution:
        sizes, cap = self._first(), self.request.limits.modes[len(self.problem.space) - 1]
        samples = torch.arange(self.sources.batch)
        before: Tensor | None = None
        gap: Tensor | None = None
        for level in range(1, self.request.limits.levels + 1):
            run = self._run(samples, sizes)
            error = torch.full((len(samples),), torch.inf, dtype=torch.float64)
            found = None if before is None else _difference(run.values, before)
            if found is not None and gap is not None:
                error = _estimate(found, gap)
            finer = tuple(2 * n for n in sizes)
            last = max(finer) > cap or level == self.request.limits.levels
            if last and found is not None and gap is None:
                error = _estimate(found, found / _SLOWEST)
            done = error <= self.request.tolerance
            self._store(samples, run, sizes, error, done if not last else torch.ones_like(done))
            left = ~done
            if last or not bool(left.any()):
                break
            samples = samples[left]
            before = run.values[left.to(run.values.device)]
            gap = None if found is None else found[left]
            sizes = finer
        return self._solution()

    def _first(self) -> tuple[int, ...]:
        """Half a cell per window, but four levels below the limit."""
        rank = len(self.problem.space)
        cap = self.request.limits.modes[rank - 1]
        sizes = []
        for axis, window in zip(self.problem.space, self.windows, strict=True):
            cells = axis.length / float((window.high - window.low).max())
            power = 2 ** max(0, round(cells).bit_length() - 1)
            sizes.append(max(4, min(max(_START[rank - 1], power // 2), cap // 8)))
        return tuple(sizes)

    def _run(self, samples: Tensor, sizes: tuple[int, ...]) -> _Run:
        problem, request = self.problem, self.request
        sources = self.sources.take(samples.to(request.device))
        lows = tuple(float(c.low) for c in problem.space)
        lengths = tuple(float(c.length) for c in problem.space)
        mesh = CellMesh(lows, lengths, sizes, request.device)
        scheme = Scheme(problem, self.law, sources, mesh)
        longest = torch.zeros(len(samples), dtype=torch.float64, device=request.device)
        marcher = FiniteVolumeStepper(scheme, samples.tolist(), request.limits.steps, longest)
        start = float(problem.time.low)
        values, slopes = [], []
        for t, u in zip(
            request.times,
            marcher.run(initial_means(problem, sources, mesh), start, request.times),
            strict=True,
        ):
            rate = scheme.rate_of_change(u, torch.full_like(longest, t))
            values.append(means(u, mesh, self.windows))
            slopes.append(means(rate, mesh, self.windows, linear=False))
        return _Run(torch.stack(values, 2), torch.stack(slopes, 2), marcher.longest)

    def _store(
        self, samples: Tensor, run: _Run, sizes: tuple[int, ...], error: Tensor, rows: Tensor
    ) -> None:
        kept, rows_there = samples[rows], rows.to(run.values.device)
        place = kept.to(run.values.device)
        self.values[place], self.slopes[place] = run.values[rows_there], run.slopes[rows_there]
        self.error[kept], self.modes[kept] = error[rows], torch.tensor(sizes)
        self.step[kept] = run.longest.cpu()[rows]
        self.notes += [
            f"sample {sample}: tolerance {self.request.tolerance:.1e} not met; the ladder ended at "
            f"{sizes} cells with an estimated error of {e:.1e}; shocks converge at first order"
            for sample, e in zip(kept.tolist(), error[rows].tolist(), strict=True)
            if not e <= self.request.tolerance
        ]

    def _solution(self) -> Solution:
        device, names = self.request.device, self.problem.unknowns
        return Solution(
            torch.tensor(self.request.times, dtype=torch.float64, device=device),
            tuple(w.points for w in self.windows),
            {name: self.values[:, i].contiguous() for i, name in enumerate(names)},
            {name: self.slopes[:, i].contiguous() for i, name in enumerate(names)},
            self.error.to(device),
            (self.error <= self.request.tolerance).to(device),
            self.modes.to(device),
            self.step.to(device),
            self.request.tolerance,
            tuple(self.notes),
        )


def initial_means(problem: Any, sources: Sources, mesh: CellMesh) -> Tensor:
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
    nodes, start = mesh.quadrature(offsets), float(problem.time.low)
    fields = [
        mesh.averages(sources.field(e, nodes, start), weights)  # type: ignore[arg-type]
        for e in expressions
    ]
    return torch.stack(fields, 1)


def _estimate(gap: Tensor, before: Tensor) -> Tensor:
    """Bound of the error of the finest of three meshes, from their two differences ``[B]``."""
    ratio = (before / gap.clamp_min(1e-300)).clamp(_SLOWEST, 2.0)
    return SAFETY * torch.maximum(gap / (ratio - 1), before / 3)


def _difference(fine: Tensor, coarse: Tensor) -> Tensor:
    """Largest over unknowns and times of ‖difference‖₂ over space, relative, ``[B]``."""
    gap = (fine - coarse).flatten(3).square().mean(-1).sqrt()  # [B, n, T]
    scale = fine.flatten(3).square().mean((-1, -2)).sqrt()  # [B, n]
    floor = _FLOOR * scale.amax(1, keepdim=True)
    scale = torch.maximum(scale, floor).clamp_min(1e-300)
    return (gap / scale[..., None]).flatten(1).amax(1).cpu()
