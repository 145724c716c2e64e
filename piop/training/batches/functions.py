"""Which functions the equations of a step are asked of: those of the law, or those of the data."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Protocol, final

import torch

from piop.datasets import AnyDataset, Dataset
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.sampling import Draws, observe, reconstruct, sample_inputs

Functions = tuple[Mapping[str, InputFunction], Mapping[str, FunctionSamples]]
"""Functions by name, and what sensors see of them."""


class FunctionSource(Protocol):
    """Gives the functions of a step."""

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Give ``draws.batch`` of them on the device of the draws."""
        ...


@final
class OfLaw:
    """Fresh functions of the law.

    Args:
        problem: Whose inputs they are.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Draw them, and see them where the spec says."""
        functions = sample_inputs(self.problem, draws, dtype)
        return functions, observe(functions, self.problem, draws, dtype)


@final
class OfData:
    """Functions of the samples of a data set, as far as their sensors tell them.

    Args:
        problem: Whose inputs they are.
        data: The data set.
    """

    def __init__(self, problem: Problem, data: AnyDataset) -> None:
        self.problem, self.data = problem, data
        self.all: dict[str, InputFunction] | None = None
        if isinstance(data, Dataset):
            self.all = interpolated(problem, data.inputs)

    def __call__(self, draws: Draws, dtype: torch.dtype) -> Functions:
        """Choose samples, and interpolate their inputs from the sensors."""
        chosen = draws.integers("equations/sample", 0, len(self.data) - 1).cpu()
        if self.all is None:
            seen = self.data.take(chosen).inputs
            functions = interpolated(self.problem, seen)
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
class Alternating:
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


def choose_functions(
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
    law = OfLaw(problem)
    if not problem.infer or data is None or not problem.visible_inputs:
        return law
    initial = [e for entries in problem.initial.values() for e in entries]
    faces = [e for found in problem.boundary.values() for c in found for e in c.values]
    hidden = [item.symbol for item in problem.inputs if item.hidden]
    if any(e.has(*hidden) for e in (*problem.residuals, *initial, *faces) if hidden):
        return law
    own = OfData(problem, data)
    for item in problem.visible_inputs:
        samples = next(iter(data.sensors(item.name)))
        same = samples.mask is None and samples.points.shape[1] == math.prod(item.sensor_shape)
        if item.name not in grids and not same:
            return own
    return Alternating(own, law)


def interpolated(problem: Problem, seen: Mapping[str, FunctionSamples]) -> dict[str, InputFunction]:
    """Interpolate every visible input from its sensors."""
    by_name = {item.name: item for item in problem.visible_inputs}
    return {name: reconstruct(problem, by_name[name], s) for name, s in seen.items()}


def take_samples(samples: FunctionSamples, index: torch.Tensor) -> FunctionSamples:
    """Keep the samples of some functions."""
    mask = None if samples.mask is None else samples.mask[index]
    return FunctionSamples(samples.points[index], samples.values[index], mask)
