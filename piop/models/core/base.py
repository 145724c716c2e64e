"""What a backbone is, and what it is told about the problem it serves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from piop.errors import DataError
from piop.fields import FunctionSamples


@dataclass(frozen=True)
class AxisSignature:
    """One coordinate of the queries.

    Attributes:
        name: As in the spec.
        low: Lower end, units of the coordinate.
        high: Upper end, units of the coordinate.
        periodic: Whether ``high`` is the same place as ``low``.
    """

    name: str
    low: float
    high: float
    periodic: bool = False


@dataclass(frozen=True)
class InputSignature:
    """One input that the network sees.

    Attributes:
        name: As in the spec.
        of: Coordinates it depends on; empty for a scalar.
        channels: c, how many values a sensor gives.
        mean: Mean of the values under the law, their units.
        std: Standard deviation of the values under the law, their units.
        smooth: Whether a few harmonics hold it; a jump needs its own sensors.
        waves: Largest wave number per axis that matters; 0 where unknown.
        bulk: Wave number below which nearly all of the input lies, at most ``waves``; 0 where it is
            not known to be below.
        gridded: Whether its sensors lie on an even grid, the same for every function.
    """

    name: str
    of: tuple[str, ...]
    channels: int = 1
    mean: float = 0.0
    std: float = 1.0
    smooth: bool = True
    waves: int = 0
    bulk: int = 0
    gridded: bool = False


@dataclass(frozen=True)
class Signature:
    """All that a backbone knows of a problem: shapes and scales, no equation.

    Attributes:
        coordinates: Columns of the queries, time first where there is one.
        inputs: What is seen.
        channels: C, columns of the answer.
        time: Index of the time among the coordinates; None for a steady problem.
        homogeneous: Names of axes along which shifting all inputs shifts the solution: no equation,
            condition or fixed datum names the coordinate.
    """

    coordinates: tuple[AxisSignature, ...]
    inputs: tuple[InputSignature, ...] = ()
    channels: int = 1
    time: int | None = None
    homogeneous: tuple[str, ...] = ()

    def axis(self, name: str) -> int:
        """Index of a coordinate among the columns of the queries."""
        return [axis.name for axis in self.coordinates].index(name)

    @property
    def functions(self) -> tuple[InputSignature, ...]:
        """Inputs that depend on coordinates."""
        return tuple(entry for entry in self.inputs if entry.of)

    @property
    def scalars(self) -> tuple[InputSignature, ...]:
        """Inputs that are numbers."""
        return tuple(entry for entry in self.inputs if not entry.of)


Field = Literal["point", "grid", "march"]
"""How a backbone answers, and so how its derivatives are taken.

``point``
    Answer j depends on query j alone, and smoothly: derivatives by streams.
``grid``
    All queries are answered together, on a tensor grid: derivatives along the axes of the grid.
``march``
    On a grid as well, the time in steps of its own: the residual of a step.
"""

Times = Literal["any", "end"]
"""The times a backbone answers at: all, or the end of the time axis alone."""


class Backbone(nn.Module, ABC):
    """A network from input functions and queries to dimensionless values.

    With a ``point`` field it is evaluated on tensors and on streams of them, so ``forward`` keeps
    to operations that have a stream rule, writes to no tensor in place and takes no decision on a
    value. Other fields are evaluated by :meth:`on_grid`.

    Args:
        signature: The problem's shapes and scales.

    Attributes:
        field: How it answers.
        times: The times it answers at.
        scattered: Whether ``forward`` takes queries that are no grid.
        unordered: Whether the order of the sensors is immaterial.
        periodic: Whether answers repeat exactly along periodic axes, queries and sensors being
            shifted by a period; a network that reads coordinates raw sets it to False, where its
            config decides in ``__init__``.
    """

    field: Field = "point"
    times: Times = "any"
    scattered: bool = True
    unordered: bool = True
    periodic: bool = True

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """Say why a network of this config cannot serve a problem; None where it can.

        Args:
            signature: The problem's shapes and scales.
            config: Sizes and choices, as ``__init__`` takes them.

        Returns:
            A clause such as ``"input 'a' has jumps and scattered sensors"``.
        """
        return None

    @abstractmethod
    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network.

        Args:
            inputs: Sensors of each input: points ``[B, M, d]`` and values ``[B, M, c]`` in physical
                units; a scalar has M = 1 and d = 0. Any number of sensors at any places.
            queries: ``[B, N, D]`` in physical coordinates, ``[1, N, D]`` if all functions share.

        Returns:
            ``[B, N, C]``, dimensionless, of order one.

        Raises:
            DataError: If an input is missing or its shape does not fit the signature.
        """

    def on_grid(self, inputs: Mapping[str, FunctionSamples], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on the tensor grid of axes.

        Args:
            inputs: As in :meth:`forward`.
            axes: Positions along each coordinate, time first, ``[n_1], …, [n_D]``; the right end of
                periodic axes left out. For a ``march`` field the times are :meth:`march_times`.

        Returns:
            ``[B, n_1, …, n_D, C]``, dimensionless.
        """
        queries = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)[None]
        values = self(inputs, queries)
        return values.reshape(len(values), *(len(axis) for axis in axes), -1)

    def march_times(self) -> tuple[float, ...]:
        """Give the times of the steps of a ``march`` field, the first one among them."""
        raise NotImplementedError(f"{type(self).__name__} does not march")

    def meets(self, sensors: Mapping[str, int]) -> int:
        """Count what each query meets, sensors or tokens: what it costs in memory.

        By default all sensors of all functions; a backbone that reads inputs first says fewer.

        Args:
            sensors: M of each input.
        """
        return sum(sensors[entry.name] for entry in self.signature.functions)

    def idle(self) -> Mapping[str, str]:
        """Name the parameters that no answer follows, and say why; by default none.

        Returns:
            Pattern of names, as of :mod:`fnmatch` → reason. All other parameters must receive
            gradient, and these must not.
        """
        return {}

    def check(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> None:
        """Refuse inputs that do not fit the signature; looks at shapes, never at values."""
        if queries.shape[-1] != len(self.signature.coordinates):
            names = ", ".join(axis.name for axis in self.signature.coordinates)
            raise DataError(f"queries have {queries.shape[-1]} columns; give one each for {names}")
        for entry in self.signature.inputs:
            if entry.name not in inputs:
                given = ", ".join(map(repr, inputs)) or "none"
                raise DataError(f"input {entry.name!r} is missing; given: {given}")
            samples = inputs[entry.name]
            if samples.values.shape[-1] != entry.channels:
                raise DataError(
                    f"input {entry.name!r} has {samples.values.shape[-1]} channels; "
                    f"this network was built for {entry.channels}"
                )
            if samples.points.shape[-1] != len(entry.of):
                raise DataError(
                    f"sensors of {entry.name!r} have {samples.points.shape[-1]} coordinates; "
                    f"it depends on {len(entry.of)} ({', '.join(entry.of) or 'a scalar'})"
                )


def standardised(entry: InputSignature, samples: FunctionSamples) -> Tensor:
    """Values with the mean and standard deviation of the law taken out, zero where masked."""
    values = (samples.values - entry.mean) / (entry.std or 1.0)
    return values if samples.mask is None else values.masked_fill(~samples.mask[..., None], 0.0)
