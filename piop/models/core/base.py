"""The interface of a backbone, the shapes and scales of the problem it serves, and its presets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples, tensor_grid


@dataclass(frozen=True)
class AxisSignature:
    """One coordinate of the queries.

    Attributes:
        name: As in the spec.
        low: Lower end, units of the coordinate.
        high: Upper end, units of the coordinate.
        periodic: Whether ``high`` is the same point as ``low``.
    """

    name: str
    low: float
    high: float
    periodic: bool = False


def unit_axes(names: Iterable[str], periodic: bool = False) -> tuple[AxisSignature, ...]:
    """Lay coordinates from 0 to 1, as most published benchmarks have them."""
    return tuple(AxisSignature(name, 0.0, 1.0, periodic) for name in names)


@dataclass(frozen=True)
class InputSignature:
    """One input of the network.

    Attributes:
        name: As in the spec.
        of: Coordinates it depends on; empty for a scalar.
        channels: c, values per sensor.
        mean: Mean of the values under their distribution, their units.
        std: Standard deviation of the values under their distribution, their units.
        smooth: Whether a few harmonics represent it; an input with jumps keeps its sensors.
        waves: Largest wave number per axis that matters; 0 where unknown.
        bulk: Wave number below which nearly all of the variance lies, at most ``waves``; 0 where
            unknown.
        gridded: Whether its sensors lie on an even grid, the same for every sample.
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
    """Shapes and scales of a problem, all that a backbone knows of it.

    Attributes:
        coordinates: Columns of the queries, time first where there is one.
        inputs: Input functions and scalars.
        channels: C, columns of the output.
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

    def axes_of(self, entry: InputSignature) -> tuple[AxisSignature, ...]:
        """Coordinates that an input depends on."""
        return tuple(self.coordinates[self.axis(name)] for name in entry.of)

    @property
    def space_columns(self) -> tuple[int, ...]:
        """Indices of all coordinates but the time."""
        return tuple(i for i in range(len(self.coordinates)) if i != self.time)

    @property
    def functions(self) -> tuple[InputSignature, ...]:
        """Inputs that depend on coordinates."""
        return tuple(entry for entry in self.inputs if entry.of)

    @property
    def scalars(self) -> tuple[InputSignature, ...]:
        """Inputs that are numbers."""
        return tuple(entry for entry in self.inputs if not entry.of)

    @property
    def scalar_channels(self) -> int:
        """Channels of all scalars together."""
        return sum(entry.channels for entry in self.scalars)


Inputs = Mapping[str, FunctionSamples]
"""Name of an input → its sensors: points ``[B, M, d]``, values ``[B, M, c]``, optional mask."""


@final
@dataclass(frozen=True)
class FieldKind:
    """How a backbone is evaluated, and so how derivatives of its output are taken.

    Attributes:
        name: Its name in files.
        label: Its name in tables.
        pointwise: Whether output j depends on query j alone, and smoothly: derivatives by streams.
            All other networks are evaluated on tensor grids: derivatives along the axes.
        rollout: Whether time advances in steps of the network's own: the residual of a step.
    """

    name: str
    label: str
    pointwise: bool = False
    rollout: bool = False

    @property
    def space_time_grid(self) -> bool:
        """Whether the grid holds all times at once, as many as are requested."""
        return not self.pointwise and not self.rollout


POINT_FIELD = FieldKind("point", "pointwise", pointwise=True)
"""Evaluated at each query by itself."""

GRID_FIELD = FieldKind("grid", "on a grid")
"""Evaluated on a tensor grid of space and time."""

ROLLOUT_FIELD = FieldKind("march", "in steps", rollout=True)
"""Evaluated on a tensor grid of space, step after step."""


class Backbone(nn.Module, ABC):
    """A network from input functions and queries to dimensionless outputs.

    A pointwise network is evaluated on tensors and on streams of them, so ``forward`` keeps to
    operations that have a stream rule, writes to no tensor in place and takes no decision on a
    value. All others are evaluated by :meth:`on_grid`.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.

    Attributes:
        field: How it is evaluated.
        end_only: Whether it knows the end of the time axis alone.
        scattered: Whether ``forward`` accepts scattered queries.
        unordered: Whether the order of the sensors is immaterial.
        periodic: Whether outputs repeat exactly along periodic axes when queries or sensors are
            shifted by a period; False for a network of raw coordinates, set in ``__init__`` where
            its config decides.
        context_points: What each query attends to, where that does not grow with the sensors: 1
            where inputs are summed or encoded as one beforehand.
        config: Its sizes and choices, a frozen dataclass.
    """

    field: FieldKind = POINT_FIELD
    end_only: bool = False
    scattered: bool = True
    unordered: bool = True
    periodic: bool = True
    context_points: int | None = None

    def __init__(self, signature: Signature, config: Any = None) -> None:
        super().__init__()
        self.signature, self.config = signature, config

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """Return the reason why a network of this config cannot serve a problem; None if it can.

        Args:
            signature: The problem's shapes and scales.
            config: Sizes and choices, as ``__init__`` takes them.

        Returns:
            A clause such as ``"input 'a' has jumps and scattered sensors"``.
        """
        return None

    @abstractmethod
    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network.

        Args:
            inputs: Sensors of each input: points ``[B, M, d]`` and values ``[B, M, c]`` in physical
                units; a scalar has M = 1 and d = 0. Any number of sensors at any positions.
            queries: ``[B, N, D]`` in physical coordinates, ``[1, N, D]`` if all samples share them.

        Returns:
            ``[B, N, C]``, dimensionless, of order one.

        Raises:
            DataError: If an input is missing or its shape does not fit the signature.
        """

    def on_grid(self, inputs: Inputs, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on the tensor grid of axes.

        Args:
            inputs: As in :meth:`forward`.
            axes: Positions along each coordinate, time first, ``[n_1], …, [n_D]``; the right end of
                periodic axes left out; the times are :meth:`fixed_times` where there are any.

        Returns:
            ``[B, n_1, …, n_D, C]``, dimensionless.
        """
        values = self(inputs, tensor_grid(axes)[None])
        return values.reshape(values.shape[0], *(len(axis) for axis in axes), -1)

    def fixed_times(self) -> tuple[float, ...] | None:
        """Return the only times it can be evaluated at; None where it can be at any.

        A rollout overrides this by the times of its steps, the initial time first.
        """
        if not self.end_only or self.signature.time is None:
            return None
        return (self.signature.coordinates[self.signature.time].high,)

    def export_refusal(self) -> str | None:
        """Return the reason why it has no graph for free numbers of samples and queries, if any."""
        return None

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the sensors or tokens that each query attends to: what it costs in memory.

        By default all sensors of all functions; a backbone that encodes inputs first has fewer,
        its ``context_points``.

        Args:
            sensors: M of each input.
        """
        if self.context_points is not None:
            return self.context_points
        return sum(sensors[entry.name] for entry in self.signature.functions)

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the parameters on which no output depends, and say why; by default none.

        Returns:
            Pattern of names, as of :mod:`fnmatch` → reason. All other parameters must receive
            gradient, and these must not.
        """
        return {}

    def check(self, inputs: Inputs, queries: Any) -> None:
        """Refuse inputs whose shapes do not fit the signature.

        Raises:
            DataError: If an input is missing or a shape does not fit.
        """
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
    """Standardise values by the mean and deviation of their distribution; zero where masked."""
    values = (samples.values - entry.mean) / (entry.std or 1.0)
    return values if samples.mask is None else values.masked_fill(~samples.mask[..., None], 0.0)


def real_points(samples: FunctionSamples, low: float = 0.0) -> Tensor:
    """Give the points of sensors ``[B, M, d]``, all coordinates of masked ones being ``low``."""
    if samples.mask is None:
        return samples.points
    return samples.points.masked_fill(~samples.mask[..., None], low)


def scalar_values(signature: Signature, inputs: Inputs) -> list[Tensor]:
    """Standardised values of each scalar input, ``[B, 1, c]``."""
    return [standardised(entry, inputs[entry.name])[:, :1] for entry in signature.scalars]


def encode_scalars(layer: nn.Module | None, signature: Signature, inputs: Inputs) -> Tensor | None:
    """Encode all scalars by one layer: ``[B, 1, width]``; None for a problem without scalars."""
    return None if layer is None else layer(torch.cat(scalar_values(signature, inputs), -1))


def require_choices(config: Any, choices: Mapping[str, Collection[str]]) -> None:
    """Refuse fields of a config whose value is none of those allowed.

    Args:
        config: Sizes and choices of a network.
        choices: Field → allowed values.

    Raises:
        UsageError: For the first value that is not allowed.
    """
    for key, allowed in choices.items():
        value = vars(config)[key]
        if value not in allowed:
            raise UsageError(f"{key} = {value!r}: one of {', '.join(allowed)}")


BURGERS = Signature(
    coordinates=(AxisSignature("t", 0.0, 2.475), AxisSignature("x", 0.0, 6.283185307179586, True)),
    inputs=(InputSignature("u0", ("x",)),),
    channels=1,
    time=0,
    homogeneous=("x",),
)
"""Burgers' equation of the PIT paper, for which presets without shapes of their own are counted."""


@dataclass(frozen=True)
class Preset:
    """A network with its sizes.

    Attributes:
        build: The class of the network, a ``Backbone`` made from signature and config.
        config: A frozen dataclass with the preset's values.
        signature: The shapes of the benchmark that its parameters are counted for.
        source: The column of a paper's table, or the published script, that it is; empty for
            presets of piop's own.
        small: Fields of the config, and values with which the same network is cheap to test: of a
            published one narrower layers, fewer blocks and harmonics, shorter rollouts.
    """

    build: type[Any]
    config: Any
    signature: Signature = BURGERS
    source: str = ""
    small: Mapping[str, Any] = field(default_factory=dict, hash=False)


Presets = Mapping[str, Preset]
