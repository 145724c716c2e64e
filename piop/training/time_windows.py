"""The operator of one time window, applied window after window.

Source: own; autoregressive prediction with operators that are trained on their own predictions is
that of Brandstetter, Worrall & Welling 2022, sec. 3.1 (2202.03376), here with the equations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor

from piop.domain import Coordinate
from piop.fields import FunctionSamples, InputFunction, tensor_grid
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.problem.time_windows import State, state_name
from piop.residual import KnownField
from piop.sampling import Draws
from piop.sampling.stored_functions import sum_of_waves
from piop.training.batches.function_sources import DrawnFunctions, FunctionSource
from piop.training.batches.input_grid import Axes, evaluate_on_grids
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
        self._others = [item.name for item in window.inputs if item.name not in self._states]
        used = {*self._initial.names, *self._others}
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
        others = {name: functions[name] for name in self._others}
        batch = max([len(values)] + [f.batch for f in others.values()])
        values = values.expand(batch, *values.shape[1:])
        seen = {name: observed[name] for name in self._others}
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
            seen[name] = FunctionSamples(points.expand(len(value), -1, -1), sensors)
        return found, seen

    @torch.no_grad()
    def advance(self, functions: Functions, observed: Inputs) -> Tensor:
        """Give the state at the end of a window ``[B, n1, …, S]`` float64."""
        like = self._operator.scale
        end = self._axes[0].new_full((1,), self.windows.time.low + self.windows.length)
        queries = tensor_grid([end, *self._axes]).to(like)[None]
        seen = evaluate_on_grids(self._grids, functions, observed)
        values = self._operator(seen, queries, self._known(functions, queries))
        shape = (len(values), *map(len, self._axes), len(self._channels))
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
        for window in range(int(number.max()) + 1):
            if window:
                functions, observed = self.inputs(
                    functions, observed, self.advance(functions, observed)
                )
            own = number == window
            columns = own.any(0).nonzero()[:, 0]
            if not len(columns):
                continue
            at = self.windows.shifted(queries[:, columns], window)
            values = evaluate(functions, observed, at)
            if found is None:
                found = values.new_zeros(len(values), queries.shape[1], values.shape[-1])
            found[:, columns] = torch.where(own[:, columns, None], values, found[:, columns])
        return cast("Tensor", found)


@final
class RolloutFunctions:
    """States at the starts of windows that the operator reached by itself.

    How many windows a function is rolled is drawn at random among those in use, which become more
    in the first part of training. A rollout that blows up stays at its last good state.

    Args:
        functions: Source of the inputs of the problem.
        rollout: From window to window.
    """

    def __init__(self, functions: FunctionSource, rollout: Rollout) -> None:
        self.functions, self.rollout = functions, rollout

    def __call__(self, draws: Draws, dtype: torch.dtype, fraction: float) -> DrawnFunctions:
        """Draw functions, and roll each through some windows with the present weights."""
        rollout, reach = self.rollout, self.rollout.windows.reach(fraction)
        (functions, observed), values = rollout.start(*self.functions(draws, dtype, fraction))
        target = draws.integers("window", 0, reach - 1)
        for window in range(1, reach):
            rows = (target >= window).nonzero()[:, 0]
            if not len(rows):
                break
            some = {name: f.take(rows) for name, f in functions.items()}
            seen = {name: s.take(rows) for name, s in observed.items()}
            new = rollout.advance(some, seen)
            good = rollout.bounded(new)
            values = values.clone()
            values[rows[good]] = new[good]
            target = target.index_fill(0, rows[~good], 0)
            functions, observed = rollout.inputs(functions, observed, values)
        return functions, observed
