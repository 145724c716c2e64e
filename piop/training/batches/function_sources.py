"""Where the input functions of a training step come from: distributions, data, or both."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar, final

import torch

from piop.datasets import AnyDataset, Dataset
from piop.fields import InputFunction
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.sampling import Draws, InputSampler, observe, reconstruct
from piop.training.batches.batch import Source
from piop.training.loss.known_functions import Functions

DrawnFunctions = tuple[Functions, Inputs]
"""Functions by name, and their values at sensors."""


class FunctionSource(Source, ABC):
    """Draws the input functions of a step.

    Attributes:
        depends_on_draws_alone: Whether each function depends on the draws of its own sample alone.
    """

    depends_on_draws_alone: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, draws: Draws, dtype: torch.dtype, fraction: float) -> DrawnFunctions:
        """Draw ``draws.batch`` functions.

        Args:
            draws: The randomness of the step, on the device of the functions.
            dtype: Precision of their values.
            fraction: Fraction of the budget that is spent, in [0, 1).
        """


@final
class DistributionFunctions(FunctionSource):
    """Fresh functions of the distribution of the inputs.

    Args:
        problem: Whose inputs they are.
    """

    depends_on_draws_alone = True

    def __init__(self, problem: Problem) -> None:
        self.problem, self.sample = problem, InputSampler(problem)

    def __call__(self, draws: Draws, dtype: torch.dtype, fraction: float) -> DrawnFunctions:
        """Draw functions, and observe them where the spec says."""
        del fraction
        functions = self.sample(draws, dtype)
        return functions, observe(functions, self.problem, draws, dtype)


@final
class DatasetFunctions(FunctionSource):
    """Functions of the samples of a data set, interpolated from their sensors.

    Args:
        problem: Whose inputs they are.
        data: The data set.
    """

    def __init__(self, problem: Problem, data: AnyDataset) -> None:
        self.problem, self.data = problem, data
        self.observed = data.inputs if isinstance(data, Dataset) else None
        self.functions = interpolate_inputs(problem, self.observed or {})

    def __call__(self, draws: Draws, dtype: torch.dtype, fraction: float) -> DrawnFunctions:
        """Choose samples, and interpolate their inputs from the sensors."""
        del fraction
        chosen = draws.integers("equations/sample", 0, len(self.data) - 1).cpu()
        if self.observed is None:
            observed = self.data.take(chosen).inputs
            functions = interpolate_inputs(self.problem, observed)
        else:
            observed = {name: s.take(chosen) for name, s in self.observed.items()}
            functions = {name: f.take(chosen) for name, f in self.functions.items()}
        device = draws.index.device
        return (
            {name: f.to(device, dtype) for name, f in functions.items()},
            {name: s.to(device, dtype) for name, s in observed.items()},
        )


@final
class AlternatingFunctions(FunctionSource):
    """Functions of the distribution at odd steps, those of the data at even ones.

    Parameters are learned from equations and data of the same solutions, the operator from the
    equations for any function.

    Args:
        data: Functions of the data.
        distribution: Functions of the distribution.
    """

    def __init__(self, data: FunctionSource, distribution: FunctionSource) -> None:
        self.data, self.distribution = data, distribution

    def __call__(self, draws: Draws, dtype: torch.dtype, fraction: float) -> DrawnFunctions:
        """Return the functions of the step."""
        return (self.distribution if draws.step % 2 else self.data)(draws, dtype, fraction)


def choose_function_source(
    problem: Problem, data: AnyDataset | None, grids: Collection[str]
) -> FunctionSource:
    """Choose the functions on which the equations are trained.

    The distribution, unless there are parameters to infer: they want functions of the data too,
    whose solutions are known. Where sensors of the data differ in number from those of the spec, so
    that a batch has another shape, functions of the data alone; where the equations have hidden
    inputs, which no data contain, functions of the distribution alone.

    Args:
        problem: The problem.
        data: The data to train on; None for none.
        grids: Inputs that are evaluated on even grids, wherever their sensors are.
    """
    distribution = DistributionFunctions(problem)
    if not problem.infer or data is None or not problem.visible_inputs or problem.hidden_inputs:
        return distribution
    own = DatasetFunctions(problem, data)
    for item in problem.visible_inputs:
        samples = next(iter(data.sensor_chunks(item.name)))
        same = samples.mask is None and samples.points.shape[1] == math.prod(item.sensor_shape)
        if item.name not in grids and not same:
            return own
    return AlternatingFunctions(own, distribution)


def interpolate_inputs(problem: Problem, observed: Inputs) -> dict[str, InputFunction]:
    """Interpolate every visible input from its sensors."""
    by_name = {item.name: item for item in problem.visible_inputs}
    return {name: reconstruct(problem, by_name[name], s) for name, s in observed.items()}
