"""Batches of data: trajectories and points of a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from piop.datasets import AnyDataset, Dataset
from piop.fields import FunctionSamples, InputFunction
from piop.models import Backbone
from piop.problem import Problem
from piop.sampling import Draws
from piop.training.batches.batch import Batch, Observations
from piop.training.batches.equations import (
    EquationSource,
    horizon,
    interpolate_inputs,
    steps_within,
    take_samples,
)
from piop.training.batches.input_grid import Axes, evaluate_on_grids
from piop.training.batches.training_grid import GridLayout, data_indices, lay_out
from piop.training.batches.trajectories import PreparedTrajectories, mean_square, trajectories
from piop.training.config import PointsConfig, TrainingConfig
from piop.training.distributed import Alone, Processes
from piop.training.loss.known_field import KnownField


@final
class TrajectorySource:
    """Draws trajectories of a data set for every step, each with all of its points.

    Data on a grid are compared on their own grid: where the network does not answer there, its
    values are interpolated. Scattered data are given to the network as they are.

    Args:
        problem: The problem.
        data: The trajectories to train on.
        backbone: The network.
        training_grid: Positions along each coordinate of its own grid; None for scattered alone.
        known: What is built in; None for nothing.
        grids: Where the operator sees inputs, in place of sensors.
        config: How many trajectories, which of their points, and the curriculum of a march.
        like: A tensor of the device and precision of the batches.
        processes: Those that share a batch; this one draws its part.
    """

    def __init__(
        self,
        problem: Problem,
        data: AnyDataset,
        backbone: Backbone,
        training_grid: Axes | None,
        known: KnownField | None,
        grids: Mapping[str, Axes],
        config: TrainingConfig,
        like: Tensor,
        processes: Processes | None = None,
    ) -> None:
        self.problem, self.known, self.grids = problem, known, grids
        self.config, self.like = config.points, like
        self.seed, self.count = config.machine.seed, len(data)
        rollout = backbone.field.rollout and config.sampling.horizon < 1
        self.rollout = backbone.fixed_times() if rollout else None
        self.sampling = config.sampling
        self.layout: GridLayout | None = None
        self.chosen: tuple[Tensor, ...] = ()
        self.axes: list[Tensor] = []
        if not data.scattered:
            assert training_grid is not None  # noqa: S101 - only scattered data go without
            self.chosen = data_indices(problem, data, config.points)
            for coordinate, index in zip(problem.coordinates, self.chosen, strict=True):
                self.axes.append(data.axes[coordinate.name].double()[index])
            self.layout = lay_out(backbone, training_grid, self.axes).to(like)
        part = (processes or Alone()).part(config.points.data_functions)
        self.part = slice(part.start, part.stop)
        self.trajectories = trajectories(data, self._hold, lambda s: self._drawn(s)[self.part])

    def _hold(self, data: Dataset) -> PreparedTrajectories:
        """Prepare trajectories, with those of their points that are learnt from."""
        seen = {name: s.to(self.like) for name, s in data.inputs.items()}
        functions = interpolate_needed_inputs(self.problem, self.known, self.grids, seen)
        channels = self.problem.channels
        columns = [data.values[c].double() if c in data.values else None for c in channels]
        shape = next(c for c in columns if c is not None).shape
        missing = torch.full((1,), torch.nan, dtype=torch.float64)
        values = torch.stack([missing.expand(shape) if c is None else c for c in columns], -1)
        lift = None
        if data.points is not None:
            points = data.points.to(self.like)
        else:
            for i, index in enumerate(self.chosen):
                values = values.index_select(i + 1, index)
            points = torch.stack(torch.meshgrid(*self.axes, indexing="ij"), -1)[None]
            points = points.to(self.like).flatten(1, -2)
            if self.known is not None:
                axes = [axis.to(self.like) for axis in self.axes]
                lift = self.known.on_grid(functions, axes)
        values = values.flatten(1, -2).to(self.like)
        inputs = evaluate_on_grids(self.grids, functions, seen)
        return PreparedTrajectories(functions, inputs, points, values, mean_square(values), lift)

    def _drawn(self, step: int) -> Tensor:
        """Trajectories of a step ``[F]``, those of all processes."""
        index = torch.arange(self.config.data_functions)
        draws = Draws(self.seed, step + 1, index, self.like.device)
        return draws.integers("data/trajectory", 0, self.count - 1)

    @torch.no_grad()
    def __call__(self, step: int, share: float) -> Batch:
        """Draw the batch of a step, without equations.

        Args:
            step: Which step.
            share: Share of the budget that is spent, in [0, 1): how far a march is asked for.
        """
        held, chosen = self.trajectories.find(step)
        queries = held.points[chosen] if len(held.points) > 1 else held.points
        reached = self._reached(queries, share)
        targets = held.values[chosen].masked_fill(~reached[..., None], torch.nan)
        at = reached[0].nonzero()[:, 0][None]
        seen = Observations(
            {name: take_samples(s, chosen) for name, s in held.inputs.items()},
            queries,
            self._lift(held, chosen, queries),
            targets,
            held.size[chosen],
            self.trajectories.known(self._drawn(step), at),
            self.layout,
        )
        return Batch(observations=seen)

    def _reached(self, queries: Tensor, share: float) -> Tensor:
        """Mark what lies within the steps in use ``[1 or B, P]``; the first time stays."""
        times = queries[..., 0]
        if self.rollout is None:
            return torch.ones_like(times, dtype=torch.bool)
        steps = steps_within(len(self.rollout) - 1, horizon(share, self.sampling))
        end = max(self.rollout[int(steps.count_nonzero())], float(times.min()))
        return times <= end + 1e-6 * abs(end)

    def _lift(self, held: PreparedTrajectories, chosen: Tensor, queries: Tensor) -> Tensor | None:
        """Values of the lift ``[B, N, C]``; None where nothing is built in."""
        if held.lift is not None:
            rows = held.lift[chosen] if len(held.lift) > 1 else held.lift
            whole = (len(chosen), *(len(axis) for axis in self.axes), rows.shape[-1])
            return rows.expand(whole).flatten(1, -2)
        if self.known is None:
            return None
        taken = {name: held.functions[name].take(chosen) for name in self.known.names}
        return self.known(taken, queries)


class DataPointSource:
    """Draws trajectories of a data set and points of each for every step.

    Args:
        problem: The problem.
        data: The trajectories to train on.
        known: What is built in; None for nothing.
        grids: Where the operator sees inputs, in place of sensors.
        config: How many trajectories and points.
        like: A tensor of the device and precision of the batches.
        seed: Of everything drawn.
        processes: Those that share a batch; this one draws its part.
    """

    def __init__(
        self,
        problem: Problem,
        data: AnyDataset,
        known: KnownField | None,
        grids: Mapping[str, Axes],
        config: PointsConfig,
        like: Tensor,
        seed: int,
        processes: Processes | None = None,
    ) -> None:
        self.problem, self.known, self.grids, self.config = problem, known, grids, config
        self.like, self.seed, self.count = like, seed, len(data)
        part = (processes or Alone()).part(config.data_functions)
        self.part = slice(part.start, part.stop)
        self.trajectories = trajectories(data, self._hold, lambda s: self._chosen(s)[self.part])

    def _hold(self, data: Dataset) -> PreparedTrajectories:
        """Prepare trajectories: ``size`` is that of all points, whichever are drawn."""
        seen = {name: s.to(self.like) for name, s in data.inputs.items()}
        functions = interpolate_needed_inputs(self.problem, self.known, self.grids, seen)
        points, values = _flat(self.problem, data)
        values = values.to(self.like)
        inputs = evaluate_on_grids(self.grids, functions, seen)
        return PreparedTrajectories(
            functions, inputs, points.to(self.like), values, mean_square(values)
        )

    def _draws(self, step: int) -> Draws:
        index = torch.arange(self.config.data_functions)
        return Draws(self.seed, step + 1, index, self.like.device)

    def _chosen(self, step: int) -> Tensor:
        """Trajectories of a step ``[F]``, those of all processes."""
        return self._draws(step).integers("data/trajectory", 0, self.count - 1)

    @torch.no_grad()
    def __call__(self, step: int, share: float) -> Batch:
        """Draw the batch of a step, without equations; the share changes nothing."""
        held, chosen = self.trajectories.find(step)
        last, count = held.values.shape[1] - 1, self.config.data_queries
        at = self._draws(step).integers("data/point", 0, last, count)
        known = self.trajectories.known(self._chosen(step), at)
        at = at[self.part]
        own = held.points.shape[0] > 1
        queries = held.points[chosen[:, None], at] if own else held.points[0][at]
        rows = None
        if self.known is not None:
            taken = {name: held.functions[name].take(chosen) for name in self.known.names}
            rows = self.known(taken, queries)
        inputs = {name: take_samples(s, chosen) for name, s in held.inputs.items()}
        targets = held.values[chosen[:, None], at]
        seen = Observations(inputs, queries, rows, targets, held.size[chosen], known)
        return Batch(observations=seen)


class MixedSource:
    """Equations on functions of the law and data on trajectories, in one batch.

    Args:
        law: Where the equations' part comes from.
        data: Where the data's part comes from.
    """

    def __init__(self, law: EquationSource, data: Callable[[int, float], Batch]) -> None:
        self.law, self.data = law, data

    def __call__(self, step: int, share: float) -> Batch:
        """Draw both parts."""
        seen = self.data(step, share).observations
        return replace(self.law(step, share), observations=seen)


def interpolate_needed_inputs(
    problem: Problem,
    known: KnownField | None,
    grids: Mapping[str, Axes],
    seen: Mapping[str, FunctionSamples],
) -> dict[str, InputFunction]:
    """Interpolate from their sensors the inputs that built-in data or grids need."""
    needed = {*grids, *(known.names if known is not None else ())}
    return interpolate_inputs(problem, {name: seen[name] for name in sorted(needed)})


def _flat(problem: Problem, data: Dataset) -> tuple[Tensor, Tensor]:
    """Points ``[1 or n, P, D]`` and values ``[n, P, C]``, NaN for channels without data."""
    if data.points is not None:
        points = data.points
    else:
        axes = [data.axes[c.name] for c in problem.coordinates]
        points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)[None]
    n, count = len(data), points.shape[1]
    missing = torch.full((1, 1), torch.nan, dtype=torch.float64)
    columns = [
        data.values[c].reshape(n, count).double() if c in data.values else missing.expand(n, count)
        for c in problem.channels
    ]
    # a batch that is read from a file has no time for a copy
    return points, columns[0][..., None] if len(columns) == 1 else torch.stack(columns, -1)
