"""Held-out inputs, drawn from their distributions or taken from data, and their solutions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from piop.arguments import mapping, sequence, whole_number
from piop.datasets import Dataset, Queries
from piop.errors import UsageError, excerpt
from piop.fields import FunctionSamples, InputFunction, grid_axis
from piop.problem import Problem
from piop.problem.inputs import history_of, query_coordinates
from piop.reference import solve_reference
from piop.run.data import input_digests
from piop.run.user_inputs import save_grid
from piop.sampling import Draws, observe, place_sensors, sample_inputs
from piop.sampling.random import HELD_OUT, NEWEST_SCHEME
from piop.spec.model import SensorPlacement

GRID_LIMITS = {0: (101, 1), 1: (21, 128), 2: (6, 32), 3: (6, 16)}
"""Largest numbers of times and points per space axis of an evaluation, by the number of axes."""

Grid = tuple[int, ...]
"""Points along each axis of space."""
Sensors = Mapping[str, tuple[int | Sequence[int], str]]
"""Input → (count or counts per axis, placement)."""


@dataclass(frozen=True)
class HeldOut:
    """Inputs that were never trained on, and their solutions.

    Attributes:
        functions: The input functions; empty for data.
        inputs: Their values at the sensors.
        queries: Grid or points of the solutions.
        truth: Channel → ``[B, *queries.shape]`` float64.
        error_estimate: Relative L2 error of the truth ``[B]``; None where it is unknown.
        accepted: Whether the truth reached its tolerance ``[B]``.
        start: Channel → ``[B, *space]``, the last observed time of a solution whose history is an
            input; empty otherwise.
    """

    functions: Mapping[str, InputFunction]
    inputs: Mapping[str, FunctionSamples]
    queries: Queries
    truth: Mapping[str, Tensor]
    error_estimate: Tensor | None
    accepted: Tensor
    start: Mapping[str, Tensor] = field(default_factory=dict)

    def take(self, index: Tensor) -> HeldOut:
        """Return the samples of these numbers."""
        points = self.queries.points
        if points is not None and len(points) == len(self.accepted):
            points = points[index]
        return HeldOut(
            {name: function.take(index) for name, function in self.functions.items()},
            {name: samples.take(index) for name, samples in self.inputs.items()},
            replace(self.queries, points=points),
            {name: value[index] for name, value in self.truth.items()},
            None if self.error_estimate is None else self.error_estimate[index],
            self.accepted[index],
            {name: value[index] for name, value in self.start.items()},
        )


EXAMPLE = '{"u0": (100, "uniform")}'
MOST_SENSORS = 10**6
"""Largest number of sensors of an input that is placed, or of points of a grid in space."""


def sequence_of_counts(name: str, counts: Any) -> tuple[int, ...]:
    """Read a number of points, or one for each axis.

    Raises:
        UsageError: For no whole number above zero, or too many points in all.
    """
    parts = sequence(name, counts, "[32, 32]") if isinstance(counts, list | tuple) else [counts]
    shape = tuple(whole_number(name, count, 1, MOST_SENSORS) for count in parts)
    if math.prod(shape) > MOST_SENSORS:
        raise UsageError(f"{name}: {'x'.join(map(str, shape))} are more than {MOST_SENSORS} points")
    return shape


def observed_at(
    problem: Problem,
    functions: Mapping[str, InputFunction],
    draws: Draws,
    sensors: Sensors | None,
) -> dict[str, FunctionSamples]:
    """Evaluate inputs at other sensors than the spec's.

    Raises:
        UsageError: If sensors are requested of no visible input, or cannot be placed so.
    """
    items = {item.name: item for item in problem.visible_inputs}
    found = {}
    given = {} if sensors is None else mapping("sensors", sensors, EXAMPLE)
    for name, wanted in given.items():
        if name not in items:
            raise UsageError(f"sensors: {name!r} is not a visible input; one of {', '.join(items)}")
        if not isinstance(wanted, Sequence) or isinstance(wanted, str) or len(wanted) != 2:
            raise UsageError(
                f"sensors.{name}: {excerpt(wanted)} is not a pair of counts and placement; give "
                f"such as {EXAMPLE}"
            )
        counts, place = wanted
        shape = sequence_of_counts(f"sensors.{name}", counts)
        if place == SensorPlacement.GRID and len(shape) != len(items[name].of):
            of = ", ".join(items[name].of) or "no coordinates"
            raise UsageError(f"sensors.{name}: {len(shape)} counts were given for a grid of {of}")
        if place not in list(SensorPlacement):
            ways = ", ".join(SensorPlacement)
            raise UsageError(
                f"sensors.{name}: {excerpt(place)} is not a way to place them; one of {ways}"
            )
        try:
            item = replace(items[name], sensor_shape=shape, place=SensorPlacement(place))
            points = place_sensors(problem, item, draws)
        except ValueError as error:
            raise UsageError(f"sensors.{name}: {error}") from error
        found[name] = FunctionSamples(points, functions[name](points)[..., None])
    return found


def coarsened(problem: Problem, held_out: HeldOut, grid: Grid) -> HeldOut:
    """Keep every k-th point of the grid of the data.

    Raises:
        UsageError: If the data have no such grid.
    """
    if held_out.queries.axes is None:
        raise UsageError("grid: the data lie at scattered points; leave --grid out")
    axes, truth = dict(held_out.queries.axes), dict(held_out.truth)
    for axis, coordinate in enumerate(problem.coordinates):
        if coordinate not in problem.space:
            continue
        count, own = grid[problem.space.index(coordinate)], axes[coordinate.name]
        strides = grids_within(len(own), coordinate.periodic)
        if count not in strides:
            raise UsageError(
                f"grid: the data have {len(own)} points along {coordinate.name}, from which "
                f"{count} cannot be taken evenly; there are {', '.join(map(str, strides))}"
            )
        index = torch.arange(0, len(own), strides[count])
        axes[coordinate.name] = own[index]
        truth = {name: value.index_select(axis + 1, index) for name, value in truth.items()}
    return replace(held_out, queries=Queries(axes=axes), truth=truth)


def grids_within(count: int, periodic: bool) -> dict[int, int]:
    """Return the even grids of at least two points within one of ``count``: points → stride.

    On an axis that is not periodic both ends are kept.
    """
    steps = count if periodic else count - 1
    found = {steps // k + (not periodic): k for k in range(1, max(steps, 1) + 1) if steps % k == 0}
    return {points: k for points, k in found.items() if points > 1}


class HeldOutSource(ABC):
    """A source of held-out inputs with their solutions.

    Attributes:
        name: Its name in ``discretisation.json``.
    """

    name: ClassVar[str]

    @abstractmethod
    def held_out(self) -> HeldOut:
        """Return the samples on the usual grid."""

    @abstractmethod
    def on_grids(self, grids: Sequence[Grid]) -> Iterator[HeldOut]:
        """Return the samples on each of several grids.

        Raises:
            UsageError: For a grid that there is none of.
        """

    def count_among(self, digests: Collection[str]) -> tuple[int, int]:
        """Count the samples whose inputs have one of these digests, and all that were compared.

        Inputs that are drawn have streams of their own, and are not compared.
        """
        return 0, 0


@final
@dataclass(frozen=True)
class DrawnInputs(HeldOutSource):
    """Held-out inputs drawn from their distributions and solved by the reference.

    Attributes:
        problem: The problem, its parameters being numbers.
        samples: Number of samples.
        seed: Seed of the run from which they are held out.
        scheme: How their random numbers are kept apart from others.
        queries: Grid of the references; by default the ``save`` grid with fewer points.
        sensors: Input → (count or counts per axis, placement), where not as in the spec.
        end: Keep only the final time, for operators that predict no other.
    """

    problem: Problem
    samples: int
    seed: int
    queries: Queries | None = None
    sensors: Sensors | None = None
    end: bool = False
    scheme: int = NEWEST_SCHEME

    name = "law"

    def held_out(self) -> HeldOut:
        """Draw the inputs and solve for their references.

        Raises:
            UsageError: If sensors are requested of no visible input, or cannot be placed so.
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        problem = self.problem
        draws = Draws.of(HELD_OUT, self.seed, range(self.samples), self.scheme)
        functions = sample_inputs(problem, draws)
        queries = self.queries or self._usual()
        axes = queries.axes or {}
        space = tuple(len(axes[c.name]) for c in problem.space)
        times = None if problem.time is None else axes[problem.time.name]
        solution = solve_reference(problem, functions, times=times, shape=space)
        points = None if solution.points is None else solution.points.cpu()
        observed = observe(functions, problem, draws, points=points)
        return HeldOut(
            functions,
            observed | observed_at(problem, functions, draws, self.sensors),
            queries if points is None else Queries(points=points),
            {name: value.double().cpu() for name, value in solution.values.items()},
            solution.error_estimate.cpu(),
            solution.accepted.cpu(),
        )

    def on_grids(self, grids: Sequence[Grid]) -> Iterator[HeldOut]:
        """Solve for the same inputs on one grid in space after another; times stay."""
        for grid in grids:
            axes = dict(self._usual().axes or {})
            for axis, count in zip(self.problem.space, grid, strict=True):
                axes[axis.name] = grid_axis(axis.low, axis.high, count, axis.periodic)
            yield replace(self, queries=Queries(axes=axes)).held_out()

    def _usual(self) -> Queries:
        return save_grid(self.problem, GRID_LIMITS[len(self.problem.space)], self.end)


@final
@dataclass(frozen=True)
class HeldOutData(HeldOutSource):
    """Held-out trajectories of a data set.

    Attributes:
        problem: The problem.
        data: The trajectories.
        end: Keep only the final time, for operators that predict no other.
    """

    problem: Problem
    data: Dataset
    end: bool = False

    name = "data"

    def held_out(self) -> HeldOut:
        """Return the trajectories after their history, of which the operator observes the end."""
        problem, data, start = self.problem, self.data, {}
        if history_of(problem) is not None:
            start = {name: data.values[name][:, 0].double() for name in problem.unknowns}
            name = query_coordinates(problem)[0].name
            axes = {**data.axes, name: data.axes[name][1:]}
            data = replace(data, axes=axes, values={n: v[:, 1:] for n, v in data.values.items()})
        if self.end and data.points is None and problem.time is not None:
            data = data.last_along(problem.time.name)
        queries = Queries(points=data.points)
        if data.points is None:
            queries = Queries(axes={c.name: data.axes[c.name] for c in problem.coordinates})
        truth = {n: data.values[n].double() for n in problem.channels if n in data.values}
        accepted = torch.ones(len(data), dtype=torch.bool)
        return HeldOut({}, data.inputs, queries, truth, data.error_estimate, accepted, start)

    def count_among(self, digests: Collection[str]) -> tuple[int, int]:
        """Count the samples whose inputs have one of these digests, and all there are."""
        own = input_digests(self.data)
        return sum(digest in digests for digest in own), len(own)

    def on_grids(self, grids: Sequence[Grid]) -> Iterator[HeldOut]:
        """Keep every k-th point of the grid of the data; refuse a grid before the first is used."""
        whole = self.held_out()
        return iter([coarsened(self.problem, whole, grid) for grid in grids])
