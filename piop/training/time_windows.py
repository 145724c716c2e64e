"""The operator of one time window, applied window after window.

Source: own; autoregressive prediction with operators that are trained on their own predictions is
that of Brandstetter, Worrall & Welling 2022, sec. 3.1 (2202.03376), here with the equations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast, final

import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.fields import FunctionSamples, InputFunction, shared_points, tensor_grid
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.problem.time_windows import State, state_name
from piop.residual import KnownField
from piop.sampling import Draws
from piop.sampling.stored_functions import sum_of_waves
from piop.training.batches.function_sources import DrawnFunctions, FunctionSource
from piop.training.batches.input_grid import Axes, evaluate_on_grids
from piop.training.distributed import Processes, SingleProcess
from piop.training.loss.known_functions import Functions, known_field
from piop.training.operator import Operator

GROWTH = 0.2
"""Fraction of the budget until which training has reached the last window."""
LARGEST = 10.0
"""Size of a state, in sizes of its unknown, from which on a rollout counts as blown up."""


@final
@dataclass(frozen=True)
class TimeWindows:
    """A time axis in parts of equal length.

    Attributes:
        time: The whole axis.
        count: The number of parts.
    """

    time: Coordinate
    count: int

    @property
    def length(self) -> float:
        """Length of one window, units of the time."""
        return self.time.length / self.count

    def number(self, times: Tensor) -> Tensor:
        """Find the window of each time: int64, as the times. A time between two is of the first."""
        turns = (times.double() - self.time.low) / self.length
        return (turns - 1e-9 * self.count).ceil().long().sub(1).clamp(0, self.count - 1)

    def shifted(self, queries: Tensor, window: int) -> Tensor:
        """Move the times of ``queries [..., D]`` of a window into the first one."""
        moved, low = queries.clone(), self.time.low
        since = queries[..., 0].double() - window * self.length
        moved[..., 0] = since.clamp(low, low + self.length).to(queries)
        return moved

    def reach(self, fraction: float) -> int:
        """Return how many windows are in use after a fraction of the budget of training."""
        return min(self.count, 1 + int(self.count * fraction / GROWTH))


@final
class Rollout:
    """Takes the operator of a window from one window to the next.

    Args:
        problem: The problem over the whole time axis.
        window: That over the first window, whose first inputs are the states at its start.
        windows: The windows.
        operator: The operator of a window.
        known: What its hard constraints add.
        grids: Input of a window → the even grid on which it is given to the operator.

    Attributes:
        problem: See above.
        windows: See above.
        others: Inputs of a window beside the states.
        needs: The inputs of the problem that are needed as functions.
    """

    def __init__(
        self,
        problem: Problem,
        window: Problem,
        windows: TimeWindows,
        operator: Operator,
        known: KnownField,
        grids: Mapping[str, Axes],
    ) -> None:
        self.problem, self.windows = problem, windows
        self._operator, self._known, self._grids = operator, known, grids
        self._initial = known_field(problem, [data[0] for data in problem.initial.values()])
        self._states = [state_name(unknown) for unknown in problem.initial]
        self._channels = [problem.channels.index(unknown) for unknown in problem.initial]
        self._axes = grids[self._states[0]]
        first = next(item for item in window.inputs if item.name in self._states)
        self._waves = cast("State", first.distribution).waves
        self.others = tuple(i.name for i in window.inputs if i.name not in self._states)
        used = {*self._initial.names, *self.others}
        self.needs = tuple(item.name for item in problem.inputs if item.name in used)

    @property
    def points(self) -> int:
        """The number of points at which states are evaluated."""
        return len(tensor_grid(self._axes))

    @torch.no_grad()
    def start(self, functions: Functions, observed: Inputs) -> tuple[DrawnFunctions, Tensor]:
        """Give the first window's inputs from those of the problem, and its state."""
        like = self._operator.scale
        axes = [axis.to(like.device) for axis in self._axes]
        zero = axes[0].new_full((1,), self.windows.time.low)
        values = self._initial.on_grid(functions, [zero, *axes])[:, 0]
        values = values.expand(-1, *map(len, axes), -1)
        others = {name: functions[name] for name in self.others}
        batch = max([values.shape[0]] + [f.batch for f in others.values()])
        values = values.expand(batch, *values.shape[1:])
        seen = {name: observed[name] for name in self.others}
        return self.inputs(others, seen, values), values

    def inputs(self, functions: Functions, observed: Inputs, values: Tensor) -> DrawnFunctions:
        """Put a state ``[B, n1, …, S]`` in place of that of other inputs of a window."""
        like, space = self._operator.scale, self.problem.space
        points = tensor_grid(self._axes).to(like)
        found: dict[str, InputFunction] = dict(functions)
        seen: dict[str, FunctionSamples] = dict(observed)
        for name, value in zip(self._states, values.unbind(-1), strict=True):
            found[name] = sum_of_waves(value, space, self._waves).to(like.device, like.dtype)
            sensors = value.flatten(1)[..., None].to(like)
            seen[name] = FunctionSamples(shared_points(points, value.shape[0]), sensors)
        return found, seen

    @torch.no_grad()
    def advance(self, functions: Functions, observed: Inputs) -> Tensor:
        """Give the state at the end of a window ``[B, n1, …, S]`` float64."""
        like = self._operator.scale
        end = self._axes[0].new_full((1,), self.windows.time.low + self.windows.length)
        queries = tensor_grid([end, *self._axes]).to(like)[None]
        seen = evaluate_on_grids(self._grids, functions, observed)
        values = self._operator(seen, queries, self._known(functions, queries))
        shape = (values.shape[0], *map(len, self._axes), len(self._channels))
        return values[..., self._channels].double().reshape(shape)

    def bounded(self, values: Tensor) -> Tensor:
        """Mark the states ``[B]`` that are finite and not far above the usual size."""
        sizes = self._operator.scale[self._channels].double()
        means = (values / sizes).flatten(1, -2).square().mean(1)
        return (means < LARGEST**2).all(-1)  # what is not a number is not below

    def compose(
        self,
        functions: Functions,
        observed: Inputs,
        queries: Tensor,
        evaluate: Callable[[Functions, Inputs, Tensor], Tensor],
    ) -> Tensor:
        """Evaluate something of every window at the queries that lie in it.

        Args:
            functions: Inputs of the problem.
            observed: What is seen of them.
            queries: ``[B or 1, N, D]``, times over the whole axis.
            evaluate: Inputs of a window and queries ``[B or 1, N', D]`` within the first → values
                ``[B, N', K]``.

        Returns:
            ``[B, N, K]``.
        """
        number = self.windows.number(queries[..., 0])
        (functions, observed), _ = self.start(functions, observed)
        found: Tensor | None = None
        free = torch.compiler.is_exporting()  # every window may have queries
        for window in range(self.windows.count if free else int(number.max()) + 1):
            if window:
                functions, observed = self.inputs(
                    functions, observed, self.advance(functions, observed)
                )
            own = number == window
            if not free and not own.any():
                continue
            columns = slice(None) if free else own.any(0).nonzero()[:, 0]
            at = self.windows.shifted(queries[:, columns], window)
            values = evaluate(functions, observed, at)
            if found is None:
                found = values.new_zeros(values.shape[0], queries.shape[1], values.shape[-1])
            found[:, columns] = torch.where(own[:, columns, None], values, found[:, columns])
        return cast("Tensor", found)


@final
@dataclass(frozen=True)
class RolloutStates:
    """Rollouts under way, one for each of B functions.

    Attributes:
        number: Number of each function, unique within a run, int64 ``[B]``.
        remaining: Windows that each rollout has still to go, int64 ``[B]``.
        values: State at the start of the present window ``[B, n1, …, S]`` float64.
    """

    number: Tensor
    remaining: Tensor
    values: Tensor

    def take(self, rows: Tensor) -> RolloutStates:
        """Keep some of them."""
        return RolloutStates(self.number[rows], self.remaining[rows], self.values[rows])


@final
class RolloutFunctions(FunctionSource):
    """Inputs of a window: states that the operator has reached by itself.

    Each step advances the rollouts of the step before by one window with the present weights,
    without gradients. One that is complete, or whose state is not bounded, is replaced by the
    rollout of a new function. The number of windows of a rollout is uniform between one and the
    windows in use, which become more in the first part of training.

    Args:
        functions: Source of the inputs of the problem.
        rollout: From window to window.
        total: Functions of a step, of all processes.
        processes: The processes that share them.
    """

    def __init__(
        self,
        functions: FunctionSource,
        rollout: Rollout,
        total: int,
        processes: Processes | None = None,
    ) -> None:
        self.functions, self.rollout, self.total = functions, rollout, total
        self.processes = processes or SingleProcess()
        self._step = 0
        self._previous: RolloutStates | None = None
        self._current: RolloutStates | None = None

    @torch.no_grad()
    def __call__(self, draws: Draws, dtype: torch.dtype, fraction: float) -> DrawnFunctions:
        """See the base class. The same step again starts from the same states."""

        def draw(number: Tensor) -> DrawnFunctions:  # the same functions at every step
            return self.functions(replace(draws, step=1, index=number), dtype, fraction)

        if draws.step != self._step:
            self._step, self._previous = draws.step, self._current
        first = (draws.step - 1) * self.total
        number = first + draws.index
        remaining = torch.zeros_like(number)
        values: Tensor | None = None
        if (previous := self._previous) is not None:
            rows, reached = self._advance(previous, draw)
            values = previous.values.index_copy(0, rows, reached)
            number[rows], remaining[rows] = previous.number[rows], previous.remaining[rows] - 1
        new = (number >= first).nonzero()[:, 0]
        if len(new):
            _, initial = self.rollout.start(*draw(number[new]))
            values = initial if values is None else values.index_copy(0, new, initial)
            lengths = replace(draws, step=1, index=number[new])
            most = self.rollout.windows.reach(fraction)
            remaining[new] = lengths.integers("window", 0, most - 1)
        self._current = RolloutStates(number, remaining, cast("Tensor", values))
        return self._inputs(self._current, draw)

    def state_dict(self) -> dict[str, Any]:
        """Return the rollouts of the last step and of the one before, of all processes."""
        found: dict[str, Any] = {"step": self._step}
        for name, states in (("previous", self._previous), ("current", self._current)):
            if states is not None:
                found[name] = {
                    key: self.processes.gather(value, self.total)
                    for key, value in vars(states).items()
                }
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned, whatever the number of processes.

        Where the number of functions is another one, all rollouts begin anew.
        """
        if len(state.get("current", {}).get("number", ())) != self.total:
            return
        self._step = int(state["step"])
        part = self.processes.part(self.total)
        own = slice(part.start, part.stop)
        self._previous, self._current = (
            RolloutStates(**{key: value[own] for key, value in state[name].items()})
            if name in state
            else None
            for name in ("previous", "current")
        )

    def _advance(
        self, states: RolloutStates, draw: Callable[[Tensor], DrawnFunctions]
    ) -> tuple[Tensor, Tensor]:
        """Advance incomplete rollouts by one window; return the bounded ones: rows and states."""
        rows = (states.remaining > 0).nonzero()[:, 0]
        states = states.take(rows)
        if not len(rows):
            return rows, states.values
        reached = self.rollout.advance(*self._inputs(states, draw))
        good = self.rollout.bounded(reached)
        return rows[good], reached[good]

    def _inputs(
        self, states: RolloutStates, draw: Callable[[Tensor], DrawnFunctions]
    ) -> DrawnFunctions:
        """Return the inputs of a window: the states, and inputs of the problem beside them."""
        functions: Functions = {}
        observed: Inputs = {}
        if others := self.rollout.others:
            drawn = draw(states.number)
            functions = {name: drawn[0][name] for name in others}
            observed = {name: drawn[1][name] for name in others}
        return self.rollout.inputs(functions, observed, states.values)
