"""Comparison of an exported graph with its run, on sizes that were not used to export."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import ExportError, NotSupportedError
from piop.export.formats import Evaluate
from piop.export.prediction import Prediction
from piop.fields import FunctionSamples, grid_axis, tensor_grid
from piop.models.core.base import Inputs
from piop.problem import Input, Problem
from piop.problem.inputs import channels_of, query_coordinates
from piop.run.prediction import predict_values
from piop.sampling import Draws
from piop.sampling.collocation import inside
from piop.sampling.distributions import input_axes, input_sampler
from piop.sampling.random import DATA
from piop.training.build import Model
from piop.training.loss.statistics import Statistics

EXAMPLE = (3, 11, 1.0)
"""Samples and queries with which a graph is captured, and sensors relative to those of the run."""
CHECKED = ((1, 1, 1.0), (2, 64, 0.6), (5, 37, 1.7))
"""The same with which it is compared with its run; sensors vary where they are free."""

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-6}
"""Largest difference from the run, relative to the largest value of an unknown.

Runtimes sum in another order. In float32 each of some hundred operations rounds by 6e-8, and time
windows pass it on; in float64 what is left is the interpolation from sensors, whose systems have
conditions of up to 1e12 and are solved otherwise. A part of the prediction that is missing, such as
a hard constraint, makes a difference of order one.
"""


@final
@dataclass(frozen=True)
class Agreement:
    """How an exported graph compares with its run.

    Attributes:
        difference: The largest difference of any unknown, relative to its largest value.
        tolerance: What is allowed.
        dtype: Precision of the run.
    """

    difference: float
    tolerance: float
    dtype: torch.dtype

    def require(self, path: Path) -> None:
        """Refuse a graph that does not agree.

        Raises:
            ExportError: If the difference exceeds the tolerance.
        """
        if not self.difference <= self.tolerance:
            name = str(self.dtype).removeprefix("torch.")
            raise ExportError(
                f"{path}: the exported graph differs from the run by {self.difference:.2g} of the "
                f"largest value, {self.tolerance:g} is allowed in {name}; the file is not written"
            )


@final
class ExportCases:
    """Inputs and points of several sizes on which a graph is captured and compared.

    Args:
        problem: The problem.
        statistics: Sizes of inputs whose distribution cannot be drawn from.
        positions: Sensors of each function ``[M, d]``.
        dtype: Precision of the run.
    """

    def __init__(
        self,
        problem: Problem,
        statistics: Statistics,
        positions: Mapping[str, Tensor],
        dtype: torch.dtype,
    ) -> None:
        self.problem, self.statistics = problem, statistics
        self.positions, self.dtype = positions, dtype

    def inputs(self, samples: int, seed: int, sensors: float | None = None) -> Inputs:
        """Draw inputs, and observe them at the sensors of the run or at others.

        Args:
            samples: Number of samples.
            seed: Of the draw.
            sensors: Number of sensors relative to those of the run; None for those themselves.
        """
        draws = Draws.of(DATA, seed, range(samples))
        try:
            functions = self.problem.sample(samples, seed)
        except NotSupportedError:
            functions = {}
        found = {}
        for item in self.problem.visible_inputs:
            points = self._points(item, sensors).repeat(samples, 1, 1)
            if sensors is not None and item.of and item.name not in self.problem.vectors:
                points = self._apart(item, points)
            points = points.to(self.dtype).double()
            if item.name in functions:
                values = functions[item.name](points)[..., None]
            else:
                values = self._noise(item, points, draws)
            found[item.name] = FunctionSamples(points, values).to(self.dtype)
        return found

    def noise(self, samples: int, seed: int) -> Inputs:
        """Draw independent values at the sensors of the run, of the size of each input."""
        draws = Draws.of(DATA, seed, range(samples))
        found = {}
        for item in self.problem.visible_inputs:
            points = self._points(item, None).repeat(samples, 1, 1)
            values = self._noise(item, points, draws)
            found[item.name] = FunctionSamples(points, values).to(self.dtype)
        return found

    def _noise(self, item: Input, points: Tensor, draws: Draws) -> Tensor:
        size = points.shape[1] * channels_of(self.problem, item)
        noise = draws.normal(f"export/{item.name}", size).unflatten(1, (points.shape[1], -1))
        own = self.statistics
        if item.name in own.input_mean:
            return own.input_mean[item.name] + own.input_std[item.name] * noise
        # in time windows, statistics are those of states
        mean, std = input_sampler(self.problem, item).moments()
        return mean + std * noise

    def queries(self, count: int, seed: int, end_only: bool) -> Tensor:
        """Draw points ``[N, D]`` of the box of the coordinates, its corners among them."""
        draws = Draws.of(DATA, seed, range(1))
        axes = query_coordinates(self.problem)
        unit = draws.uniform("export/queries", count, len(axes))[0]
        unit[0], unit[-1] = 0.0, 1.0
        low = unit.new_tensor([axis.low for axis in axes])
        length = unit.new_tensor([axis.length for axis in axes])
        if end_only and self.problem.time is not None:
            unit[:, 0] = 1.0
        return (low + length * unit).to(self.dtype)

    def _apart(self, item: Input, points: Tensor) -> Tensor:
        """Move the sensors of each sample: those that all share may become part of a graph."""
        low = points.new_tensor([axis.low for axis in input_axes(self.problem, item)])
        closer = 1 - 0.1 * torch.arange(len(points), dtype=points.dtype) / len(points)
        return low + closer[:, None, None] * (points - low)

    def _points(self, item: Input, sensors: float | None) -> Tensor:
        if not item.of:
            return torch.zeros(1, 0, dtype=torch.float64)
        own = self.positions[item.name]
        if sensors is None or sensors == 1.0 or item.name in self.problem.vectors:
            return own
        return even_sensors(self.problem, item, max(2, round(sensors * len(own))))


def even_sensors(problem: Problem, item: Input, count: int) -> Tensor:
    """Lay an even grid of at least so many sensors of an input: ``[M, d]``."""
    axes = input_axes(problem, item)
    side = math.ceil(count ** (1 / len(axes)) - 1e-9)
    return tensor_grid([grid_axis(a.low, a.high, side, a.periodic) for a in axes])


def compare(
    model: Model, prediction: Prediction, cases: ExportCases, evaluate: Evaluate
) -> Agreement:
    """Compare a graph with the prediction of its run on sizes that were not used to capture it.

    Args:
        model: The operator.
        prediction: How inputs are given to the graph.
        cases: The inputs and points.
        evaluate: The graph.
    """
    problem = cases.problem
    differences, sizes = torch.zeros(2, len(problem.channels), dtype=torch.float64)
    for seed, (samples, count, sensors) in enumerate(CHECKED, start=1):
        free = sensors if prediction.sensors.free else None
        inputs = cases.inputs(samples, seed, free)
        queries = cases.queries(count, seed, model.operator.end_only)
        truth = predict_values(problem, model, inputs, Queries(points=queries.double()[None]))
        found = _stacked(evaluate([*prediction.sensors.tensors(inputs), queries]))
        if found.shape != truth.shape:
            return Agreement(math.inf, TOLERANCE[cases.dtype], cases.dtype)
        apart = (found.double() - truth).abs()
        apart = torch.where(found.isnan() & truth.isnan(), 0.0, apart).nan_to_num(nan=math.inf)
        if not (problem.domain.is_box or problem.domain.varies):  # a lift may be 0/0 outside
            apart = torch.where(inside(problem.domain.fixed, queries)[:, None], apart, 0.0)
        differences = torch.maximum(differences, apart.flatten(0, 1).amax(0))
        sizes = torch.maximum(sizes, truth.nan_to_num(0.0).abs().flatten(0, 1).amax(0))
    found = differences / sizes.clamp(min=1e-300)
    found = torch.where(differences == 0, 0.0, found)
    return Agreement(float(found.max()), TOLERANCE[cases.dtype], cases.dtype)


def _stacked(outputs: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(outputs), -1)
