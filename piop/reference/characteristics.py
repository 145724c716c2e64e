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
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from piop.forms.differentiate import partial
from piop.forms.linear_forms import jumps, transport_form
from piop.reference.input_values import Sources
from piop.reference.levels import (
    SAFETY,
    Earlier,
    GridLevel,
    GridResult,
    SolvedSamples,
    require_inflow,
)
from piop.reference.refinement import LevelSolver
from piop.reference.solution import Request

_CREDIT = 4.0  # of the 16 that halving the steps of a fourth-order method gives; 1 across jumps
_ROUNDING = 1e-13
_LEVELS = 12


@final
class TransportSolver(LevelSolver[GridLevel, GridResult]):
    """Follows characteristics back to the data they carry, with finer and finer steps.

    A level has so many steps between save times.

    Raises:
        SolverError: If a condition is missing where characteristics run in, or there is one where
            they run out.
    """

    joint = True
    coarsest = GridLevel(1, (1,))

    def __init__(self, sources: Sources, request: Request) -> None:
        super().__init__(sources, request)
        self.form = form = transport_form(self.problem.pde)
        time, axis = (c.symbol for c in self.problem.coordinates)
        self.ends = float(self.problem.space[0].low), float(self.problem.space[0].high)
        coefficients = (form.speed, form.growth, form.source)
        self.speed, self.growth, self.source = (sources.along(e, [axis]) for e in coefficients)
        u0 = self.problem.initial[form.unknown][0]
        rate = -form.speed * partial(u0, axis) + form.growth * u0 + form.source
        self.credit = 1.0 if any(jumps(self.problem.pde, e) for e in coefficients) else _CREDIT
        self.longest_step = self.features.step_lengths(self.samples, self.problem.space[0])
        self.initial = [sources.along(e, [axis]) for e in (u0, rate)]
        self.walls = [
            None
            if g is None
            else [sources.along(e, [time], {axis: end}) for e in (g, partial(g, time))]
            for end, g in zip(self.ends, form.walls, strict=True)
        ]
        for end, (position, wall) in enumerate(zip(self.ends, self.walls, strict=True)):
            at_wall = torch.full((sources.batch, 1), position, dtype=torch.float64).to(self.axes[0])
            inward = (1 - 2 * end) * self.speed(at_wall)
            face = f"{axis}.{('min', 'max')[end]}"
            require_inflow(inward, wall is not None, face, self.samples)

    def solve(
        self, level: GridLevel, samples: Sequence[int], earlier: Earlier[GridResult]
    ) -> SolvedSamples[GridResult]:
        """See the base class; all samples of the batch are solved at once."""
        (steps,) = level.sizes
        values, rates = self._solve(steps)
        errors = [math.inf for _ in samples]
        if all(earlier):
            before = torch.stack([own[0].values for own in earlier])
            scale = values.square().mean((1, 2)).sqrt().clamp_min(1e-300)
            moved = 1 + self.longest * _norm(rates.nan_to_num(0.0, 0.0, 0.0)) / scale
            gap = _norm(values - before) / scale
            errors = (SAFETY / self.credit * gap + _ROUNDING * moved).tolist()
        finite = torch.isfinite(values).flatten(1).all(1).tolist()
        results = [
            GridResult(
                error,
                level.halved() if level.number < _LEVELS else None,
                self.request.shape,
                f"{steps} steps between save times",
                own,
                step=self.longest / steps,
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
        state = torch.stack([points + zero, zero, zero])
        left = torch.stack([zero, zero]) + math.inf
        values, rates, elapsed = [], [], 0.0
        for time in self.request.times:
            span = time - self.start - elapsed
            for i in range(steps if span > 0 else 0):
                moment = elapsed + span * i / steps
                state, left = self._follow(state, left, moment, span / steps, steps)
            elapsed = time - self.start
            value, rate = self._at_origin(state, left, time)
            values.append(value)
            rates.append(rate)
        return torch.stack(values, 1), torch.stack(rates, 1)

    def _follow(
        self, state: Tensor, left: Tensor, elapsed: float, h: float, steps: int
    ) -> tuple[Tensor, Tensor]:
        """Take one step, as :meth:`_advance`, or shorter ones where coefficients vary in it."""
        clock, rest = (torch.full_like(state[0], value) for value in (elapsed, h))
        while bool(rest.any()):
            step = rest
            if self.longest_step is not None:
                speed = self.speed(state[0]).abs().clamp_min(1e-300)
                step = torch.minimum(rest, self.longest_step(state[0]) / (steps * speed))
                step = step.where((left == math.inf).all(0), rest)  # paths end where they leave
            state, left = self._advance(state, left, clock, step)
            clock, rest = clock + step, rest - step
        return state, left

    def _advance(
        self, state: Tensor, left: Tensor, elapsed: Tensor, h: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Follow the path through each output point one step further backward.

        Args:
            state: X, E and I ``[3, B, N]``.
            left: Elapsed time at which each path left through either end, else inf ``[2, B, N]``.
            elapsed: Time from the output points to the step ``[B, N]``.
            h: Length of the step ``[B, N]``.

        Returns:
            The new ``state`` and ``left``.
        """
        position, inside, left = state[0], (left == math.inf).all(0), left.clone()
        following = _runge_kutta(self._slope, state, h, position)
        for side, wall in enumerate(self.ends):
            beyond = inside & ((following[0] < wall) if side == 0 else (following[0] > wall))
            if self.walls[side] is None or not bool(beyond.any()):
                continue
            # The same path with the position as the variable: time, E and I over X.
            clock = torch.stack([torch.zeros_like(position), state[1], state[2]])
            span = torch.where(beyond, wall - position, 0.0)
            exit_ = _runge_kutta(self._slope_by_position, clock, span, position)
            left[side] = torch.where(beyond, elapsed + exit_[0], left[side])
            at_wall = torch.stack([torch.full_like(position, wall), exit_[1], exit_[2]])
            following = torch.where(beyond, at_wall, following)
        return torch.where(inside, following, state), left

    def _slope(self, state: Tensor, _: Tensor) -> Tensor:
        x, gain = state[0], torch.exp(state[1])
        return torch.stack([-self.speed(x), self.growth(x), self.source(x) * gain])

    def _slope_by_position(self, state: Tensor, x: Tensor) -> Tensor:
        slow, gain = -1 / self.speed(x), torch.exp(state[1])
        return slow * torch.stack([torch.ones_like(x), self.growth(x), self.source(x) * gain])

    def _at_origin(self, state: Tensor, left: Tensor, time: float) -> tuple[Tensor, Tensor]:
        """Return u and u_t at the save time, from the data where paths begin."""
        position, factor, source = state[0], torch.exp(state[1]), state[2]
        value, rate = (data(position) for data in self.initial)
        for through, wall in zip(left, self.walls, strict=True):
            if wall is not None:
                here = through < math.inf
                entered = torch.where(here, time - through, self.start)
                value = torch.where(here, wall[0](entered), value)
                rate = torch.where(here, wall[1](entered), rate)
        return factor * value + source, factor * rate


def _norm(values: Tensor) -> Tensor:
    """Largest over times of the root mean square over space ``[B]`` of values ``[B, T, N]``."""
    return values.square().mean(2).sqrt().amax(1)


def _runge_kutta(
    slope: Callable[[Tensor, Tensor], Tensor], y: Tensor, h: Tensor, x: Tensor
) -> Tensor:
    """The classical step of fourth order, of each entry by its own length ``h [B, N]``."""
    k1 = slope(y, x)
    k2 = slope(y + h / 2 * k1, x + h / 2)
    k3 = slope(y + h / 2 * k2, x + h / 2)
    k4 = slope(y + h * k3, x + h)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
