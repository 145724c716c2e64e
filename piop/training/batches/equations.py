"""Batches for the equations: input functions and collocation points."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from piop.problem import Problem
from piop.residual import Residual, compile_residual
from piop.sampling import Draws, collocation
from piop.sampling.collocation import choose_by_density, residual_density
from piop.training.batches.batch import Batch, BatchSetting, BatchSource, CollocationPoints
from piop.training.batches.function_sources import FunctionSource
from piop.training.batches.input_grid import evaluate_on_grids
from piop.training.config import SamplingConfig
from piop.training.loss.known_functions import Functions
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.statistics import FunctionSize, Statistics
from piop.training.loss.weighting.tangent_kernel import EQUATIONS


def horizon(fraction: float, config: SamplingConfig) -> float:
    """Give the part of the time axis in use, h + (1 − h)·min(s/s₁, 1), in (0, 1].

    Args:
        fraction: s, fraction of the budget that is spent.
        config: h, where it begins, and s₁, when all of it is in use.

    Source: Krishnapriyan, Gholami, Zhe, Kirby & Mahoney 2021 (2109.01050), sequence-to-sequence
        learning: a problem in time is learnt one piece after the other. They train each piece from
        the end of the last; here one operator keeps all times before the horizon in its batches.
    """
    grown = min(fraction / config.horizon_until, 1.0)
    return config.horizon + (1 - config.horizon) * grown


def within_horizon(problem: Problem, queries: Tensor, part: float) -> Tensor:
    """Bring the times of ``queries [B, N, D]`` into the first part of the axis, in proportion."""
    time = problem.time
    if time is None or part == 1:
        return queries
    shrunk = queries.clone()
    shrunk[..., 0] = time.low + part * (queries[..., 0] - time.low)
    return shrunk


def steps_within(steps: int, part: float) -> Tensor:
    """Weigh the steps of a rollout: equally within the horizon, later ones not at all.

    A step of a rollout depends on none after it, so these weights give the gradients of a rollout
    that ends at the horizon, with a batch whose shapes stay.

    Args:
        steps: K, over the whole time axis.
        part: The part of it in use, in (0, 1].

    Returns:
        ``[K]`` float64, of mean one.

    Source: the curriculum of Li, Meidani & Barati Farimani 2023 (2205.13671), appendix A, which
        truncates the rollouts of the first part of training to about half.

    Example:
        >>> steps_within(4, 0.5).tolist()
        [2.0, 2.0, 0.0, 0.0]
    """
    count = max(1, math.ceil(part * steps - 1e-9))  # rounding must not add a step
    within = torch.arange(steps) < count
    return within.double() * (steps / count)


AMPLITUDE_POINTS = 256
"""Points at which the amplitude of a function is measured where the equations are on a grid."""


@final
class EquationSource(BatchSource):
    """Draws input functions and collocation points for every step.

    Args:
        setting: What all sources share.
        loss: The loss, whose terms the points are for.
        statistics: Typical sizes under the distribution of the inputs.
        functions: Source of the functions.
    """

    def __init__(
        self,
        setting: BatchSetting,
        loss: ResidualLoss,
        statistics: Statistics,
        functions: FunctionSource,
    ) -> None:
        if loss.residual is None:
            raise ValueError("points are for the equations, and this loss has none")
        self.setting, self.problem, self.like = setting, setting.problem, setting.like
        self.config, self.sampling = setting.config.points, setting.config.sampling
        self.loss, self.residual = loss, loss.residual
        self.fixed = not loss.residual.anywhere
        self.functions = self.inner = functions
        start = self.problem.at()
        own = self.fixed or self.problem.infer  # at points, and where parameters start from
        own = own or loss.operator.potential is not None  # of the unknowns themselves
        points = compile_residual(start) if own else loss.residual
        self.amplitude = FunctionSize(start, points, statistics)
        self.part = setting.processes.part(self.config.functions)

    @property
    def depends_on_step_alone(self) -> bool:
        """Whether a batch depends on its step alone, and has its points for itself.

        Neither on weights, nor on earlier batches, nor on how much of the budget is spent.
        """
        alike = self.config.shared or self.residual.same_points
        follow = self.config.adaptive or self.sampling.horizon < 1
        return self.functions.depends_on_draws_alone and not (alike or follow)

    def __call__(self, step: int, fraction: float) -> Batch:
        """See the base class.

        Points that follow the residual depend on the present weights of the operator as well.
        """
        return self._drawn(self.setting.draws(step, self.part), fraction)

    def of_steps(self, steps: range, fraction: float) -> Batch:
        """Draw the batches of several steps as one, that of the first step first."""
        return self._drawn(self.setting.draws_of_steps(steps, self.part), fraction)

    @torch.no_grad()
    def _drawn(self, draws: Draws, fraction: float) -> Batch:
        functions, observed = self.functions(draws, self.like.dtype, fraction)
        shared = draws
        if self.config.shared:  # the points of sample 0, on every process
            shared = replace(draws, index=draws.index.new_zeros(1))
        placed = shared
        if self.residual.same_points:  # those of sample 0 too, whatever functions this process has
            placed = replace(draws, index=torch.zeros_like(draws.index))
        part = horizon(fraction, self.sampling)
        equations = self._points(EQUATIONS, self.residual, functions, self._place(placed), part)
        weight = self._step_weights(part, equations.queries.shape[1])
        equations = replace(equations, weight=weight)
        conditions = {}
        for name, condition in self.loss.conditions.items():
            queries = condition.place(shared, self.config.boundary)
            known = condition.known(functions)
            conditions[name] = self._points(name, condition.residual, known, queries, part)
        sized = equations.queries
        if self.fixed:
            sized = collocation(self.problem, draws, AMPLITUDE_POINTS).to(self.like)
        batch = Batch(
            inputs=evaluate_on_grids(self.setting.grids, functions, observed),
            size=self.amplitude(functions, sized),
            equations=equations,
            conditions=conditions,
            fraction=len(self.part) / self.config.functions,
        )
        return self._choose_points(batch, equations, draws) if self.config.adaptive else batch

    def _place(self, draws: Draws) -> Tensor:
        """Place collocation points, or the candidates for them; a grid keeps its points."""
        count, method = self.config.queries, self.config.method
        if self.config.adaptive:
            count, method = count * self.sampling.candidates, "uniform"
        return self.residual.place(lambda: collocation(self.problem, draws, count, method))

    def _step_weights(self, part: float, points: int) -> Tensor | None:
        """Weigh the points of a rollout, ``[1, N]``: both ends of the steps within the horizon."""
        grid = self.residual.grid
        if grid is None or self.sampling.horizon == 1:
            return None
        steps = steps_within(grid.shape[grid.time_axis] - 1, part).to(self.like)
        each = points // (2 * len(steps))
        return steps.repeat(2).repeat_interleave(each)[None]

    def _choose_points(self, batch: Batch, candidates: CollocationPoints, draws: Draws) -> Batch:
        """Keep the candidates that are chosen by the residual as the loss counts it."""
        sizes = self.loss.misfits(batch, candidates).squares.sqrt()
        density = residual_density(sizes, self.sampling.power, self.sampling.floor)
        chosen = choose_by_density(draws, "collocation/chosen", density, self.config.queries)
        return replace(batch, equations=candidates.take(chosen))

    def _points(
        self, term: str, residual: Residual, functions: Functions, queries: Tensor, part: float
    ) -> CollocationPoints:
        """Evaluate what a term needs at points, moved into a part of the time axis."""
        queries = queries if self.fixed else within_horizon(self.problem, queries, part)
        queries = queries.to(self.like)
        lift = self.loss.lifts.get(term)
        rows = None if lift is None else lift(functions, queries)
        return CollocationPoints(queries, residual.evaluate_inputs(functions, queries), rows)
