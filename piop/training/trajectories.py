"""Whole trajectories of a data set, for networks that answer all queries together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from piop.datasets import Dataset
from piop.models import Backbone
from piop.problem import Problem
from piop.sampling import Draws
from piop.training.batch import Batch, Observations
from piop.training.config import TrainingConfig
from piop.training.constraints import KnownField
from piop.training.distributed import Alone, Processes
from piop.training.home import data_indices
from piop.training.horizon import horizon, steps_within
from piop.training.lattice import Axes, on_lattices
from piop.training.layout import Layout, lay
from piop.training.sources import seen_functions, take_samples


@final
class TrajectorySource:
    """Draws trajectories of a data set for every step, each with all of its points.

    Data on a grid are compared on their own grid: where the network does not answer there, its
    values are interpolated. Scattered data are given to the network as they are.

    Args:
        problem: The problem.
        data: The trajectories to train on.
        backbone: The network.
        home: Positions along each coordinate of its own grid; None for scattered data alone.
        known: What is built in; None for nothing.
        grids: Where the operator sees inputs, in place of sensors.
        config: How many trajectories, which of their points, and the curriculum of a march.
        like: A tensor of the device and precision of the batches.
        processes: Those that share a batch; this one draws its part.
    """

    def __init__(
        self,
        problem: Problem,
        data: Dataset,
        backbone: Backbone,
        home: Axes | None,
        known: KnownField | None,
        grids: Mapping[str, Axes],
        config: TrainingConfig,
        like: Tensor,
        processes: Processes | None = None,
    ) -> None:
        self.known, self.config, self.like = known, config.points, like
        self.seed, self.count = config.machine.seed, len(data)
        marches = backbone.field == "march" and config.sampling.horizon < 1
        self.march = backbone.march_times() if marches else None
        self.sampling = config.sampling
        seen = {name: s.to(like) for name, s in data.inputs.items()}
        self.functions = seen_functions(problem, known, grids, seen)
        self.inputs = on_lattices(grids, self.functions, seen)
        self.layout: Layout | None = None
        self.lift: Tensor | None = None
        missing = torch.full((1,), torch.nan, dtype=torch.float64)
        columns = [data.values[c].double() if c in data.values else None for c in problem.channels]
        shape = next(c for c in columns if c is not None).shape
        values = torch.stack([missing.expand(shape) if c is None else c for c in columns], -1)
        if data.points is not None:
            self.points = data.points.to(like)
        else:
            assert home is not None  # noqa: S101 - only scattered data go without
            chosen = data_indices(problem, data, config.points)
            axes = []
            for i, (coordinate, index) in enumerate(zip(problem.coordinates, chosen, strict=True)):
                values = values.index_select(i + 1, index)
                axes.append(data.axes[coordinate.name].double()[index])
            self.layout = lay(backbone, home, axes).to(like)
            self.points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)[None].to(like)
            if known is not None:
                self.lift = known.on_grid(self.functions, [axis.to(like) for axis in axes])
            self.points = self.points.flatten(1, -2)
        self.shape = values.shape[1:]
        self.values = values.flatten(1, -2).to(like)
        self.size = self.values.square().nanmean(1)
        part = (processes or Alone()).part(config.points.data_functions)
        self.part = slice(part.start, part.stop)

    @torch.no_grad()
    def __call__(self, step: int, share: float) -> Batch:
        """Draw the batch of a step, without equations.

        Args:
            step: Which step.
            share: Share of the budget that is spent, in [0, 1): how far a march is asked for.
        """
        index = torch.arange(self.config.data_functions)
        draws = Draws(self.seed, step + 1, index, self.like.device)
        chosen = draws.integers("data/trajectory", 0, self.count - 1)
        targets = self._reached(self.values[chosen], share)
        known = targets.isfinite().sum()
        chosen, targets = chosen[self.part], targets[self.part]
        queries = self.points[chosen] if len(self.points) > 1 else self.points
        inputs = {name: take_samples(s, chosen) for name, s in self.inputs.items()}
        seen = Observations(
            inputs,
            queries,
            self._lift(chosen, queries),
            targets,
            self.size[chosen],
            known,
            self.layout,
        )
        return Batch(observations=seen)

    def _reached(self, targets: Tensor, share: float) -> Tensor:
        """Leave out, as not measured, what lies beyond the steps in use; the first time stays."""
        if self.march is None:
            return targets
        steps = steps_within(len(self.march) - 1, horizon(share, self.sampling))
        times = self.points[..., 0]
        end = max(self.march[int(steps.count_nonzero())], float(times.min()))
        return targets.masked_fill((times > end + 1e-6 * abs(end))[..., None], torch.nan)

    def _lift(self, chosen: Tensor, queries: Tensor) -> Tensor | None:
        """Values of the lift ``[B, N, C]``; None where nothing is built in."""
        if self.lift is not None:
            rows = self.lift[chosen] if len(self.lift) > 1 else self.lift
            return rows.expand(len(chosen), *self.shape).flatten(1, -2)
        if self.known is None:
            return None
        taken = {name: self.functions[name].take(chosen) for name in self.known.names}
        return self.known(taken, queries)
