"""What a graph is told of the input functions: values at fixed sensors, or sensors and values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples, InputFunction
from piop.models.core.base import Inputs
from piop.problem import Input, Problem
from piop.problem.inputs import channels_of
from piop.sampling import reconstruct
from piop.sampling.distributions import input_axes, input_sampler

SAMPLES, QUERIES = "samples", "queries"
"""Names of the sizes that are free: functions, and points of the prediction."""


@final
@dataclass(frozen=True)
class Argument:
    """A tensor that an exported graph takes or gives.

    Attributes:
        name: Its name in the file.
        shape: Its sizes; those that are free are names.
        meaning: What it holds.
        units: Units of its values, in the order of its last axis where that holds coordinates.
    """

    name: str
    shape: tuple[int | str, ...]
    meaning: str
    units: tuple[str, ...]


class SensorArguments(nn.Module, ABC):
    """Makes input functions of the first tensors of a graph.

    Args:
        problem: The problem.
        needed: Inputs that are needed as functions.

    Attributes:
        problem: See above.
        needed: See above.
        items: The visible inputs.
        free: Whether positions and number of the sensors are free.
        positions: Of the sensors of each function ``[M, d]``, where they are fixed.
    """

    free: ClassVar[bool]
    positions: Mapping[str, Tensor]

    def __init__(self, problem: Problem, needed: Sequence[str]) -> None:
        super().__init__()
        self.problem, self.needed = problem, tuple(needed)
        self.items = tuple(problem.visible_inputs)

    @abstractmethod
    def arguments(self) -> tuple[Argument, ...]:
        """Describe the tensors in order."""

    @abstractmethod
    def observe(self, tensors: Sequence[Tensor]) -> Inputs:
        """Bring the tensors into sensors of each input."""

    @abstractmethod
    def interpolate(self, observed: Inputs) -> dict[str, InputFunction]:
        """Interpolate the inputs that are needed as functions."""

    @abstractmethod
    def tensors(self, observed: Inputs) -> list[Tensor]:
        """Take the tensors of a graph from sensors of each input: what :meth:`observe` undoes."""

    def units(self, *names: str) -> tuple[str, ...]:
        """Units of names of the spec; empty where it gives none."""
        return tuple(str(self.problem.units.get(name, "")) for name in names)

    def value_shape(self, item: Input, sensors: int | str) -> tuple[int | str, ...]:
        """Sizes of the values of an input."""
        channels = channels_of(self.problem, item)
        return (SAMPLES, *([sensors] if item.of else []), *([channels] if channels > 1 else []))

    def with_channels(self, item: Input, values: Tensor) -> Tensor:
        """Bring values to ``[B, M, c]``."""
        values = values if item.of else values[:, None]
        return values if channels_of(self.problem, item) > 1 else values[..., None]

    def without_channels(self, item: Input, values: Tensor) -> Tensor:
        """Undo :meth:`with_channels`."""
        values = values if channels_of(self.problem, item) > 1 else values[..., 0]
        return values if item.of else values[:, 0]


@final
class FixedSensors(SensorArguments):
    """Values at sensors that are the same for all samples.

    An interpolant is affine in the values, so it is a product of the values with the interpolants
    of unit vectors, which the graph holds.

    Args:
        problem: The problem.
        needed: Inputs that are needed as functions.
        positions: Of the sensors of each function ``[M, d]`` float64.
    """

    free = False

    def __init__(
        self, problem: Problem, needed: Sequence[str], positions: Mapping[str, Tensor]
    ) -> None:
        super().__init__(problem, needed)
        self.positions = dict(positions)
        self._unit = {
            item.name: self._interpolate_unit_vectors(item)
            for item in self.items
            if item.name in self.needed
        }

    def arguments(self) -> tuple[Argument, ...]:
        """See the base class."""
        return tuple(
            Argument(
                item.name,
                self.value_shape(item, len(self.positions[item.name]) if item.of else 1),
                _meaning(item),
                self.units(item.name),
            )
            for item in self.items
        )

    def observe(self, tensors: Sequence[Tensor]) -> Inputs:
        """See the base class."""
        return {
            item.name: FunctionSamples(
                self._points(item).to(values)[None], self.with_channels(item, values)
            )
            for item, values in zip(self.items, tensors, strict=True)
        }

    def interpolate(self, observed: Inputs) -> dict[str, InputFunction]:
        """See the base class."""
        found = {}
        for name, functions in self._unit.items():
            values = observed[name].values[..., 0]
            weights = values.double()
            rest = 1 - weights.sum(1, keepdim=True)
            found[name] = functions.combined(torch.cat([rest, weights], 1)).to(dtype=values.dtype)
        return found

    def tensors(self, observed: Inputs) -> list[Tensor]:
        """See the base class."""
        return [self.without_channels(i, observed[i.name].values) for i in self.items]

    def _points(self, item: Input) -> Tensor:
        return self.positions[item.name] if item.of else torch.zeros(1, 0, dtype=torch.float64)

    def _interpolate_unit_vectors(self, item: Input) -> InputFunction:
        """Interpolate zeros, and 1 at each sensor with zeros at the others: ``M + 1`` functions."""
        points = self._points(item)
        values = torch.eye(len(points), dtype=torch.float64)
        values = torch.cat([torch.zeros_like(values[:1]), values])
        samples = FunctionSamples(points.expand(len(values), -1, -1), values[..., None])
        return reconstruct(self.problem, item, samples)


@final
class FreeSensors(SensorArguments):
    """Positions of sensors and the values there, of each sample.

    Args:
        problem: The problem.
        needed: Inputs that are needed as functions.
    """

    free, positions = True, MappingProxyType({})

    def __init__(self, problem: Problem, needed: Sequence[str]) -> None:
        super().__init__(problem, needed)
        self._samplers = {i.name: input_sampler(problem, i) for i in self.items}
        for item in self.items:
            if item.name in self.needed:  # what follows from the distribution, before any graph
                low = [axis.low for axis in input_axes(problem, item)]
                corner = torch.tensor(low, dtype=torch.float64).reshape(1, 1, -1)
                zero = torch.zeros(1, 1, 1, dtype=torch.float64)
                self._reconstruct(item, FunctionSamples(corner, zero))

    def arguments(self) -> tuple[Argument, ...]:
        """See the base class."""
        found = []
        for item in self.items:
            count = self.problem.vectors.get(item.name) or f"sensors_of_{item.name}"
            if item.of:
                shape = (SAMPLES, count, len(item.of))
                meaning = f"positions of the sensors of {item.name}: {', '.join(item.of)}"
                found.append(Argument(f"{item.name}_points", shape, meaning, self.units(*item.of)))
            found.append(
                Argument(
                    item.name, self.value_shape(item, count), _meaning(item), self.units(item.name)
                )
            )
        return tuple(found)

    def observe(self, tensors: Sequence[Tensor]) -> Inputs:
        """See the base class."""
        rest, found = list(tensors), {}
        for item in self.items:
            points = rest.pop(0) if item.of else rest[0].new_zeros(1, 1, 0)
            found[item.name] = FunctionSamples(points, self.with_channels(item, rest.pop(0)))
        return found

    def interpolate(self, observed: Inputs) -> dict[str, InputFunction]:
        """See the base class."""
        return {
            item.name: self._reconstruct(item, observed[item.name])
            for item in self.items
            if item.name in self.needed
        }

    def _reconstruct(self, item: Input, samples: FunctionSamples) -> InputFunction:
        return reconstruct(self.problem, item, samples, self._samplers[item.name])

    def tensors(self, observed: Inputs) -> list[Tensor]:
        """See the base class."""
        found = []
        for item in self.items:
            samples = observed[item.name]
            found += [samples.points] if item.of else []
            found.append(self.without_channels(item, samples.values))
        return found


def _meaning(item: Input) -> str:
    return f"values at the sensors of {item.name}" if item.of else f"the scalar {item.name}"
