"""Solve on finer and finer meshes until two of them agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.reference.chebyshev.checks import check_start, check_steady
from piop.reference.chebyshev.equations import build_equations
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.chebyshev.newton import radau, solve_steady
from piop.reference.chebyshev.system import CollocationSystem, CompiledEquations
from piop.reference.chebyshev.time_stepping import Pace, TimeStepping
from piop.reference.solution import Request, Solution
from piop.reference.sources import Sources

STAGES = 5
POINTS = (
    (17, 25, 37, 55, 81, 121, 181, 271, 401),
    (9, 13, 19, 27, 37, 49),
    (7, 9, 13),
)
"""Points per axis on each rung, by the number of space axes: odd, for periodic ones."""
_SAFETY = 2.0  # of two rungs that agree, the finer mesh may have the longer steps
_NEWTON = 1e-3  # of the tolerance, left by iterations in every estimate
_ROUNDING = 1e-11
_MEMORY = 4e8  # bytes of matrices at a time
_FLOOR = 1e-9  # an unknown smaller than this times the largest one is measured against that


def solve_with_walls(
    problem: Any, functions: Mapping[str, InputFunction], request: Request
) -> Solution:
    """Solve an evolution or a steady problem on a box with walls.

    Collocation in Chebyshev points along walled axes and even points along periodic ones; Radau IIA
    in time, Newton iterations where there is none.
    """
    return Ladder(problem, functions, request).run()


@dataclass
class _Rung:
    """A run of one instance: values ``[T, C, *sizes]`` and time derivatives on its mesh."""

    mesh: CollocationMesh
    values: Tensor
    slopes: Tensor
    longest: float


@final
class Ladder:
    """Solve a batch, dropping each instance as soon as two rungs agree.

    Args:
        problem: The problem.
        functions: Its inputs.
        request: What is asked.
    """

    def __init__(
        self, problem: Any, functions: Mapping[str, InputFunction], request: Request
    ) -> None:
        self.problem, self.request = problem, request
        self.sources = Sources(problem, functions, request.device)
        self.equations = build_equations(problem)
        self.program = CompiledEquations(problem, self.equations)
        self.scheme = radau(STAGES)
        self.start = 0.0 if problem.time is None else float(problem.time.low)
        self.axes = request.axes(problem.space)
        self.gauges = {
            i: problem.gauge.get(c.name, means.get(c.name, 0.0))
            for means in [{a.name: a.mean for a in problem.auxiliaries if a.gauged}]
            for i, c in enumerate(self.equations.channels)
            if c.name in problem.gauge or c.name in means
        }
        channels = self.equations.channels
        self.measured = [i for i, c in enumerate(channels) if not c.time_order]

    def run(self) -> Solution:
        """Climb the ladder with all instances."""
        batch, request = self.sources.batch, self.request
        rank, saves = len(request.shape), max(1, len(request.times))
        size = (batch, saves, len(self.equations.channels), *request.shape)
        f64 = {"dtype": torch.float64, "device": request.device}
        values, slopes = torch.zeros(size, **f64), torch.zeros(size, **f64)
        error = torch.full((batch,), math.inf, **f64)
        points = torch.zeros((batch, rank), dtype=torch.int64)
        longest = torch.zeros(batch, **f64)
        waiting, before, failed = list(range(batch)), dict[int, _Rung](), dict[int, list[float]]()
        for rung, n in enumerate(self._rungs()):
            for group in self._chunks(waiting, n):
                self._solve(group, n, rung, before, failed, error)
            for sample in list(waiting):
                if error[sample] <= request.tolerance:
                    self._store(sample, before.pop(sample), values, slopes, points, longest)
                    waiting.remove(sample)
            if not waiting:
                break
        for sample in waiting:
            if sample not in before:
                raise SolverError(self._why(sample, failed[sample][-1]))
            self._store(sample, before.pop(sample), values, slopes, points, longest)
        notes = [
            f"sample {s}: tolerance {request.tolerance:.1e} not met; the ladder ended at "
            f"{tuple(points[s].tolist())} points with an estimated error of {float(error[s]):.1e}"
            for s in waiting
        ]
        return self._solution(values, slopes, error, points, longest, tuple(notes))

    def _rungs(self) -> tuple[int, ...]:
        rank = len(self.request.shape)
        cap = self.request.limits.modes[rank - 1]
        rungs = [n for n in POINTS[rank - 1] if n <= cap]
        return tuple(rungs[: self.request.limits.levels])

    def _chunks(self, samples: list[int], n: int) -> list[list[int]]:
        size = len(self.equations.channels) * n ** len(self.request.shape)
        count = max(1, int(_MEMORY / (64 * size**2)))
        return [samples[i : i + count] for i in range(0, len(samples), count)]

    def _solve(
        self,
        group: list[int],
        n: int,
        rung: int,
        before: dict[int, _Rung],
        failed: dict[int, list[float]],
        error: Tensor,
    ) -> None:
        mesh = CollocationMesh(
            self.problem.space, (n,) * len(self.request.shape), self.request.device
        )
        sources = self.sources.take(torch.tensor(group))
        system = CollocationSystem(self.program, sources, mesh, self.gauges)
        if self.problem.time is None:
            values, until = self._steady(system, group, before)
            slopes, longest = torch.zeros_like(values), 0.0
        else:
            pace = self._pace(rung)
            w = self.initial(system)
            check_start(system, w, self.start, group)
            run = TimeStepping(system, self.scheme, pace).run(w, self.start, self.request.times)
            values, slopes, until, longest = run.values, run.slopes, run.until, run.longest
        for b, sample in enumerate(group):
            last = before.pop(sample, None)
            if until[b] < math.inf:
                failed.setdefault(sample, []).append(float(until[b]))
                self._check_failures(sample, failed[sample])
                continue
            found = _Rung(mesh, values[b], slopes[b], longest)
            before[sample] = found
            if last is not None:
                error[sample] = self._difference(last, found)

    def _pace(self, rung: int) -> Pace:
        """Steps of a rung: every second rung has them halved, so that two rungs always differ.

        The leading coefficient is of order s where steps err by s + 2 or more.
        """
        stages, halved = self.scheme.stages, rung % 2
        wanted = (30 * self.request.tolerance / 8**rung) ** (stages / (stages + 2))
        tolerance = max(wanted / 2 ** (halved * (stages + 1)), 1e-13)
        newton = 0.1 * max(_NEWTON * self.request.tolerance, _ROUNDING)
        return Pace(tolerance, halved, self.request.limits.steps, newton)

    def initial(self, system: CollocationSystem) -> Tensor:
        """The state at the start ``[B, C, *sizes]``; nothing for what has no initial data."""
        fields = []
        for channel in self.equations.channels:
            given = self.problem.initial.get(channel.name, ())
            if len(given) > channel.time_order:
                expression = given[channel.time_order]
                fields.append(system.sources.field(expression, system.mesh, self.start))
            else:
                fields.append(
                    torch.zeros((system.batch, *system.mesh.sizes)).to(system.mesh.weights)
                )
        return torch.stack(fields, 1)

    def _steady(
        self, system: CollocationSystem, group: list[int], before: dict[int, _Rung]
    ) -> tuple[Tensor, Tensor]:
        guess = torch.zeros((len(group), *system.shape)).to(system.mesh.weights)
        for b, sample in enumerate(group):
            if sample in before:
                last = before[sample]
                guess[b] = last.mesh.evaluate(last.values[0], system.mesh.axes())
        w, good = solve_steady(system, guess)
        check_steady(system, w, group)
        until = torch.where(good, math.inf, 0.0)
        return w.unsqueeze(1), until

    def _difference(self, coarse: _Rung, fine: _Rung) -> float:
        """Bound of the error by the difference of two rungs.

        The largest over unknowns and times, relative to the root mean square over time.
        """
        values = fine.values[:, self.measured]
        gap = values - coarse.mesh.evaluate(coarse.values[:, self.measured], fine.mesh.axes())
        scale = fine.mesh.norm(values).square().mean(0).sqrt()
        scale = torch.maximum(scale, _FLOOR * scale.amax()).clamp_min(1e-300)
        floor = max(_NEWTON * self.request.tolerance, _ROUNDING)
        return _SAFETY * float((fine.mesh.norm(gap) / scale).amax()) + floor

    def _store(
        self,
        sample: int,
        rung: _Rung,
        values: Tensor,
        slopes: Tensor,
        points: Tensor,
        longest: Tensor,
    ) -> None:
        values[sample] = rung.mesh.evaluate(rung.values, self.axes)
        slopes[sample] = rung.mesh.evaluate(rung.slopes, self.axes)
        points[sample] = torch.tensor(rung.mesh.sizes)
        longest[sample] = rung.longest

    def _check_failures(self, sample: int, moments: list[float]) -> None:
        """Stop where every finer run ends at the same time."""
        if self.problem.time is None or len(moments) < 3:
            return
        if max(moments[-3:]) - min(moments[-3:]) <= 0.01 * self.problem.time.length:
            raise SolverError(self._why(sample, moments[-1]))

    def _why(self, sample: int, moment: float) -> str:
        if self.problem.time is None:
            return f"sample {sample}: Newton's iteration found no solution on any mesh"
        return (
            f"sample {sample}: not finite from t = {moment:.6g} on, on any mesh; does the "
            "solution blow up there?"
        )

    def _solution(
        self,
        values: Tensor,
        slopes: Tensor,
        error: Tensor,
        points: Tensor,
        longest: Tensor,
        notes: tuple[str, ...],
    ) -> Solution:
        problem, request = self.problem, self.request
        pick = (lambda v: v[:, 0]) if problem.time is None else (lambda v: v)
        named = {
            c.name: pick(values[:, :, i]).contiguous()
            for i, c in enumerate(self.equations.channels)
            if not c.time_order
        }
        rates = {
            c.label(problem.time.name): slopes[:, :, i].contiguous()
            for i, c in enumerate(self.equations.channels)
            if problem.time is not None and problem.time_order.get(c.name, 0)
        }
        return Solution(
            torch.tensor(request.times, dtype=torch.float64, device=request.device),
            self.axes,
            named,
            rates,
            error,
            error <= request.tolerance,
            points,
            longest,
            request.tolerance,
            notes,
        )
