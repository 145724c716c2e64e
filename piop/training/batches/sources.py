"""Where batches come from: the law of the inputs, a data set, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from piop.datasets import AnyDataset, Dataset
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.residual import GridResidual, Residual, compile_residual
from piop.sampling import Draws, collocation
from piop.sampling.collocation import choose_by_density, residual_density
from piop.training.batches.batch import Batch, CollocationPoints, Observations
from piop.training.batches.curriculum import horizon, steps_within, within_horizon
from piop.training.batches.functions import FunctionSource, OfLaw, interpolated, take_samples
from piop.training.batches.lattice import Axes, on_lattices
from piop.training.batches.prepared import PreparedTrajectories, mean_square, trajectories
from piop.training.config import PointsConfig, TrainingConfig
from piop.training.distributed import Alone, Processes
from piop.training.loss.constraints import KnownField
from piop.training.loss.objective import ResidualLoss
from piop.training.statistics import FunctionSize, Statistics
from piop.training.weighting.tangent_kernel import EQUATIONS

SIZE_POINTS = 256
"""Points at which a function is measured where those of the equations are a grid."""


class LawSource:
    """Draws fresh functions of the law and fresh points for every step.

    Args:
        problem: The problem.
        loss: Whose terms the points are for.
        statistics: Sizes under the law.
        grids: Where the operator sees inputs, in place of sensors.
        config: How many functions and points, how they are placed, and the seed.
        like: A tensor of the device and precision of the batches.
        processes: Those that share a batch; this one draws its part.
        functions: Which functions a step looks at; by default those of the law.
    """

    def __init__(
        self,
        problem: Problem,
        loss: ResidualLoss,
        statistics: Statistics,
        grids: Mapping[str, Axes],
        config: TrainingConfig,
        like: Tensor,
        processes: Processes | None = None,
        functions: FunctionSource | None = None,
    ) -> None:
        if loss.residual is None:
            raise ValueError("the law gives points for the equations, and this loss has none")
        self.problem, self.loss, self.residual = problem, loss, loss.residual
        self.fixed = isinstance(loss.residual, GridResidual)
        self.functions = functions or OfLaw(problem)
        start = problem.at()
        own = self.fixed or problem.infer  # at points, and where parameters start from
        points = compile_residual(start) if own else loss.residual
        self.size = FunctionSize(start, points, statistics)  # type: ignore[arg-type]
        self.grids, self.config, self.like = grids, config.points, like
        self.sampling, self.seed = config.sampling, config.machine.seed
        self.adaptive = self.config.method == "residual_adaptive"
        self.part = (processes or Alone()).part(self.config.functions)

    @torch.no_grad()
    def __call__(self, step: int, share: float) -> Batch:
        """Draw the batch of a step; step 0 of the generator is kept for fixed sets.

        Points that follow the residual depend on the present weights of the operator as well.

        Args:
            step: Which step.
            share: Share of the budget that is spent, in [0, 1).
        """
        index = torch.arange(self.part.start, self.part.stop)
        draws = Draws(self.seed, step + 1, index, self.like.device)
        functions, seen = self.functions(draws, self.like.dtype)
        places = draws
        if self.config.shared:  # the points of sample 0, on every process
            places = replace(draws, index=torch.zeros(1, dtype=torch.int64))
        part = horizon(share, self.sampling)
        queries = self._place(places)
        if not self.fixed:
            queries = within_horizon(self.problem, queries, part)
        equations = self._points(EQUATIONS, self.residual, functions, queries)
        equations = replace(equations, weight=self._reached(part))
        conditions = {}
        for name, condition in self.loss.conditions.items():
            queries = condition.place(places, self.config.boundary)
            if not self.fixed:
                queries = within_horizon(self.problem, queries, part)
            known = condition.known(functions)
            conditions[name] = self._points(name, condition.residual, known, queries)
        batch = Batch(
            inputs=on_lattices(self.grids, functions, seen),
            size=self.size(functions, self._size_points(draws, equations.queries)),
            equations=equations,
            conditions=conditions,
            share=len(self.part) / self.config.functions,
        )
        return self._chosen(batch, equations, draws) if self.adaptive else batch

    def _size_points(self, draws: Draws, queries: Tensor) -> Tensor:
        """Choose the points at which the functions are measured."""
        if not self.fixed:
            return queries
        return collocation(self.problem, draws, SIZE_POINTS).to(self.like)

    def _place(self, draws: Draws) -> Tensor:
        """Place collocation points, or the candidates for them; a grid stays where it is."""
        if isinstance(self.residual, GridResidual):
            return self.residual.places
        if self.adaptive:
            count = self.config.queries * self.sampling.candidates
            return collocation(self.problem, draws, count)
        return collocation(self.problem, draws, self.config.queries, self.config.method)

    def _reached(self, part: float) -> Tensor | None:
        """Weigh the places of a march, ``[1, N]``: both ends of the steps within the horizon."""
        if not isinstance(self.residual, GridResidual) or self.sampling.horizon == 1:
            return None
        grid = self.residual.grid
        assert grid.time is not None  # noqa: S101 - only problems in time have a curriculum
        steps = steps_within(grid.shape[grid.time] - 1, part).to(self.like)
        each = self.residual.places.shape[1] // (2 * len(steps))
        return steps.repeat(2).repeat_interleave(each)[None]

    def _chosen(self, batch: Batch, candidates: CollocationPoints, draws: Draws) -> Batch:
        """Keep the candidates that are chosen by the residual as the loss counts it."""
        sizes = self.loss.misfits(batch, candidates).squares.sqrt()
        density = residual_density(sizes, self.sampling.power, self.sampling.floor)
        chosen = choose_by_density(draws, "collocation/chosen", density, self.config.queries)
        return replace(batch, equations=candidates.take(chosen))

    def _points(
        self,
        term: str,
        residual: Residual | GridResidual,
        functions: Mapping[str, InputFunction],
        queries: Tensor,
    ) -> CollocationPoints:
        queries = queries.to(self.like)
        lift = self.loss.lifts.get(term)
        rows = None if lift is None else lift(functions, queries)
        return CollocationPoints(queries, residual.evaluate_inputs(functions, queries), rows)


class DataSource:
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
        functions = seen_functions(self.problem, self.known, self.grids, seen)
        points, values = _flat(self.problem, data)
        values = values.to(self.like)
        inputs = on_lattices(self.grids, functions, seen)
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

    def __init__(self, law: LawSource, data: Callable[[int, float], Batch]) -> None:
        self.law, self.data = law, data

    def __call__(self, step: int, share: float) -> Batch:
        """Draw both parts."""
        seen = self.data(step, share).observations
        return replace(self.law(step, share), observations=seen)


def seen_functions(
    problem: Problem,
    known: KnownField | None,
    grids: Mapping[str, Axes],
    seen: Mapping[str, FunctionSamples],
) -> dict[str, InputFunction]:
    """Interpolate from their sensors the inputs that built-in data or grids need."""
    needed = {*grids, *(known.names if known is not None else ())}
    return interpolated(problem, {name: seen[name] for name in sorted(needed)})


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
