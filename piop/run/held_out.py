"""Held-out inputs, drawn from their distributions or taken from data, and their solutions."""

from __future__ import annotations

import math
import sys
import time as clock
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from piop.arguments import mapping, sequence, whole_number
from piop.datasets import Dataset, Queries
from piop.errors import UsageError, excerpt
from piop.fields import FunctionSamples, InputFunction, grid_axis
from piop.problem import Problem
from piop.problem.inputs import history_of, query_coordinates
from piop.run.data import input_digests
from piop.run.references import Progress, Reference, References
from piop.run.user_inputs import save_grid
from piop.sampling import Draws, observe, place_sensors, sample_inputs
from piop.sampling.random import HELD_OUT, NEWEST_SCHEME
from piop.spec.model import SensorPlacement

GRID_LIMITS = {0: (101, 1), 1: (21, 128), 2: (6, 32), 3: (6, 16)}
"""Largest numbers of times and points per space axis of an evaluation, by the number of axes."""

FIGURE_LIMITS = (101, 256)
"""Largest numbers of times and points of figures in one space dimension."""
LOOSE = 1e-2
"""Tolerance that references of an evaluation are solved to first."""
PART = 0.1
"""Part of an operator's error that the estimate of its reference may reach."""
LEAST, DOUBLING = 4, 2
"""Samples solved before time is looked at; factor between batches, so that a wrong guess of their
seconds is small beside what was solved."""

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

    def on_part(self, index: Mapping[str, Tensor]) -> HeldOut:
        """Return the solutions at these positions along each axis of their grid, in its order."""
        own, truth = self.queries.axes or {}, dict(self.truth)
        for axis, chosen in enumerate(index.values(), 1):
            truth = {name: value.index_select(axis, chosen) for name, value in truth.items()}
        axes = {name: own[name][chosen] for name, chosen in index.items()}
        return replace(self, queries=Queries(axes=axes), truth=truth)


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
    wanted = {}
    for coordinate in problem.coordinates:
        own = held_out.queries.axes[coordinate.name]
        wanted[coordinate.name] = torch.arange(len(own))
        if coordinate not in problem.space:
            continue
        count = grid[problem.space.index(coordinate)]
        strides = grids_within(len(own), coordinate.periodic)
        if count not in strides:
            raise UsageError(
                f"grid: the data have {len(own)} points along {coordinate.name}, from which "
                f"{count} cannot be taken evenly; there are {', '.join(map(str, strides))}"
            )
        wanted[coordinate.name] = torch.arange(0, len(own), strides[count])
    return held_out.on_part(wanted)


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

    @property
    @abstractmethod
    def requested(self) -> int:
        """Number of samples that :meth:`held_out` returns."""

    def judging(
        self,
        errors: Callable[[HeldOut], Tensor],
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> HeldOut:
        """Return the samples on the grid of figures, exact enough to judge an operator by.

        Args:
            errors: Gives the operator's error for each sample ``[B]``, on the usual grid.
            seconds: Time after which no more references are solved; None for all.
            progress: Takes how many references are solved.

        Raises:
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        return self.held_out()

    def on_usual_grid(self, held_out: HeldOut) -> HeldOut:
        """Return samples of :meth:`judging` on the grid of an evaluation."""
        return held_out

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
class Batches:
    """Sizes of batches that fit in a time.

    References that are kept and those that are not have each their own seconds per sample.

    Args:
        seconds: The time; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.start = seconds, clock.monotonic()
        self.spent, self.solved = {True: 0.0, False: 0.0}, {True: 0, False: 0}

    def size(self, done: int, known: bool) -> int:
        """Return the most samples of the next batch; 0 where none fits.

        Args:
            done: Samples so far.
            known: Whether the references of the next ones are kept.
        """
        if self.seconds is None:
            return sys.maxsize
        left = self.seconds - (clock.monotonic() - self.start)
        each, before = self.spent[known] / max(self.solved[known], 1), self.solved[known]
        fitting = int(min(left / max(each, 1e-9), DOUBLING * before if before else LEAST))
        return max(fitting, LEAST - done, 0)

    @contextmanager
    def timing(self, known: bool, samples: int) -> Iterator[None]:
        """Measure a batch."""
        start = clock.monotonic()
        yield
        self.spent[known] += clock.monotonic() - start
        self.solved[known] += samples


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

    @property
    def requested(self) -> int:
        """See the base class; a problem without inputs has one solution."""
        return self.samples if self.problem.inputs else 1

    def held_out(self) -> HeldOut:
        """Draw the inputs and solve for their references.

        Raises:
            UsageError: If sensors are requested of no visible input, or cannot be placed so.
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        source, samples = self._references, range(self.requested)
        tolerance, found = source.usual_tolerance(), source.kept(samples)
        self._solve(found, samples, tolerance)
        accepted = torch.tensor([found[i].error <= tolerance for i in samples])
        return self.on_usual_grid(self._with_solutions(samples, found, accepted))

    def judging(
        self,
        errors: Callable[[HeldOut], Tensor],
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> HeldOut:
        """Solve coarsely, and again only where the estimate is large beside the operator's error.

        Samples are solved in their order, in batches, as long as the next batch fits in the time.
        """
        found = self._references.kept(range(self.requested))
        kept, batches = set(found), Batches(seconds)
        parts: list[HeldOut] = []
        done = 0
        while done < self.requested:
            known = done in kept
            size = batches.size(done, known)
            if size == 0:
                break
            alike = next((i for i in range(done, self.requested) if (i in kept) != known), None)
            last = self.requested if alike is None or seconds is None else alike
            batch = range(done, min(last, done + size))
            with batches.timing(known, len(batch)):
                parts.append(self._judging(found, batch, errors, progress))
            done = batch.stop
            if progress is not None:
                progress(done, self.requested)
        accepted = torch.cat([part.accepted for part in parts])
        return self._with_solutions(range(done), found, accepted)

    def _judging(
        self,
        found: dict[int, Reference],
        batch: range,
        errors: Callable[[HeldOut], Tensor],
        progress: Progress | None,
    ) -> HeldOut:
        """Solve a batch as exactly as its errors need."""
        usual = self._references.usual_tolerance()
        show = None if progress is None else lambda n: progress(batch.start + n, self.requested)
        self._solve(found, batch, max(LOOSE, usual), show)
        wanted, waiting = dict.fromkeys(batch, math.inf), list(batch)
        while waiting:  # each round asks for less than the last one reached
            nothing = torch.zeros(len(waiting), dtype=torch.bool)
            solved = self.on_usual_grid(self._with_solutions(waiting, found, nothing))
            parts = (PART * errors(solved)).nan_to_num(nan=math.inf, posinf=math.inf)
            wanted |= dict(zip(waiting, parts.clamp_min(usual).tolist(), strict=True))
            waiting = [i for i in waiting if not (found[i].serves(wanted[i]) or found[i].missed)]
            self._solve(found, waiting, min((wanted[i] for i in waiting), default=usual))
        accepted = torch.tensor([found[i].error <= wanted[i] for i in batch])
        return self._with_solutions(batch, found, accepted)

    def _solve(
        self,
        found: dict[int, Reference],
        samples: Sequence[int],
        tolerance: float,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Solve those that are not solved to this tolerance yet."""
        missing = [i for i in samples if i not in found or not found[i].serves(tolerance)]
        if missing:
            found |= self._references.solve(missing, tolerance, progress)

    def _with_solutions(
        self, samples: Sequence[int], found: Mapping[int, Reference], accepted: Tensor
    ) -> HeldOut:
        """Draw inputs and lay them beside their references."""
        problem, references = self.problem, [found[i] for i in samples]
        draws = Draws.of(HELD_OUT, self.seed, samples, self.scheme)
        functions = sample_inputs(problem, draws)
        each = [r.points for r in references if r.points is not None]
        points = torch.stack(each) if each else None
        observed = observe(functions, problem, draws, points=points)
        return HeldOut(
            functions,
            observed | observed_at(problem, functions, draws, self.sensors),
            self._references.queries if points is None else Queries(points=points),
            {n: torch.stack([r.values[n] for r in references]) for n in references[0].values},
            torch.tensor([r.error for r in references], dtype=torch.float64),
            accepted,
        )

    def on_usual_grid(self, held_out: HeldOut) -> HeldOut:
        """Keep every k-th time and point of the grid of figures."""
        fine = held_out.queries.axes
        if self.queries is not None or fine is None:
            return held_out
        index = {
            name: (fine[name][:, None] - axis).abs().argmin(0)
            for name, axis in (self._usual().axes or {}).items()
        }
        return held_out.on_part(index)

    @cached_property
    def _references(self) -> References:
        return References(self.problem, self.seed, self.scheme, self.queries or self._fine())

    def on_grids(self, grids: Sequence[Grid]) -> Iterator[HeldOut]:
        """Solve for the same inputs on one grid in space after another; times stay."""
        for grid in grids:
            axes = dict(self._usual().axes or {})
            for axis, count in zip(self.problem.space, grid, strict=True):
                axes[axis.name] = grid_axis(axis.low, axis.high, count, axis.periodic)
            yield replace(self, queries=Queries(axes=axes)).held_out()

    def _usual(self) -> Queries:
        return save_grid(self.problem, GRID_LIMITS[len(self.problem.space)], self.end)

    def _fine(self) -> Queries:
        """Return the grid of figures: in one dimension finer than the usual one and around it."""
        problem = self.problem
        if len(problem.space) != 1:
            return self._usual()
        limits = []
        for i, most in enumerate(FIGURE_LIMITS):
            axis = problem.coordinates[min(i, len(problem.coordinates) - 1)]
            count = problem.save[min(i, len(problem.save) - 1)]
            ends = not axis.periodic  # both ends count, and n intervals have n + 1 points
            usual = min(count, GRID_LIMITS[1][i]) - ends
            factor = max(1, (min(count, most) - ends) // max(usual, 1))
            limits.append(factor * usual + ends)
        return save_grid(problem, (limits[0], limits[1]), self.end)


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

    @property
    def requested(self) -> int:
        """See the base class."""
        return len(self.data)

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
