"""Linear transport on an interval by characteristics: kinks that enter at corners stay sharp.

Along X' = −a(X), backward from (t, x), the solution changes by known factors only:
u(t, x) = e^E u* + I with E' = b(X), I' = f(X) e^E, and u* what is met: the initial data after the
time t − t0, or what the wall lets in where X leaves the interval first. Coefficients do not move in
time, so one march backward from every output point serves all times, and u_t is carried like u,
from −a u0' + b u0 + f and g'. A step that would leave is taken in x instead of time, up to the wall
(Hénon 1982, doi:10.1016/0167-2789(82)90034-3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.forms.atoms import argument_order, name_of, outermost_atoms
from piop.forms.differentiate import partial
from piop.forms.transport import transport_form
from piop.lowering import compile_expression
from piop.reference.solution import Request, Solution
from piop.reference.sources import Sources

_SAFETY = 2.0
_CREDIT = 4.0  # of the 16 that halving the steps of a fourth-order method gives
_ROUNDING = 1e-13
_DOUBLINGS = 12


def solve_transport(
    problem: Any, functions: Mapping[str, InputFunction], request: Request
) -> Solution:
    """Follow characteristics back to what they carry, with finer and finer steps."""
    return _Transport(problem, functions, request).run()


@dataclass
class _Paths:
    """Where each output point's path has got to, ``[B, N]`` each.

    Attributes:
        place: X.
        grown: E.
        added: I.
        left: Elapsed time at which it left, else inf.
        end: 0 or 1: through which end.
    """

    place: Tensor
    grown: Tensor
    added: Tensor
    left: Tensor
    end: Tensor


@final
class _Transport:
    def __init__(
        self, problem: Any, functions: Mapping[str, InputFunction], request: Request
    ) -> None:
        self.problem, self.request = problem, request
        self.form = transport_form(problem.pde)
        self.sources = Sources(problem, functions, request.device)
        self.axes = request.axes(problem.space)
        self.start = float(problem.time.low)
        (axis,) = problem.space
        self.ends = (float(axis.low), float(axis.high))
        form, time = self.form, problem.time.symbol
        self.speed, self.growth, self.source = (
            self._along_path(e) for e in (form.speed, form.growth, form.source)
        )
        u0 = problem.initial[form.unknown][0]
        rate = -form.speed * partial(u0, axis.symbol) + form.growth * u0 + form.source
        self.initial = self._along_path(u0), self._along_path(rate)
        self.walls = [
            None if g is None else (self._in_time(g), self._in_time(partial(g, time)))
            for g in form.walls
        ]

    def _check_ends(self) -> None:
        """Ask for a condition exactly where characteristics run in."""
        for end, (place, wall) in enumerate(zip(self.ends, self.walls, strict=True)):
            at_wall = torch.full((self.sources.batch, 1), place, dtype=torch.float64)
            inward = (1 - 2 * end) * self.speed(at_wall.to(self.axes[0])).squeeze(1)
            wrong = inward > 0 if wall is None else inward <= 0
            if bool(wrong.any()):
                face = f"{self.problem.space[0].name}.{('min', 'max')[end]}"
                does, has = ("in", "no condition") if wall is None else ("out", "a condition")
                raise SolverError(
                    f"sample {int(wrong.nonzero()[0])}: at {face} characteristics run {does}, and "
                    f"there is {has}; an equation of first order needs one where they run in"
                )

    def run(self) -> Solution:
        """Double the steps until the values of all instances stand still."""
        self._check_ends()
        request, batch = self.request, self.sources.batch
        steps, before = 1, None
        error = torch.full((batch,), math.inf, dtype=torch.float64, device=request.device)
        values = rates = torch.zeros(0)
        for _ in range(_DOUBLINGS):
            values, rates = self._solve(steps)
            if not bool(torch.isfinite(values).all()):
                bad = (~torch.isfinite(values)).flatten(1).any(1).nonzero().flatten().tolist()
                raise SolverError(f"sample {bad[0]}: the solution is not finite")
            if before is not None:
                scale = values.square().mean((1, 2)).sqrt().clamp_min(1e-300)
                gap = (values - before).square().mean(2).sqrt().amax(1)
                error = _SAFETY / _CREDIT * gap / scale + _ROUNDING
                if bool((error <= request.tolerance).all()):
                    break
            before, steps = values, 2 * steps
        intervals = torch.tensor([self.start, *request.times]).diff()
        name = self.form.unknown
        accepted = error <= request.tolerance
        return Solution(
            torch.tensor(request.times, dtype=torch.float64, device=request.device),
            self.axes,
            {name: values},
            {name: rates},
            error,
            accepted,
            torch.full((batch, 1), request.shape[0]),
            torch.full((batch,), float(intervals.amax()) / steps, dtype=torch.float64),
            request.tolerance,
            tuple(
                f"sample {b}: tolerance {request.tolerance:.1e} not met with {steps} steps between "
                f"save times; the estimated error is {float(error[b]):.1e}"
                for b in (~accepted).nonzero().flatten().tolist()
            ),
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
            value, rate = self._met(paths, time)
            values.append(value)
            rates.append(rate)
        return torch.stack(values, 1), torch.stack(rates, 1)

    def _advance(self, paths: _Paths, elapsed: float, h: float) -> None:
        inside = paths.left == math.inf
        state = torch.stack([paths.place, paths.grown, paths.added])
        following = _runge_kutta(self._slope, state, torch.full_like(paths.place, h))
        for end, wall in enumerate(self.ends):
            beyond = inside & ((following[0] < wall) if end == 0 else (following[0] > wall))
            if self.walls[end] is None or not bool(beyond.any()):
                continue
            # The same path with the place as the variable: time, E and I over X.
            clock = torch.stack([torch.zeros_like(paths.place), state[1], state[2]])
            span = torch.where(beyond, wall - paths.place, 0.0)
            met = _runge_kutta(self._slope_by_place, clock, span, paths.place)
            paths.left = torch.where(beyond, elapsed + met[0], paths.left)
            paths.end = torch.where(beyond, end, paths.end)
            following = torch.where(
                beyond, torch.stack([torch.full_like(met[0], wall), met[1], met[2]]), following
            )
        state = torch.where(inside, following, state)
        paths.place, paths.grown, paths.added = state.unbind(0)

    def _slope(self, state: Tensor, _: Tensor) -> Tensor:
        x, grown = state[0], state[1]
        return torch.stack([-self.speed(x), self.growth(x), self.source(x) * torch.exp(grown)])

    def _slope_by_place(self, state: Tensor, x: Tensor) -> Tensor:
        slow = -1 / self.speed(x)
        return slow * torch.stack(
            [torch.ones_like(x), self.growth(x), self.source(x) * torch.exp(state[1])]
        )

    def _met(self, paths: _Paths, time: float) -> tuple[Tensor, Tensor]:
        """What paths have met: u and u_t."""
        factor = torch.exp(paths.grown)
        value, rate = (met(paths.place) for met in self.initial)
        entered = torch.where(paths.left < math.inf, time - paths.left, self.start)
        for end, wall in enumerate(self.walls):
            if wall is not None:
                here = (paths.left < math.inf) & (paths.end == end)
                value = torch.where(here, wall[0](entered), value)
                rate = torch.where(here, wall[1](entered), rate)
        return factor * value + paths.added, factor * rate

    def _along_path(self, expression: Expr) -> Callable[[Tensor], Tensor]:
        return self._evaluator(expression, self.problem.space[0])

    def _in_time(self, expression: Expr) -> Callable[[Tensor], Tensor]:
        return self._evaluator(expression, self.problem.time)

    def _evaluator(self, expression: Expr, coordinate: Any) -> Callable[[Tensor], Tensor]:
        """A function of scattered values ``[B, N]`` of one coordinate."""
        expression = sympy.sympify(expression)
        atoms = outermost_atoms(expression)
        scalars = [s for s in self.sources.scalars if s in expression.free_symbols]
        run = compile_expression(expression, (coordinate.symbol, *atoms, *scalars))
        functions = self.sources.functions

        def evaluate(places: Tensor) -> Tensor:
            points = places.unsqueeze(-1)
            values = [
                functions[name_of(a)].derivative(points, argument_order(a)).expand_as(places)
                for a in atoms
            ]
            values += [torch.as_tensor(self.sources.scalar(s)).reshape(-1, 1) for s in scalars]
            return run([places, *values]).expand_as(places)

        return evaluate


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
