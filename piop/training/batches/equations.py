"""Batches for the equations: input functions and collocation points."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol, final

import torch
from torch import Tensor

from piop.datasets import AnyDataset, Dataset
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.residual import Residual, compile_residual
from piop.sampling import Draws, InputSampler, collocation, observe, reconstruct
from piop.sampling.collocation import choose_by_density, residual_density
from piop.training.batches.batch import Batch, CollocationPoints
from piop.training.batches.input_grid import Axes, evaluate_on_grids
from piop.training.config import SamplingConfig, TrainingConfig
from piop.training.distributed import Alone, Processes
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.statistics import FunctionSize, Statistics
from piop.training.loss.weighting.tangent_kernel import EQUATIONS


def horizon(share: float, config: SamplingConfig) -> float:
    """Give the part of the time axis in use, h + (1 − h)·min(s/s₁, 1), in (0, 1].

    Args:
        share: s, share of the budget that is spent.
        config: h, where it begins, and s₁, when all of it is in use.

    Source: Krishnapriyan, Gholami, Zhe, Kirby & Mahoney 2021 (2109.01050), sequence-to-sequence
        learning: a problem in time is learnt one piece after the other. They train each piece from
        the end of the last; here one operator keeps all times before the horizon in its batches.
    """
    grown = min(share / config.horizon_until, 1.0)
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
    """Weigh the steps of a march: those that begin within the horizon alike, later ones not at all.

    A step of a march depends on none after it, so these weights give the gradients of a rollout
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


Functions = tuple[Mapping[str, InputFunction], Mapping[str, FunctionSamples]]
"""Functions by name, and what sensors see of them."""


class FunctionSource(Protocol):
    """Gives the functions of a step."""

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Give ``draws.batch`` of them on the device of the draws."""
        ...


@final
class DistributionFunctions:
    """Fresh functions of the law.

    Args:
        problem: Whose inputs they are.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.sample = problem, InputSampler(problem)

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Draw functions, and observe them where the spec says."""
        functions = self.sample(draws, dtype)
        return functions, observe(functions, self.problem, draws, dtype)


@final
class DatasetFunctions:
    """Functions of the samples of a data set, as far as their sensors tell them.

    Args:
        problem: Whose inputs they are.
        data: The data set.
    """

    def __init__(self, problem: Problem, data: AnyDataset) -> None:
        self.problem, self.data = problem, data
        self.all: dict[str, InputFunction] | None = None
        if isinstance(data, Dataset):
            self.all = interpolate_inputs(problem, data.inputs)

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Choose samples, and interpolate their inputs from the sensors."""
        chosen = draws.integers("equations/sample", 0, len(self.data) - 1).cpu()
        if self.all is None:
            seen = self.data.take(chosen).inputs
            functions = interpolate_inputs(self.problem, seen)
        else:
            assert isinstance(self.data, Dataset)  # noqa: S101 - else nothing is held
            seen = {n: take_samples(s, chosen) for n, s in self.data.inputs.items()}
            functions = {name: f.take(chosen) for name, f in self.all.items()}
        device = draws.index.device
        return (
            {name: f.to(device, dtype) for name, f in functions.items()},
            {name: s.to(device, dtype) for name, s in seen.items()},
        )


@final
class AlternatingFunctions:
    """Functions of the law at odd steps, those of the data at even ones.

    Parameters are learned from what equations and data say of the same solutions, the operator from
    what the equations say of any.

    Args:
        data: The ones.
        law: The others.
    """

    def __init__(self, data: FunctionSource, law: FunctionSource) -> None:
        self.data, self.law = data, law

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Give those of the step."""
        return (self.law if draws.step % 2 else self.data)(draws, dtype)


def choose_function_source(
    problem: Problem, data: AnyDataset | None, grids: Collection[str]
) -> FunctionSource:
    """Choose what the equations are asked of.

    The law, unless there are parameters to infer: they want functions of the data too, whose
    solutions are known. Where sensors of the data differ in number from those of the spec, so that
    a batch has another shape, functions of the data alone; where the equations hold hidden inputs,
    which no data tell, functions of the law alone.

    Args:
        problem: The problem.
        data: What is trained on; None for the law alone.
        grids: Inputs that are seen on even grids, wherever their sensors are.
    """
    law = DistributionFunctions(problem)
    if not problem.infer or data is None or not problem.visible_inputs:
        return law
    initial = [e for entries in problem.initial.values() for e in entries]
    faces = [e for found in problem.boundary.values() for c in found for e in c.values]
    hidden = [item.symbol for item in problem.inputs if item.hidden]
    if any(e.has(*hidden) for e in (*problem.residuals, *initial, *faces) if hidden):
        return law
    own = DatasetFunctions(problem, data)
    for item in problem.visible_inputs:
        samples = next(iter(data.sensor_chunks(item.name)))
        same = samples.mask is None and samples.points.shape[1] == math.prod(item.sensor_shape)
        if item.name not in grids and not same:
            return own
    return AlternatingFunctions(own, law)


def interpolate_inputs(
    problem: Problem, seen: Mapping[str, FunctionSamples]
) -> dict[str, InputFunction]:
    """Interpolate every visible input from its sensors."""
    by_name = {item.name: item for item in problem.visible_inputs}
    return {name: reconstruct(problem, by_name[name], s) for name, s in seen.items()}


def take_samples(samples: FunctionSamples, index: torch.Tensor) -> FunctionSamples:
    """Keep the samples of some functions."""
    mask = None if samples.mask is None else samples.mask[index]
    return FunctionSamples(samples.points[index], samples.values[index], mask)


AMPLITUDE_POINTS = 256
"""Points at which a function is measured where those of the equations are a grid."""


class EquationSource:
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
        self.fixed = loss.residual.grid is not None
        self.functions = functions or DistributionFunctions(problem)
        start = problem.at()
        own = self.fixed or problem.infer  # at points, and where parameters start from
        points = compile_residual(start) if own else loss.residual
        self.size = FunctionSize(start, points, statistics)
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
        equations = replace(equations, weight=self._reached(part, equations.queries.shape[1]))
        conditions = {}
        for name, condition in self.loss.conditions.items():
            queries = condition.place(places, self.config.boundary)
            if not self.fixed:
                queries = within_horizon(self.problem, queries, part)
            known = condition.known(functions)
            conditions[name] = self._points(name, condition.residual, known, queries)
        batch = Batch(
            inputs=evaluate_on_grids(self.grids, functions, seen),
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
        return collocation(self.problem, draws, AMPLITUDE_POINTS).to(self.like)

    def _place(self, draws: Draws) -> Tensor:
        """Place collocation points, or the candidates for them; a grid stays where it is."""
        count, method = self.config.queries, self.config.method
        if self.adaptive:
            count, method = count * self.sampling.candidates, "uniform"
        return self.residual.place(lambda: collocation(self.problem, draws, count, method))

    def _reached(self, part: float, points: int) -> Tensor | None:
        """Weigh the places of a march, ``[1, N]``: both ends of the steps within the horizon."""
        grid = self.residual.grid
        if grid is None or self.sampling.horizon == 1:
            return None
        steps = steps_within(grid.shape[grid.time_axis] - 1, part).to(self.like)
        each = points // (2 * len(steps))
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
        residual: Residual,
        functions: Mapping[str, InputFunction],
        queries: Tensor,
    ) -> CollocationPoints:
        queries = queries.to(self.like)
        lift = self.loss.lifts.get(term)
        rows = None if lift is None else lift(functions, queries)
        return CollocationPoints(queries, residual.evaluate_inputs(functions, queries), rows)
