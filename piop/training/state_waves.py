"""Whether time windows serve a problem, and which waves their states hold: from a few solutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.errors import NotSupportedError, SolverError
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.problem.residual_form import STRONG, FormDecision
from piop.problem.time_windows import State, state_name, window_problem
from piop.residual import compile_residual
from piop.sampling import Draws, collocation, observe
from piop.sampling.stored_functions import sum_of_waves
from piop.training.batches.input_grid import LARGEST_WAVENUMBER
from piop.training.coarse_references import SAMPLES, coarse_inputs, solve_coarsely
from piop.training.integration_lattice import (
    NODES,
    choose_lattice,
    node_times,
    too_large_over_any_time,
)
from piop.training.loss.statistics import Statistics, statistics_over
from piop.training.resolution import power_by_waves

QUERIES = 256
"""Points of each state over which statistics are taken."""
MOST_WAVES = {1: 42, 2: 10, 3: 5}
"""Periods over an axis of the shortest waves that a state may keep: they cost time."""
LOST_AT_MOST = 2e-2
"""Root of the part of a state's variance that may lie in waves beyond; it is lost at every start of
a window, so it is a floor of the error (docs/training.md)."""
KEPT, BULK = 1 - 1e-6, 1 - 1e-4
"""Parts of a state's variance that the waves it keeps hold, and those that attention's tokens do;
see :mod:`piop.training.batches.input_grid`. Tokens take those beyond ``LARGEST_WAVENUMBER`` only
where ``LOST_AT_MOST`` or more lies there. Waves that are kept count by the length of their vectors,
as networks see them, those of tokens by the periods along each axis, as an even grid does."""
LEAST_CHANGE, MOST_CHANGE = 0.4, 0.35
"""Change of the solution relative to its size: over the whole time, from which windows pay, and
over a window, up to which more of them do not (docs/training.md)."""

FEWEST_NUMBERS = 16
"""Numbers that determine the bulk of a state from which on windows pay: an operator of fewer is
learnt at once, and composing it adds errors (docs/training.md)."""


@dataclass(frozen=True)
class States:
    """The solutions of a few inputs at the starts of windows.

    Attributes:
        windows: The number of windows; 1 where they do not serve.
        why: The reason, a clause.
        state: What is known of the unknowns there; None with one window.
        values: Unknown → values on an even grid ``[SAMPLES, windows, n1, …]``.
        functions: The inputs of these solutions.
        lattice: Times, and points along each axis, of the lattice on which the equations are
            integrated over a window; empty where they are trained at random points.
        form: Why, a clause.
        sizes: Typical size of each unknown in these solutions; empty where they are not looked at.
        potential: Whether the equations of the potentials are trained at random points.
    """

    windows: int
    why: str
    state: State | None = None
    values: Mapping[str, Tensor] = field(default_factory=dict)
    functions: Mapping[str, InputFunction] = field(default_factory=dict)
    lattice: tuple[int, ...] = ()
    form: str = ""
    sizes: tuple[float, ...] = ()
    potential: bool = False

    def __str__(self) -> str:
        return f"{self.windows if self.windows > 1 else 'none'}, {self.why}"


def find_states(
    problem: Problem,
    windows: int,
    form: FormDecision = STRONG,
    *,
    asked: bool,
    most: int = 1,
    seed: int = 0,
) -> States:
    """Solve a problem coarsely for a few inputs, and decide whether time windows serve it.

    Args:
        problem: One whose time axis may be divided.
        windows: Into how many windows.
        form: In which form the equations may be trained within each.
        asked: Whether this number was asked for; it is taken then whatever the solutions are like.
        most: What the number may be doubled to, where solutions change fast.
        seed: Of the inputs.

    Raises:
        ValueError: If windows or the integral form are asked for, and there is no solution to find
            the waves from, or no lattice that resolves it.
    """
    time = cast("Coordinate", problem.time)
    try:
        solved = solve_coarsely(problem, node_times(time.low, time.length, windows), seed=seed)
    except (NotSupportedError, SolverError) as error:
        if asked:
            raise ValueError(f"windows: {windows} is not possible: {error}; use 1") from error
        return States(1, f"there is no reference solution ({error})")
    started = _started(problem, solved)
    states = [v[:, :-1] for v in started.values()]
    longest, usual = MOST_WAVES[len(problem.space)], LARGEST_WAVENUMBER[len(problem.space)]
    change = _change({name: value[:, [0, -1]] for name, value in started.items()})
    within, along = [_shares(v, 2) for v in states], [_shares(v, math.inf) for v in states]
    lost, beyond = _lost(within, longest), _lost(along, usual)
    if not asked and change < LEAST_CHANGE:
        why = f"solutions change by {100 * change:.0f} % of their size, too little to divide them"
        return States(1, why)
    if not asked and lost > LOST_AT_MOST:
        why = f"{100 * lost:.1f} % of a state lie in waves beyond the {longest} that it could keep"
        return States(1, why)
    kept, bulk = (
        max(1, *(min(longest, int((share < part).sum())) for share in shares))
        for shares, part in ((within, KEPT), (along, BULK))
    )
    numbers = len(started) * (2 * bulk + 1) ** len(problem.space)
    if not asked and numbers < FEWEST_NUMBERS:
        return States(1, f"{numbers} numbers determine a state, which is learnt at once")
    state = State(kept, bulk if beyond > LOST_AT_MOST else min(bulk, usual))
    why = f"solutions change by {100 * change:.0f} % of their size and are sums of few waves"
    why = "as requested" if asked else why
    few, enough = (windows, solved), _enough_windows(_started(problem, solved, 2), windows, most)
    # at random points more windows only cost time (docs/training.md)
    if enough > windows and not (
        form.integral and too_large_over_any_time(_evolving(problem, solved))
    ):
        times = node_times(time.low, time.length, enough)
        windows, solved = enough, solve_coarsely(problem, times, seed=seed)
    lattice, reason = choose_lattice(_evolving(problem, solved), windows, form)
    if form.integral and not lattice and windows > few[0]:
        windows, solved = few
        lattice, reason = choose_lattice(_evolving(problem, solved), windows, form)
    values = {name: v[:, :-1] for name, v in _started(problem, solved).items()}
    functions = coarse_inputs(problem, seed)
    return States(windows, why, state, values, functions, lattice, reason)


def _evolving(problem: Problem, solved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the unknowns whose derivative in time the equations give."""
    return {name: solved[name] for name in problem.initial}


def _started(problem: Problem, solved: Mapping[str, Tensor], parts: int = 1) -> dict[str, Tensor]:
    """Give the states at the starts of windows and at the end, or of equal parts of windows."""
    step = (NODES - 1) // parts
    return {name: value[:, ::step] for name, value in _evolving(problem, solved).items()}


def _enough_windows(halves: Mapping[str, Tensor], windows: int, most: int) -> int:
    """Double a number of windows until solutions change little within each.

    Args:
        halves: Unknown → its values at the starts and middles of windows and at the end.
        windows: The number.
        most: What it may be doubled to.
    """
    if 2 * windows > most or _change({n: v[:, ::2] for n, v in halves.items()}) <= MOST_CHANGE:
        return windows
    if 4 * windows > most or _change(halves) <= MOST_CHANGE:
        return 2 * windows
    return 4 * windows


def _change(values: Mapping[str, Tensor]) -> float:
    """Return the change from each time to the next over the larger of both, RMS.

    From rest, where that would be one whatever follows, it is relative to the size over all times.

    Args:
        values: Unknown → ``[B, T, …]``; the one that changes most counts, relative to itself.
    """
    found = []
    for value in values.values():
        squares = value.square().flatten(2).mean(2)
        changes = value.diff(dim=1).square().flatten(2).mean(2)
        before, after = squares[:, :-1], squares[:, 1:]
        sizes = torch.where(before == 0, squares.mean(1, keepdim=True), before).maximum(after)
        found.append(float((changes / sizes.clamp(min=1e-300)).mean().sqrt()))
    return max(found)


def _shares(values: Tensor, norm: float) -> Tensor:
    """Return the parts of the variance in waves of at most k periods over an axis ``[K]``.

    Of an unknown that is zero they are one.

    Args:
        values: ``[B, T, n, …]``, as many points along every axis.
        norm: Of a wave vector, see :func:`piop.training.resolution.power_by_waves`.
    """
    by_waves = power_by_waves(values, norm)
    total = by_waves.sum()
    return by_waves.cumsum(0) / total if total > 0 else torch.ones_like(by_waves)


def _lost(shares: Sequence[Tensor], waves: int) -> float:
    """Return the root of the largest part of a variance beyond k periods."""
    return max(math.sqrt(max(0.0, 1 - float(share[waves]))) for share in shares)


def window_statistics(problem: Problem, states: States, seed: int = 0) -> Statistics:
    """Measure the statistics of the problem over one window, over the states at all starts.

    Args:
        problem: The problem over the whole time axis.
        states: The states of some solutions; several windows.
        seed: Of the points.
    """
    window = window_problem(problem, states.windows, cast("State", states.state))
    count = SAMPLES * states.windows
    row = torch.arange(SAMPLES).repeat_interleave(states.windows)
    draws = Draws(seed, 1, torch.arange(SAMPLES))
    seen = observe(states.functions, problem, draws)
    functions: dict[str, InputFunction] = {}
    observed: dict[str, FunctionSamples] = {}
    for unknown, values in states.values.items():
        rows, name = values.flatten(0, 1), state_name(unknown)
        functions[name] = sum_of_waves(rows, problem.space, cast("State", states.state).waves)
        points = rows.new_zeros(count, rows[0].numel(), len(problem.space))
        observed[name] = FunctionSamples(points, rows.flatten(1)[..., None])
    for item in window.inputs:
        if item.name not in functions:
            functions[item.name] = states.functions[item.name].take(row)
            observed[item.name] = seen[item.name].take(row)
    queries = collocation(window, Draws(seed, 0, torch.arange(count)), QUERIES)
    found = statistics_over(window, compile_residual(window), functions, observed, queries)
    state = cast("State", states.state)
    return replace(found, windows=states.windows, waves=state.waves, bulk=state.bulk)
