"""Batches of data: trajectories of a data set, in memory or read from a file, and their points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import final

import torch
from torch import Tensor

from piop.datasets import AnyDataset, Dataset
from piop.fields import InputFunction, tensor_grid
from piop.models import Backbone
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.residual import KnownField
from piop.sampling import Draws
from piop.training.batches.batch import Batch, BatchSetting, BatchSource, Observations
from piop.training.batches.equations import horizon, steps_within
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.batches.input_grid import Axes, evaluate_on_grids
from piop.training.batches.training_grid import GridLayout, data_indices, lay_out
from piop.training.loss.known_functions import Functions

AHEAD = 3
"""Batches that are read while others are learnt from."""


@dataclass(frozen=True)
class PreparedTrajectories:
    """Trajectories as tensors.

    Attributes:
        functions: Interpolants of the inputs that something is built from.
        inputs: What the operator sees of the inputs.
        points: Where the values are ``[1 or n, P, D]``.
        values: Values ``[n, P, C]``, NaN for channels without data.
        size: Mean square of each trajectory's channels ``[n, C]``.
        lift: What hard constraints add ``[1 or n, ..., C]``, where known on the grid of the values.
    """

    functions: Functions
    inputs: Inputs
    points: Tensor
    values: Tensor
    size: Tensor
    lift: Tensor | None = None


def mean_square(values: Tensor) -> Tensor:
    """Mean square of each channel of ``[n, P, C]`` where it has values: ``[n, C]``."""
    found = values.square().mean(1)  # nanmean takes eight times as long
    return found if bool(found.isfinite().all()) else values.square().nanmean(1)


class Trajectories(ABC):
    """The trajectories that steps are trained on."""

    @abstractmethod
    def find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        """Return trajectories, and which of them are those of the step ``[B]``."""

    @abstractmethod
    def known(self, chosen: Tensor, at: Tensor) -> Tensor:
        """Count the values that trajectories ``[F]`` have at points ``[F or 1, Q]`` of them."""


@final
@dataclass(frozen=True)
class InMemoryTrajectories(Trajectories):
    """All trajectories at once.

    Attributes:
        prepared: The trajectories.
        plan: Which trajectories a step takes.
    """

    prepared: PreparedTrajectories
    plan: Callable[[int], Tensor]

    def find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        """Return all trajectories, and which of them are those of the step."""
        return self.prepared, self.plan(step)

    def known(self, chosen: Tensor, at: Tensor) -> Tensor:
        """Count the values that are finite."""
        return self.prepared.values[chosen[:, None], at].isfinite().sum()


@final
@dataclass
class StreamedTrajectories(Trajectories):
    """Reads the trajectories of each step, and those of the next ones ahead of time.

    What a step takes follows from its number alone, so that nothing depends on when it is read.

    Attributes:
        read: Reads trajectories.
        plan: Which trajectories a step takes.
        channels: Channels that the data have; their values are finite.
        reader: The thread that reads.
        coming: The trajectories of steps that are read ahead.
    """

    read: Callable[[Tensor], PreparedTrajectories]
    plan: Callable[[int], Tensor]
    channels: int
    reader: Executor = field(default_factory=partial(ThreadPoolExecutor, 1, "piop-data"))
    coming: dict[int, Future[tuple[PreparedTrajectories, Tensor]]] = field(default_factory=dict)

    def find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        """Read the trajectories of the step, unless they were read ahead."""
        self.coming = {s: f for s, f in self.coming.items() if s >= step or not f.cancel()}
        for s in range(step, step + 1 + AHEAD):
            if s not in self.coming:
                self.coming[s] = self.reader.submit(self._find, s)
        return self.coming.pop(step).result()

    def known(self, chosen: Tensor, at: Tensor) -> Tensor:
        """Count all values: whoever read the file has seen that they are finite."""
        return torch.tensor(len(chosen) * at.shape[1] * self.channels, device=chosen.device)

    @torch.no_grad()
    def _find(self, step: int) -> tuple[PreparedTrajectories, Tensor]:
        chosen = self.plan(step)
        return self.read(chosen), torch.arange(len(chosen), device=chosen.device)


class DatasetSource(BatchSource):
    """Draws trajectories of a data set for every step.

    Args:
        setting: What all sources share.
        data: The trajectories to train on.
        chosen: Indices along each axis of the points to train on; empty for all.
        axes: Positions along each coordinate of those points; empty for scattered data.
    """

    def __init__(
        self,
        setting: BatchSetting,
        data: AnyDataset,
        chosen: Sequence[Tensor] = (),
        axes: Sequence[Tensor] = (),
    ) -> None:
        self.setting, self.config, self.like = setting, setting.config.points, setting.like
        self.count, self.chosen, self.axes = len(data), tuple(chosen), tuple(axes)
        own = setting.processes.part(self.config.data_functions)
        self.part = slice(own.start, own.stop)
        if isinstance(data, Dataset):
            self.trajectories: Trajectories = InMemoryTrajectories(self._prepare(data), self._plan)
        else:
            self.trajectories = StreamedTrajectories(
                lambda chosen: self._prepare(data.take(chosen)), self._plan, len(data.channels)
            )

    def _prepare(self, data: Dataset) -> PreparedTrajectories:
        """Prepare trajectories, with those of their points that are trained on."""
        problem, grids = self.setting.problem, self.setting.grids
        observed = {name: s.to(self.like) for name, s in data.inputs.items()}
        functions = interpolate_needed_inputs(problem, self.setting.known, grids, observed)
        values = _stack_channels(problem, data)
        if data.points is not None:
            points = data.points
        else:
            for i, index in enumerate(self.chosen):
                values = values.index_select(i + 1, index)
            points = tensor_grid(self.axes)[None]
        values = values.flatten(1, -2).to(self.like)
        inputs = evaluate_on_grids(grids, functions, observed)
        size, lift = mean_square(values), self._grid_lift(functions)
        return PreparedTrajectories(functions, inputs, points.to(self.like), values, size, lift)

    @abstractmethod
    def _grid_lift(self, functions: Functions) -> Tensor | None:
        """Evaluate the lift on the grid of the data; None where it is evaluated at points."""

    def _draws(self, step: int) -> Draws:
        return self.setting.draws(step, range(self.config.data_functions))

    def _drawn(self, step: int) -> Tensor:
        """Return the trajectories of a step ``[F]``, of all processes."""
        return self._draws(step).integers("data/trajectory", 0, self.count - 1)

    def _plan(self, step: int) -> Tensor:
        return self._drawn(step)[self.part]

    def _point_lift(
        self, prepared: PreparedTrajectories, chosen: Tensor, queries: Tensor
    ) -> Tensor | None:
        """Evaluate the lift at points ``[B, N, C]``; None without hard constraints."""
        if (known := self.setting.known) is None:
            return None
        return known({n: prepared.functions[n].take(chosen) for n in known.names}, queries)


@final
class DataPointSource(DatasetSource):
    """Draws trajectories of a data set, and points of each, for every step.

    Args:
        setting: What all sources share.
        data: The trajectories to train on.
    """

    def __init__(self, setting: BatchSetting, data: AnyDataset) -> None:
        axes = () if data.scattered else [data.axes[c.name] for c in setting.problem.coordinates]
        super().__init__(setting, data, axes=axes)

    def _grid_lift(self, functions: Functions) -> Tensor | None:
        return None

    @torch.no_grad()
    def __call__(self, step: int, fraction: float) -> Batch:
        """Draw the batch of a step, without equations; the fraction changes nothing."""
        prepared, chosen = self.trajectories.find(step)
        last, count = prepared.values.shape[1] - 1, self.config.data_queries
        at = self._draws(step).integers("data/point", 0, last, count)
        known = self.trajectories.known(self._drawn(step), at)
        at = at[self.part]
        own = prepared.points.shape[0] > 1
        queries = prepared.points[chosen[:, None], at] if own else prepared.points[0][at]
        return Batch(
            observations=Observations(
                {name: s.take(chosen) for name, s in prepared.inputs.items()},
                queries,
                self._point_lift(prepared, chosen, queries),
                prepared.values[chosen[:, None], at],
                prepared.size[chosen],
                known,
            )
        )


@final
class TrajectorySource(DatasetSource):
    """Draws trajectories of a data set for every step, each with all of its points.

    Data on a grid are compared on their own grid: where the network is not evaluated there, its
    values are interpolated. Scattered data are given to the network as they are.

    Args:
        setting: What all sources share; of the config the curriculum of a rollout as well.
        data: The trajectories to train on.
        backbone: The network.
        training_grid: Positions along each coordinate of its own grid; None for scattered data.
    """

    def __init__(
        self,
        setting: BatchSetting,
        data: AnyDataset,
        backbone: Backbone,
        training_grid: Axes | None,
    ) -> None:
        sampling, problem = setting.config.sampling, setting.problem
        rollout = backbone.field.rollout and sampling.horizon < 1
        self.rollout, self.sampling = backbone.fixed_times() if rollout else None, sampling
        self.layout: GridLayout | None = None
        chosen: Sequence[Tensor] = ()
        axes: Sequence[Tensor] = ()
        if training_grid is not None and not data.scattered:
            chosen, names = data_indices(problem, data, setting.config.points), problem.coordinates
            axes = [data.axes[c.name].double()[i] for c, i in zip(names, chosen, strict=True)]
            self.layout = lay_out(backbone, training_grid, axes).to(setting.like)
        super().__init__(setting, data, chosen, axes)

    def _grid_lift(self, functions: Functions) -> Tensor | None:
        if self.setting.known is None or not self.axes:
            return None
        return self.setting.known.on_grid(functions, [axis.to(self.like) for axis in self.axes])

    @torch.no_grad()
    def __call__(self, step: int, fraction: float) -> Batch:
        """Draw the batch of a step, without equations.

        Args:
            step: Number of the step.
            fraction: Fraction of the budget that is spent, which sets the horizon of a rollout.
        """
        prepared, chosen = self.trajectories.find(step)
        queries = prepared.points[chosen] if len(prepared.points) > 1 else prepared.points
        reached = self._within_horizon(queries, fraction)
        at = reached[0].nonzero()[:, 0][None]
        return Batch(
            observations=Observations(
                {name: s.take(chosen) for name, s in prepared.inputs.items()},
                queries,
                self._lift(prepared, chosen, queries),
                prepared.values[chosen].masked_fill(~reached[..., None], torch.nan),
                prepared.size[chosen],
                self.trajectories.known(self._drawn(step), at),
                self.layout,
            )
        )

    def _within_horizon(self, queries: Tensor, fraction: float) -> Tensor:
        """Mark the points of the steps in use ``[1 or B, P]``; the first time stays."""
        times = queries[..., 0]
        if self.rollout is None:
            return torch.ones_like(times, dtype=torch.bool)
        steps = steps_within(len(self.rollout) - 1, horizon(fraction, self.sampling))
        end = max(self.rollout[int(steps.count_nonzero())], float(times.min()))
        return times <= end + 1e-6 * abs(end)

    def _lift(
        self, prepared: PreparedTrajectories, chosen: Tensor, queries: Tensor
    ) -> Tensor | None:
        """Return values of the lift ``[B, N, C]``; None without hard constraints."""
        if prepared.lift is None:
            return self._point_lift(prepared, chosen, queries)
        rows = prepared.lift[chosen] if len(prepared.lift) > 1 else prepared.lift
        whole = (len(chosen), *(len(axis) for axis in self.axes), rows.shape[-1])
        return rows.expand(whole).flatten(1, -2)


def interpolate_needed_inputs(
    problem: Problem, known: KnownField | None, grids: Mapping[str, Axes], observed: Inputs
) -> dict[str, InputFunction]:
    """Interpolate from their sensors the inputs that hard constraints or grids need."""
    needed = {*grids, *(known.names if known is not None else ())}
    return interpolate_inputs(problem, {name: observed[name] for name in sorted(needed)})


def _stack_channels(problem: Problem, data: Dataset) -> Tensor:
    """Return values ``[n, …, C]``, NaN for channels without data."""
    shape = next(iter(data.values.values())).shape
    missing = torch.full((1,), torch.nan, dtype=torch.float64).expand(shape)
    found = [data.values[c].double() if c in data.values else missing for c in problem.channels]
    # a batch that is read from a file has no time for a copy
    return found[0][..., None] if len(found) == 1 else torch.stack(found, -1)
