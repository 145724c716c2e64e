"""Backbones on tensor grids: input functions laid on a grid, and values between its points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import (
    GRID_FIELD,
    AxisSignature,
    Backbone,
    InputSignature,
    Signature,
    standardised,
)
from piop.models.core.harmonic_fit import HarmonicFit
from piop.models.core.interpolation import (
    MOST_PAIRS,
    even_ticks,
    interpolate_grid,
    interpolation_weights,
    nearest_on_grid,
    nearest_values,
)

TIE_SHIFT = 1e-5
"""Share of an axis by which points are moved up before their nearest sensor is looked for: midway
between two, the upper one is taken in every precision and in whatever order sensors are listed."""


class GridInputs(nn.Module):
    """Lays every input on a grid: a smooth one by its harmonic fit, one with jumps by sensors.

    The grid is any; given sensors that resolve a smooth input, what is read does not depend on
    where they are. An input with jumps takes the value of the nearest sensor.

    Args:
        signature: The problem's shapes and scales.
        columns: Coordinates that the grid has, as columns of the queries.

    Attributes:
        features: Values per point: channels of functions, and the scalars.
    """

    def __init__(self, signature: Signature, columns: Sequence[int]) -> None:
        super().__init__()
        self.signature, self.columns = signature, tuple(columns)
        self.features = sum(entry.channels for entry in signature.inputs)
        self.fits = nn.ModuleDict(
            {e.name: HarmonicFit(e, self._axes(e)) for e in signature.functions}
        )

    @staticmethod
    def refusal(signature: Signature, columns: Sequence[int]) -> str | None:
        """Say which input cannot be laid on the grid, and why; None where all can."""
        names = [signature.coordinates[i].name for i in columns]
        for entry in signature.functions:
            if not entry.smooth and not entry.gridded:
                return f"input {entry.name!r} has jumps and its sensors are not on an even grid"
            beyond = [name for name in entry.of if name not in names]
            if beyond:
                return f"input {entry.name!r} depends on {beyond[0]}, which its grid does not have"
        return None

    def forward(self, inputs: Mapping[str, FunctionSamples], axes: Sequence[Tensor]) -> Tensor:
        """Read the inputs.

        Args:
            inputs: Sensors of B functions.
            axes: Positions along each coordinate of the grid, ``[n_1], …, [n_D]``.

        Returns:
            ``[B, n_1, …, n_D, features]``, standardised; B = 1 where there are no inputs.
        """
        grid = tuple(len(axis) for axis in axes)
        columns = [
            self._laid(entry, inputs[entry.name], axes)
            if entry.of
            else standardised(entry, inputs[entry.name]).reshape(
                -1, *[1] * len(grid), entry.channels
            )
            for entry in self.signature.inputs
        ]
        if not columns:
            return axes[0].new_zeros(1, *grid, 0)
        return torch.cat([c.expand(-1, *grid, -1) for c in columns], -1)

    def _laid(
        self, entry: InputSignature, samples: FunctionSamples, axes: Sequence[Tensor]
    ) -> Tensor:
        """Values of a function, an axis of length one where it does not depend on a coordinate."""
        fit: HarmonicFit = self.fits[entry.name]  # type: ignore[assignment]
        places = [self.columns.index(self.signature.axis(name)) for name in entry.of]
        ticks = [axes[place] for place in places]
        if not entry.smooth:
            ticks = [t + TIE_SHIFT * (a.high - a.low) for t, a in zip(ticks, fit.axes, strict=True)]
        mesh = torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).reshape(1, -1, len(ticks))
        if entry.smooth:
            values = fit.basis(mesh) @ fit(samples)
        else:
            values = standardised(entry, samples)
            few = mesh.shape[1] * samples.points.shape[1] <= MOST_PAIRS
            if few or samples.mask is not None:
                values = nearest_values(values, samples, mesh, fit.axes)
            else:
                values = values[:, nearest_on_grid(samples.points[0], ticks, fit.axes)]
        values = values.unflatten(1, [len(tick) for tick in ticks])
        # The coordinates of an input may come in another order than those of the grid.
        order = sorted(range(len(places)), key=lambda i: places[i])
        values = values.permute(0, *[1 + i for i in order], -1)
        for place in range(len(axes)):
            values = values if place in places else values.unsqueeze(1 + place)
        return values

    def _axes(self, entry: InputSignature) -> list[AxisSignature]:
        return [self.signature.coordinates[self.signature.axis(name)] for name in entry.of]


def inputs_at(reader: GridInputs, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
    """Read every input at queries: a smooth one by its harmonic fit, one with jumps by sensors.

    Args:
        reader: Whose fits are used.
        inputs: Sensors of B functions.
        queries: ``[B or 1, N, D]``.

    Returns:
        ``[B, N, features]``, standardised; B = 1 where there are no inputs and one set of queries.
    """
    signature, columns = reader.signature, []
    for entry in signature.inputs:
        values = standardised(entry, inputs[entry.name])
        if entry.of:
            fit: HarmonicFit = reader.fits[entry.name]  # type: ignore[assignment]
            places = torch.stack([queries[..., signature.axis(name)] for name in entry.of], -1)
            if entry.smooth:
                values = fit.basis(places) @ fit(inputs[entry.name])
            else:
                values = nearest_values(values, inputs[entry.name], places, fit.axes)
        columns.append(values)
    batch = max([len(queries), *(len(column) for column in columns)])
    count = queries.shape[1]
    if not columns:
        return queries.new_zeros(batch, count, 0)
    return torch.cat([column.expand(batch, count, -1) for column in columns], -1)


MOST_VALUES = 2**22
"""Values between grid and queries that are held at once: bounds memory."""


class GridBackbone(Backbone, ABC):
    """A network on the tensor grid of some of the coordinates.

    It is evaluated on the grid that is asked for where that resolves its layers, else on its own,
    and read off there: round periods by harmonics, elsewhere by cubics.

    Args:
        signature: The problem's shapes and scales.
        columns: Coordinates that the grid has; without the time, the end of it is answered.

    Attributes:
        axes: Those coordinates.
        inputs: Reads inputs on a grid.
    """

    field = GRID_FIELD
    scattered = False

    def __init__(self, signature: Signature, columns: Sequence[int]) -> None:
        super().__init__(signature)
        self.columns = tuple(columns)
        self.axes = tuple(signature.coordinates[i] for i in self.columns)
        self.inputs = GridInputs(signature, self.columns)

    @abstractmethod
    def evaluate(self, inputs: Mapping[str, FunctionSamples], ticks: Sequence[Tensor]) -> Tensor:
        """Apply the layers on a grid that resolves them.

        Args:
            inputs: As in :meth:`forward`.
            ticks: Positions along the network's axes, ``[n_1], …, [n_D]``.

        Returns:
            ``[B, n_1, …, n_D, C]``.
        """

    @abstractmethod
    def resolution(self, axis: int) -> int:
        """Points of the network's own grid along one of its axes."""

    @abstractmethod
    def resolves(self, axis: int, count: int) -> bool:
        """Whether the layers are evaluated on a grid of so many points, not interpolated to it."""

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one, as inputs are encoded once for the grid: :meth:`Backbone.context_length`."""
        return 1

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Interpolate from the network's own grid: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        ticks = [self.own(i, queries) for i in range(len(self.axes))]
        values = self.evaluate(inputs, ticks)
        size = max(1, MOST_VALUES // (values[:, 0].numel() or 1))
        places = torch.stack([queries[..., i] for i in self.columns], -1)
        pieces = places.split(size, 1)
        return torch.cat([interpolate_grid(values, ticks, self.axes, p) for p in pieces], 1)

    def on_grid(self, inputs: Mapping[str, FunctionSamples], axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on a tensor grid: see :meth:`Backbone.on_grid`.

        Times are taken to run evenly from the first to the last, ends included, and periodic axes
        to be divided evenly.
        """
        self.check(inputs, torch.stack([axis[0] for axis in axes]))
        given = [axes[i] for i in self.columns]
        laid = [
            tick if self.resolves(i, len(tick)) else self.own(i, tick)
            for i, tick in enumerate(given)
        ]
        values = self.evaluate(inputs, laid)
        for i, (wanted, tick) in enumerate(zip(given, laid, strict=True)):
            if wanted is not tick:
                weights = interpolation_weights(tick, wanted, self.axes[i]).to(values)
                values = (weights @ values.movedim(i + 1, -2)).movedim(-2, i + 1)
        time = self.signature.time
        if time is None or time in self.columns:
            return values
        return values[:, None].expand(-1, len(axes[time]), *values.shape[1:])

    def own(self, axis: int, like: Tensor) -> Tensor:
        """Positions of the network's own grid along one of its axes."""
        return even_ticks(self.axes[axis], self.resolution(axis), like)
