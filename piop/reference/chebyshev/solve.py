"""Solve on boxes with walls by collocation, on finer and finer meshes until two of them agree.

The data of a sample may show that its problem has no solution, or not the one found: that is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from sympy import Integer
from torch import Tensor

from piop.errors import SolverError
from piop.reference.chebyshev.equations import Equations
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.chebyshev.radau import Radau
from piop.reference.chebyshev.steady import consistent_start, solve_steady
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.chebyshev.time_stepping import (
    SHORTEST,
    CollocationTrajectory,
    StepControl,
    TimeStepping,
)
from piop.reference.features.along_paths import between_nodes
from piop.reference.input_values import Sources
from piop.reference.levels import (
    SAFETY,
    Earlier,
    Fields,
    GridLevel,
    LevelResult,
    SolvedSamples,
    relative_scale,
    require_balance,
    require_finite_start,
    require_inflow,
    with_rounding,
)
from piop.reference.nodal import NodalSolver
from piop.reference.solution import Request, Solution

STAGES = 5
POINTS = (
    tuple(range(1, 10)),
    (17, 27, 39, 55, 83, 123, 179, 275, 399),
    (9, 15, 19, 27, 39, 47),
    (7, 9, 13),
)
"""Points per axis on each level, by the number of space axes: odd, for periodic ones.

Levels of one and two axes share the centre and the ends of an axis, and no other points: all levels
would see the same of what is beside a point that they share.

Without an axis there are no points, and levels differ in their steps alone.
"""
_REST = 1e-20  # of what the data at their largest add to a solution
_NEWTON = 1e-3  # of the tolerance, left by iterations in every estimate
_LOCAL = 0.1  # of the largest error of a step, in every estimate: levels may agree by chance
_FINER = 2
"""Halvings from level to level of steps over values between points: as steps end at even parts of
the time between save times, one might change none."""
_ROUNDING = 1e-11
_BYTES = 86  # per entry of a system's matrix
_VECTORS = 32  # of the length of a system that a sample takes beside its matrix
_WORTHWHILE = (179, 39, 9)
"""Points per axis, by dimension, beyond which only what can meet the tolerance is refined."""
_JUMP = 1e-6
_MEAN = 1e-5


@final
@dataclass(frozen=True, kw_only=True)
class CollocationResult(LevelResult[GridLevel]):
    """A sample solved on a mesh: values ``[T, C, *sizes]``."""

    mesh: CollocationMesh


@final
class CollocationSolver(NodalSolver[GridLevel, CollocationResult]):
    """Solves an evolution or a steady problem on a box with walls, until two meshes agree.

    Collocation in Chebyshev points along walled axes and even points along periodic ones; Radau IIA
    in time, Newton iterations where there is none.
    """

    def __init__(self, sources: Sources, request: Request) -> None:
        super().__init__(sources, request)
        problem, points = self.problem, POINTS[len(request.shape)]
        self.equations = Equations(problem)
        self.scheme = Radau(STAGES)
        channels = self.equations.channels
        means = problem.pde.means
        self.gauges = {i: means[c.name] for i, c in enumerate(channels) if c.name in means}
        self.measured = [i for i, c in enumerate(channels) if not c.time_order]
        self.levels = [n for n in points if n <= max(self.most, points[0])]
        self.coarsest = self._level(1)
        self.span = 0.0 if problem.time is None else float(problem.time.length)

    def run(self) -> Solution:
        """See the base class."""
        mesh = CollocationMesh(self.problem.space, self.coarsest.sizes, self.request.device)
        check_start_at_walls(self.equations, self.sources, mesh, self.samples)
        return super().run()

    def bytes_per_sample(self, level: GridLevel) -> float:
        """See the base class."""
        size = len(self.equations.channels) * math.prod(level.sizes)
        if self.problem.time is None and self.equations.shared:
            return 8 * _VECTORS * size
        return _BYTES * size**2

    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor]:
        """See the base class."""
        mesh = CollocationMesh(self.problem.space, sizes, self.request.device)
        space = zip(self.problem.space, mesh.parts, strict=True)
        return {c.name: part.nodes for c, part in space}

    def solve(
        self, level: GridLevel, samples: Sequence[int], earlier: Earlier[CollocationResult]
    ) -> SolvedSamples[CollocationResult]:
        """See the base class."""
        mesh = CollocationMesh(self.problem.space, level.sizes, self.request.device)
        sources = self.sources.take(samples)
        system = CollocationSystem(self.equations, sources, mesh, self.gauges)
        if self.problem.time is None:
            run = self._steady(system, samples, earlier)
        else:
            w = self.initial(system)
            require_finite_start(w, samples)
            w = consistent_start(system, w, self.start)
            check_flow(system, self.start, samples)
            control = self._step_control(level.number)
            longest = self.features.longest_step(samples, _FINER * (level.number - 1))
            smallest = self._smallest(system, samples)
            progress = self.request.progress.at_time
            stepping = TimeStepping(system, self.scheme, control, longest, smallest, progress)
            run = stepping.run(w, self.start, self.request.times)
        run.missed = run.missed + self._between_nodes(system, run)
        until = run.until.tolist()
        results = [
            self._result(level, run, row, own) if until[row] == math.inf else None
            for row, own in enumerate(earlier)
        ]
        return SolvedSamples(results, lambda rows: self._evaluate(run, rows), until)

    def _between_nodes(self, system: CollocationSystem, run: CollocationTrajectory) -> Tensor:
        """Relative error by what terms of the equations hide between nodes ``[B]``."""
        if not self.equations.narrow or not self.request.shape:
            return torch.zeros_like(run.missed)
        axes = list(zip(self.problem.space, system.mesh.axes(), strict=True))
        times, tolerance = self.request.times or (0.0,), self.request.tolerance

        def read(leaf: Any) -> Tensor:
            return system.read(leaf, run.values, times)

        return between_nodes(self.equations.narrow, read, axes, len(run.values), tolerance)

    def _level(self, number: int) -> GridLevel:
        return GridLevel(number, (self.levels[number - 1],) * len(self.request.shape))

    def after_failure(self, level: GridLevel) -> GridLevel | None:
        """See the base class."""
        last = min(len(self.levels), self.request.limits.levels)
        return self._level(level.number + 1) if level.number < last else None

    def failure_message(self, level: GridLevel, time: float) -> str:
        """See the base class."""
        if self.problem.time is None and self.equations.linear:
            return "its system is singular or not finite on every mesh; are its data finite?"
        if self.problem.time is None:
            return "Newton's iteration found no solution on any mesh"
        return (
            f"no step from t = {time:.6g} on succeeds on any mesh: the solution is not finite, "
            f"blows up there, or changes within {SHORTEST:.0e} of the time between save times "
            "(add some)"
        )

    def _step_control(self, number: int) -> StepControl:
        """Return the step control: of order s + 2, so that steps are halved on three levels.

        By then they err far less than the tolerance, and are shortened by a third. On every second
        level steps are parts of thirds: none is one of the level before, with the same error. What
        iterations leave adds up over steps, a thousand of them counted, alike on all levels if they
        end alike: it is kept below what every estimate has for it.
        """
        first = 2.0 ** ((self.scheme.stages + 2) * (min(number, 3) - 1))
        tolerance = 30 * self.request.tolerance / first / 8.0 ** max(number - 3, 0)
        newton = 1e-3 * max(_NEWTON * self.request.tolerance / 8.0 ** (number - 1), _ROUNDING)
        parts = 1 if number % 2 else 3
        return StepControl(max(tolerance, 1e-13), parts, self.request.limits.steps, newton)

    def _smallest(self, system: CollocationSystem, samples: Sequence[int]) -> Tensor:
        """Sizes of channels ``[B, C]`` below which a solution that starts from rest counts as zero.

        Far below what the data, at their largest, would make of it: the tails of a pulse are not
        followed from 1e-300 upwards, and ``t**4`` not from where a step is as long as t. What data
        do not move themselves, other channels of these sizes do.
        """
        count, times = len(system.equations.channels), self.features.peak_times(samples)
        found = torch.zeros(system.sources.batch, count).to(system.mesh.weights)
        for _ in range(count):
            before = found
            state = before.reshape(*before.shape, *(1,) * len(system.mesh.sizes))
            state = state.expand(-1, *system.shape).unsqueeze(1)
            for t in times:
                rates = system.mesh.norm(system.value(state, (t,))[:, 0]).nan_to_num(0.0, 0.0)
                moved = torch.where(before == 0, self.span * rates, before)
                found = torch.maximum(found, moved)
            if torch.equal(found, before):
                break
        return _REST * found

    def initial(self, system: CollocationSystem) -> Tensor:
        """The state at the start ``[B, C, *sizes]``; zero for channels without initial data."""
        fields = []
        for channel in self.equations.channels:
            given = dict(enumerate(self.problem.initial.get(channel.name, ())))
            expression = given.get(channel.time_order, Integer(0))
            fields.append(system.sources.field(expression, system.mesh.axes()))
        return torch.stack(fields, 1)

    def _steady(
        self, system: CollocationSystem, samples: Sequence[int], earlier: Earlier[CollocationResult]
    ) -> CollocationTrajectory:
        guess = torch.zeros((len(samples), *system.shape)).to(system.mesh.weights)
        for b, own in enumerate(earlier):
            if own:
                guess[b] = own[0].mesh.evaluate(own[0].values[0], system.mesh.axes())
        w, good = solve_steady(system, guess)
        check_balance(system, w, samples, earlier)
        values = w.unsqueeze(1)
        until = torch.where(good, math.inf, 0.0)
        rest = torch.zeros_like(values)
        none = torch.zeros_like(until)
        return CollocationTrajectory(system.mesh, values, rest, until, none, none)

    def _result(
        self,
        level: GridLevel,
        run: CollocationTrajectory,
        row: int,
        earlier: Sequence[CollocationResult],
    ) -> CollocationResult:
        mesh, values = run.mesh, run.values[row]
        sizes = self._sizes(values, mesh)
        error = self._difference(earlier[0], mesh, values, sizes) if earlier else math.inf
        error += _LOCAL * float(run.local[row])
        grid = " × ".join(map(str, mesh.sizes))
        result = CollocationResult(
            error,
            self._level(level.number + 1) if level.number < len(self.levels) else None,
            mesh.sizes,
            f"{grid} points" if grid else f"steps of {run.longest:.1g} at most",
            values,
            expected=self._expected(level, error, earlier),
            step=run.longest,
            missed=float(run.missed[row]),
            mesh=mesh,
        )
        return with_rounding(result, sizes)

    def _expected(
        self, level: GridLevel, error: float, earlier: Sequence[CollocationResult]
    ) -> float:
        """Error to expect on the finest mesh: it falls twice as fast as it did, in digits a point.

        At singular corners it falls ever more slowly; where the last mesh began to resolve the
        solution, faster from now on.
        """
        if not level.sizes:
            return 0.0
        n, last = level.sizes[0], self.levels[-1]
        following = self.levels[min(level.number, len(self.levels) - 1)]
        if following <= _WORTHWHILE[len(level.sizes) - 1] or not earlier:
            return 0.0
        if earlier[0].resolution == level.sizes:  # the same mesh, for another problem
            return 0.0
        ratio = min(error / earlier[0].error, 1.0)
        return error * ratio ** (2 * (last - n) / (n - earlier[0].resolution[0]))

    def _difference(
        self, coarse: CollocationResult, mesh: CollocationMesh, values: Tensor, sizes: Tensor
    ) -> float:
        """Bound of the error by the difference of two levels.

        The largest over unknowns and times, relative to the root mean square over time. The safety
        factor is there because the finer mesh may have the longer steps.
        """
        before = coarse.mesh.evaluate(coarse.values, mesh.axes())
        floor = max(_NEWTON * self.request.tolerance, _ROUNDING)
        return SAFETY * self._gap(before, values, mesh, sizes) + floor

    def effect(self, before: CollocationResult, after: CollocationResult) -> float:
        """See the base class."""
        values, mesh = (before.values, after.values), after.mesh
        taken_away = 2 * values[0] - values[1]
        sizes = torch.minimum(self._sizes(values[1], mesh), self._sizes(taken_away, mesh))
        return self._gap(*values, mesh, sizes)

    def _sizes(self, values: Tensor, mesh: CollocationMesh) -> Tensor:
        """Root mean square over time of the norm of each measured channel."""
        return mesh.norm(values[:, self.measured]).square().mean(0).sqrt()

    def _gap(self, before: Tensor, after: Tensor, mesh: CollocationMesh, sizes: Tensor) -> float:
        gap = mesh.norm((after - before)[:, self.measured])
        return float((gap / relative_scale(sizes)).amax())

    def _evaluate(self, run: CollocationTrajectory, rows: Sequence[int]) -> Fields:
        values, slopes = (
            torch.stack([run.mesh.evaluate(whole[row], self.axes) for row in rows])
            for whole in (run.values, run.slopes)
        )
        time, channels = self.problem.time, list(enumerate(self.equations.channels))
        if time is None:
            return {c.name: values[:, 0, i] for i, c in channels}, {}
        found = {c.name: values[:, :, i] for i, c in channels if not c.time_order}
        stepped = [(i, c) for i, c in channels if self.problem.pde.time_order.get(c.name, 0)]
        return found, {c.label(time.name): slopes[:, :, i] for i, c in stepped}


def check_start_at_walls(
    equations: Equations, sources: Sources, mesh: CollocationMesh, samples: Sequence[int]
) -> None:
    """Refuse initial data of a wave that jump at a wall: they miss its condition.

    Diffusion forgets a jump at once; a wave carries it for ever, which no polynomial resolves. The
    data themselves are judged, not the polynomials through their values at nodes.

    Args:
        equations: With their conditions at the start.
        sources: The inputs.
        mesh: Nodes that give the size of the data.
        samples: Number of each sample.

    Raises:
        SolverError: Naming the first sample.
    """
    space = equations.problem.space
    for (axis, end), channel, condition in equations.initial_conditions:
        data = equations.problem.initial[equations.channels[channel].name][0]
        size = mesh.norm(sources.field(data, mesh.axes())).clamp_min(1.0)
        wall = [x[end:][:1] if i == axis else x for i, x in enumerate(mesh.axes())]
        gap = sources.field(condition, wall).flatten(1).abs().amax(1)
        bad = (gap > _JUMP * size).nonzero().flatten().tolist()
        if bad:
            face = f"{space[axis].name}.{'max' if end else 'min'}"
            raise SolverError(
                f"sample {samples[bad[0]]}: the initial data miss the condition at {face} by "
                f"{float(gap[bad[0]]):.2e}; a wave carries that jump into the domain, where its "
                "slopes do not exist. Let the data fit the condition"
            )


def check_flow(system: CollocationSystem, t: float, samples: Sequence[int]) -> None:
    """Require inflow at walls with a condition, outflow at others, along axes of first order."""
    space = system.equations.problem.space
    conditions = {(c.channel, face) for face, c in system.equations.conditions}
    for row in system.equations.rows:
        if len(row.mass.derivatives) != 1:
            continue
        for axis, coordinate in enumerate(space):
            own = [p for p in row.slopes.derivatives if p[0] == row.channel]
            if coordinate.periodic or max((p[1][axis] for p in own), default=0) != 1:
                continue
            derivative = next(p for p in own if p[1][axis] == 1)
            speed = system.coefficient(row, derivative, t)
            for end, sign in ((0, 1), (-1, -1)):
                given, face = (row.channel, (axis, end)) in conditions, "max" if end else "min"
                inward = sign * speed.select(axis + 1, end)
                require_inflow(inward, given, f"{coordinate.name}.{face}", samples)


def check_balance(
    system: CollocationSystem,
    w: Tensor,
    samples: Sequence[int],
    earlier: Earlier[CollocationResult],
) -> None:
    """Refuse data whose mean the conditions cannot balance, where a gauge fixes a constant.

    The gauge stands in its row as mean(u) − m; what is left of it is what has no balance.

    Raises:
        SolverError: See :func:`require_balance`.
    """
    at_zero = system.value(torch.zeros_like(w).unsqueeze(1), (0.0,))[:, 0]
    sizes = system.mesh.norm(at_zero).amax(1).clamp_min(1e-300).tolist()
    for row, own in enumerate(earlier):
        for channel, mean in system.gauges.items() if own else ():
            left, before = (
                (float((values[channel] * mesh.weights).sum()) - mean) / sizes[row]
                for mesh, values in ((system.mesh, w[row]), (own[0].mesh, own[0].values[0]))
            )
            name = system.equations.channels[channel].name
            require_balance(left, before, _MEAN, name, samples[row])
