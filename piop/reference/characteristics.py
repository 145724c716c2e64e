"""Linear transport on an interval by characteristics, which keep kinks from the corners sharp.

Along X' = −a(X), backward from (t, x), the solution changes by known factors only:
u(t, x) = e^E u* + I with E' = b(X), I' = f(X) e^E, and u* the value where the path begins: initial
data after the time t − t0, or the inflow data g where X leaves the interval first. Coefficients do
not depend on time, so one path backward from every output point serves all times, and u_t is
carried like u, from −a u0' + b u0 + f and g'. A step that would leave is taken in x instead of
time, up to the wall
(Hénon 1982, doi:10.1016/0167-2789(82)90034-3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.forms.differentiate import partial
from piop.forms.linear_forms import transport_form
from piop.problem import Problem
from piop.reference.input_values import Sources
from piop.reference.refinement import (
    SAFETY,
    GridLevel,
    LevelResult,
    LevelSolver,
    Refinement,
    SolvedSamples,
)
from piop.reference.solution import Request, Solution

_CREDIT = 4.0  # of the 16 that halving the steps of a fourth-order method gives
_ROUNDING = 1e-13
_LEVELS = 12


def solve_transport(
    problem: Problem, functions: Mapping[str, InputFunction], request: Request
) -> Solution:
    """Follow characteristics back to the data they carry, with finer and finer steps.

    Raises:
        SolverError: If a condition is missing where characteristics run in, or there is one where
            they run out.
    """
    solver = TransportSolver(problem, functions, request)
    solver.check_ends()
    return Refinement(solver, request, range(solver.sources.batch)).run(solver.axes)


@dataclass
class _Paths:
    """The characteristic through each output point, followed backward so far, ``[B, N]`` each.

    Attributes:
        position: X.
        growth: E.
        source: I.
        left: Elapsed time at which it left, else inf.
        end: 0 or 1: through which end.
    """

    position: Tensor
    growth: Tensor
    source: Tensor
    left: Tensor
    end: Tensor


@final
@dataclass(frozen=True, kw_only=True)
class TransportResult(LevelResult[GridLevel]):
    """A sample solved with some number of steps between save times.

    Attributes:
        values: On the output ``[T, N]``.
    """

    values: Tensor


@final
class TransportSolver(LevelSolver[GridLevel, TransportResult]):
    """Follows characteristics backward, with so many steps between save times as a level has.

    Args:
        problem: The ``Problem``.
        functions: Its inputs.
        request: What is requested.
    """

    joint = True

    def __init__(
        self, problem: Problem, functions: Mapping[str, InputFunction], request: Request
    ) -> None:
        self.problem, self.request = problem, request
        self.form = transport_form(problem.pde)
        self.sources = Sources(problem, functions, request.device)
        self.axes = request.axes(problem.space)
        self.start = self.sources.start
        self.time, self.axis = problem.coordinates
        axis = self.axis
        self.ends = (float(axis.low), float(axis.high))
        form, time = self.form, self.time.symbol
        self.speed, self.growth, self.source = (
            self.sources.along(e, [axis.symbol]) for e in (form.speed, form.growth, form.source)
        )
        u0 = problem.initial[form.unknown][0]
        rate = -form.speed * partial(u0, axis.symbol) + form.growth * u0 + form.source
        self.initial = [self.sources.along(e, [axis.symbol]) for e in (u0, rate)]
        self.walls = [
            None if g is None else [self.sources.along(e, [time]) for e in (g, partial(g, time))]
            for g in form.walls
        ]

    def check_ends(self) -> None:
        """Require a condition exactly where characteristics run in."""
        for end, (position, wall) in enumerate(zip(self.ends, self.walls, strict=True)):
            at_wall = torch.full((self.sources.batch, 1), position, dtype=torch.float64)
            inward = (1 - 2 * end) * self.speed(at_wall.to(self.axes[0])).squeeze(1)
            wrong = inward > 0 if wall is None else inward <= 0
            if bool(wrong.any()):
                face = f"{self.axis.name}.{('min', 'max')[end]}"
                does, has = ("in", "no condition") if wall is None else ("out", "a condition")
                raise SolverError(
                    f"sample {int(wrong.nonzero()[0])}: at {face} characteristics run {does}, and "
                    f"there is {has}; an equation of first order needs one where they run in"
                )

    def first(self, samples: Sequence[int]) -> dict[int, GridLevel]:
        """See the base class."""
        return dict.fromkeys(samples, GridLevel(1, (1,)))

    def solve(
        self,
        level: GridLevel,
        samples: Sequence[int],
        earlier: Sequence[Sequence[TransportResult]],
    ) -> SolvedSamples[TransportResult]:
        """See the base class; all samples of the batch are solved at once."""
        (steps,) = level.sizes
        values, rates = self._solve(steps)
        errors = [math.inf for _ in samples]
        if all(earlier):
            before = torch.stack([own[0].values for own in earlier])
            scale = values.square().mean((1, 2)).sqrt().clamp_min(1e-300)
            gap = (values - before).square().mean(2).sqrt().amax(1)
            errors = (SAFETY / _CREDIT * gap / scale + _ROUNDING).tolist()
        finite = torch.isfinite(values).flatten(1).all(1).tolist()
        intervals = torch.tensor([self.start, *self.request.times]).diff()
        results = [
            TransportResult(
                error,
                level.halved() if level.number < _LEVELS else None,
                self.request.shape,
                f"{steps} steps between save times",
                step=float(intervals.amax()) / steps,
                values=own,
            )
            if fine
            else None
            for error, own, fine in zip(errors, values, finite, strict=True)
        ]
        name = self.form.unknown
        return SolvedSamples(
            results, lambda rows: ({name: values[rows]}, {name: rates[rows]}), [0.0] * len(samples)
        )

    def _solve(self, steps: int) -> tuple[Tensor, Tensor]:
        """Values and time derivatives ``[B, T, N]`` with so many steps between save times."""
        batch, points = self.sources.batch, self.axes[0]
        zero = torch.zeros((batch, len(points)), dtype=torch.float64, device=points.device)
        paths = _Paths(points + zero, zero, zero, zero + math.inf, zero.long())
        values, rates, elapsed = [], [], 0.0
        for time in self.request.times:
            span = time - self.start - elapsed
            for i in range(steps if span > 0 else 0):
                self._advance(paths, elapsed + span * i / steps, span / steps)
            elapsed = time - self.start
            value, rate = self._at_origin(paths, time)
            values.append(value)
            rates.append(rate)
        return torch.stack(values, 1), torch.stack(rates, 1)

    def _advance(self, paths: _Paths, elapsed: float, h: float) -> None:
        inside = paths.left == math.inf
        state = torch.stack([paths.position, paths.growth, paths.source])
        following = _runge_kutta(self._slope, state, torch.full_like(paths.position, h))
        for end, wall in enumerate(self.ends):
            beyond = inside & ((following[0] < wall) if end == 0 else (following[0] > wall))
            if self.walls[end] is None or not bool(beyond.any()):
                continue
            # The same path with the position as the variable: time, E and I over X.
            clock = torch.stack([torch.zeros_like(paths.position), state[1], state[2]])
            span = torch.where(beyond, wall - paths.position, 0.0)
            exit_ = _runge_kutta(self._slope_by_position, clock, span, paths.position)
            paths.left = torch.where(beyond, elapsed + exit_[0], paths.left)
            paths.end = torch.where(beyond, end, paths.end)
            following = torch.where(
                beyond,
                torch.stack([torch.full_like(exit_[0], wall), exit_[1], exit_[2]]),
                following,
            )
        state = torch.where(inside, following, state)
        paths.position, paths.growth, paths.source = state.unbind(0)

    def _slope(self, state: Tensor, _: Tensor) -> Tensor:
        x, growth = state[0], state[1]
        return torch.stack([-self.speed(x), self.growth(x), self.source(x) * torch.exp(growth)])

    def _slope_by_position(self, state: Tensor, x: Tensor) -> Tensor:
        slow = -1 / self.speed(x)
        return slow * torch.stack(
            [torch.ones_like(x), self.growth(x), self.source(x) * torch.exp(state[1])]
        )

    def _at_origin(self, paths: _Paths, time: float) -> tuple[Tensor, Tensor]:
        """Return u and u_t at the save time, from the data where paths begin."""
        factor = torch.exp(paths.growth)
        value, rate = (data(paths.position) for data in self.initial)
        entered = torch.where(paths.left < math.inf, time - paths.left, self.start)
        for end, wall in enumerate(self.walls):
            if wall is not None:
                here = (paths.left < math.inf) & (paths.end == end)
                value = torch.where(here, wall[0](entered), value)
                rate = torch.where(here, wall[1](entered), rate)
        return factor * value + paths.source, factor * rate


def _runge_kutta(
    slope: Callable[[Tensor, Tensor], Tensor], y: Tensor, h: Tensor, x: Tensor | None = None
) -> Tensor:
    """The classical step of fourth order, of each entry by its own length ``h [B, N]``."""
    x = torch.zeros_like(h) if x is None else x
    k1 = slope(y, x)
    k2 = slope(y + h / 2 * k1, x + h / 2)
    k3 = slope(y + h / 2 * k2, x + h / 2)
    k4 = slope(y + h * k3, x + h)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
