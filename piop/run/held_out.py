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
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.problem.inputs import history_of, query_coordinates
from piop.run.data import input_digests
from piop.run.references import Progress
from piop.sampling import Draws, place_sensors
from piop.spec.model import SensorPlacement

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
        return HeldOut(
            {name: function.take(index) for name, function in self.functions.items()},
            {name: samples.take(index) for name, samples in self.inputs.items()},
            self.queries.take(index),
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


class Judge(ABC):
    """What is judged on held-out samples: it predicts their solutions."""

    @abstractmethod
    def predict(self, held_out: HeldOut) -> Mapping[str, Tensor]:
        """Predict the solutions of samples: channel → ``[B, *queries.shape]``."""

    @abstractmethod
    def errors(self, held_out: HeldOut, prediction: Mapping[str, Tensor]) -> Tensor:
        """Return the error of the prediction of each sample ``[B]``; NaN where undefined."""


@dataclass(frozen=True)
class JudgedSamples:
    """Held-out samples, and the prediction of each, which is made once.

    Attributes:
        fine: The samples on the grid of figures.
        held_out: The same on the usual grid.
        prediction: Channel → ``[B, *queries.shape]``, on the usual grid.
        failed: Input that has no reference → what the solver says.
    """

    fine: HeldOut
    held_out: HeldOut
    prediction: Mapping[str, Tensor]
    failed: Mapping[int, str] = field(default_factory=dict)

    @property
    def warnings(self) -> list[str]:
        """One that says which references failed, if some did."""
        if not self.failed:
            return []
        first, count = next(iter(self.failed.values())), len(self.failed)
        total = count + len(self.held_out.accepted)
        return [f"the references of {count} of {total} inputs failed; they are left out ({first})"]

    def take(self, index: Tensor) -> JudgedSamples:
        """Return the samples of these numbers."""
        fine = self.fine.take(index)
        held_out = fine if self.held_out is self.fine else self.held_out.take(index)
        prediction = {name: values[index] for name, values in self.prediction.items()}
        return JudgedSamples(fine, held_out, prediction, self.failed)

    def fine_prediction(self, judge: Judge) -> Mapping[str, Tensor]:
        """Return predictions on the grid of figures, made anew where it is not the usual one."""
        return self.prediction if self.fine is self.held_out else judge.predict(self.fine)


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
        judge: Judge,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> JudgedSamples:
        """Return samples that are exact enough to judge an operator by, with its predictions.

        Args:
            judge: The operator.
            seconds: Time that references and predictions may take; None for all.
            progress: Takes how many references are solved.

        Raises:
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        held_out = self.held_out()
        return JudgedSamples(held_out, held_out, judge.predict(held_out))

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
