"""Time windows: one operator for a part of the time axis, applied again and again; without torch.

An evolution that does not name the time has the same solution operator over every interval of the
same length. So the operator over the first of n windows, from the state at its start to the
solution within it, gives the whole solution when it is applied n times (``docs/math.md``, 19).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast, final

from sympy import Expr, Function

from piop.forms.pde import Input
from piop.forms.terms import symbols_named
from piop.problem.classify import is_linear
from piop.problem.residual_form import decide_form, evolution_obstacle
from piop.spec.distributions import Distribution
from piop.spec.model import SensorPlacement

if TYPE_CHECKING:
    from piop.domain import Coordinate
    from piop.problem.constraints import Mode
    from piop.problem.problem import Problem

USUAL_WINDOWS, MOST_USUAL_WINDOWS = 4, 16
"""Windows of a nonlinear evolution, and at most of one that is integrated over time and whose
solutions change fast (docs/training.md)."""
MOST_WINDOWS = 100


@dataclass(frozen=True)
class WindowsDecision:
    """Into how many time windows an operator may divide the time axis, and why.

    Attributes:
        count: The number; 1 for an operator of the whole axis.
        why: The reason, a clause.
        most: What it may be doubled to, where solutions change fast.
    """

    count: int
    why: str
    most: int = 1

    def __str__(self) -> str:
        if self.count == 1:
            return f"none, {self.why}"
        return f"{self.count}{f' to {self.most}' if self.most > self.count else ''}, {self.why}"


def decide_windows(
    problem: Problem, constraints: Mode = "auto", requested: int = 0
) -> WindowsDecision:
    """Decide into how many windows the time axis may be divided, as far as the symbols tell.

    Whether that pays depends on the solutions too: see :mod:`piop.training.state_waves`.

    Args:
        problem: The problem.
        constraints: How conditions are to be met. The state at the start of a window is a hard
            constraint, which it can be even where the initial data are too rough for one.
        requested: A number of windows; 0 for the usual one where it is possible and the equations
            are not linear.

    Raises:
        ValueError: If several windows are requested and are not possible.
    """
    if requested == 1:
        return WindowsDecision(1, "as requested")
    obstacle = _obstacle(problem, constraints)
    if requested and obstacle:
        raise ValueError(f"windows: {requested} is not possible: {obstacle}; use 0 or 1")
    if requested:
        return WindowsDecision(requested, "as requested")
    if obstacle is None and is_linear(problem):
        obstacle = "the equations are linear"
    if obstacle is not None:
        return WindowsDecision(1, obstacle)
    return WindowsDecision(
        USUAL_WINDOWS,
        "where reference solutions change much and stay smooth: the equations do not name "
        f"{cast('Coordinate', problem.time).name}",
        MOST_USUAL_WINDOWS if decide_form(problem, constraints).integral else USUAL_WINDOWS,
    )


def _obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why the operator of one window does not give the next one; None where it does."""
    if obstacle := evolution_obstacle(problem, constraints):
        return obstacle
    if not problem.pde.periodic:
        return "an axis of space is not periodic"
    time = cast("Coordinate", problem.time)
    if time.symbol in symbols_named(problem.residuals):
        return f"an equation names {time.name}"
    initial = [e for data in problem.initial.values() for e in data]
    for item in problem.inputs:
        if any(e.has(item.symbol) for e in (*problem.residuals, *initial)):
            if time.name in item.of:
                return f"{item.name} depends on {time.name}"
            if item.hidden:
                return f"the network does not see {item.name}"
    if problem.vectors or any(item.history is not None for item in problem.inputs):
        return "an input is neither a function of space nor a number"
    return None


@final
@dataclass(frozen=True)
class State(Distribution):
    """The solution at the start of a time window: a sum of waves, that windows before it give.

    Attributes:
        waves: Length of the longest wave vectors that the state keeps, in periods over an axis. The
            network sees all of these waves; one that it did not see would pass from window to
            window undamped.
        bulk: Most periods along an axis of the waves that attention's tokens resolve.
    """

    waves: int
    bulk: int
    function = True
    derivatives = math.inf


def state_name(unknown: str) -> str:
    """Return the name of the input that is an unknown at the start of a window."""
    return f"{unknown} at the start"  # no name of a spec has spaces


def _state_input(problem: Problem, unknown: str, state: State) -> Input:
    name, of = state_name(unknown), tuple(c.name for c in problem.space)
    symbol = Function(name, real=True)(*(c.symbol for c in problem.space))
    return Input(name, of, state, None, False, True, (), SensorPlacement.GRID, symbol)


def window_problem(problem: Problem, windows: int, state: State) -> Problem:
    """Return the problem over the first of some windows, its inputs the state at its start.

    Args:
        problem: One that :func:`decide_windows` divides.
        windows: Into how many parts of equal length.
        state: What is known of the unknowns at its start.

    Returns:
        A problem whose inputs are the states, then those of the inputs that the equations name.
    """
    time = cast("Coordinate", problem.time)
    started = {name: _state_input(problem, name, state) for name in problem.initial}
    own = tuple(i for i in problem.inputs if any(r.has(i.symbol) for r in problem.residuals))
    initial: Mapping[str, tuple[Expr, ...]] = {n: (s.symbol,) for n, s in started.items()}
    short = replace(time, high=time.low + time.length / windows)
    pde = replace(problem.pde, time=short, inputs=(*started.values(), *own), initial=initial)
    return problem.with_pde(pde)
