"""Backbones on tensor grids: inputs interpolated to a grid, outputs interpolated from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from piop.fields import MAX_PAIRS, FunctionSamples, chunks, tensor_grid
from piop.models.core.base import (
    GRID_FIELD,
    Backbone,
    Inputs,
    InputSignature,
    Signature,
    standardised,
)
from piop.models.core.coordinates import take_columns
from piop.models.core.harmonic_fit import HarmonicFit
from piop.models.core.interpolation import (
    even_ticks,
    interpolate_grid,
    interpolation_weights,
    nearest_on_grid,
    nearest_values,
)

TIE_SHIFT = 1e-5
"""Fraction of an axis by which points are moved up before their nearest sensor is searched: midway
between two, the upper one is taken in every precision and in whatever order sensors are listed."""


class InputInterpolator(nn.Module):
    """Evaluates inputs at any points: smooth ones from harmonic fits, others at nearest sensors.

    Given sensors that resolve a smooth input, the values do not depend on where those are.

    Args:
        signature: The problem's shapes and scales.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature
        self.fits = nn.ModuleDict(
            {e.name: HarmonicFit(e, signature.axes_of(e)) for e in signature.functions}
        )

    def fit(self, entry: InputSignature) -> HarmonicFit:
        """Return the harmonic fit of an input function."""
        return cast(HarmonicFit, self.fits[entry.name])

    def interpolate(
        self, entry: InputSignature, samples: FunctionSamples, points: Tensor
    ) -> Tensor:
        """Evaluate an input at ``points [1 or B, N, d]``: ``[B, N or 1, c]``, standardised."""
        if not entry.of:
            return standardised(entry, samples)
        fit = self.fit(entry)
        if entry.smooth:
            return fit.basis(points) @ fit(samples)
        return nearest_values(entry, samples, points, fit.axes)


class GridInputs(InputInterpolator):
    """Interpolates every input to a tensor grid.

    Args:
        signature: The problem's shapes and scales.
        columns: Coordinates that the grid has, as columns of the queries.

    Attributes:
        features: Values per point: channels of functions, and the scalars.
    """

    def __init__(self, signature: Signature, columns: Sequence[int]) -> None:
        super().__init__(signature)
        self.columns = tuple(columns)
        self.features = sum(entry.channels for entry in signature.inputs)

    def forward(self, inputs: Inputs, axes: Sequence[Tensor]) -> Tensor:
        """Interpolate the inputs.

        Args:
            inputs: Sensors of B samples.
            axes: Positions along each coordinate of the grid, ``[n_1], …, [n_D]``.

        Returns:
            ``[B, n_1, …, n_D, features]``, standardised; B = 1 where there are no inputs.
        """
        grid, columns = [len(axis) for axis in axes], []
        for entry in self.signature.inputs:
            samples = inputs[entry.name]
            if entry.of:
                columns.append(self._on_grid(entry, samples, axes))
            else:
                columns.append(standardised(entry, samples).unflatten(1, [1] * len(grid)))
        if not columns:
            return axes[0].new_zeros(1, *grid, 0)
        return torch.cat([column.expand(-1, *grid, -1) for column in columns], -1)

    def at(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Interpolate the inputs to scattered queries.

        Args:
            inputs: Sensors of B samples.
            queries: ``[B or 1, N, D]``.

        Returns:
            ``[B, N, features]``, standardised; B = 1 for shared queries without inputs.
        """
        columns, count = [], queries.shape[1]
        for entry in self.signature.inputs:
            points = take_columns(queries, [self.signature.axis(name) for name in entry.of])
            columns.append(self.interpolate(entry, inputs[entry.name], points))
        batch = max([len(queries), *map(len, columns)])
        if not columns:
            return queries.new_zeros(batch, count, 0)
        return torch.cat([column.expand(batch, count, -1) for column in columns], -1)

    def _on_grid(
        self, entry: InputSignature, samples: FunctionSamples, axes: Sequence[Tensor]
    ) -> Tensor:
        """Values of a function; axes that it does not depend on have length one."""
        places = [self.columns.index(self.signature.axis(name)) for name in entry.of]
        ticks, own = [axes[place] for place in places], self.signature.axes_of(entry)
        if not entry.smooth:
            ticks = [t + TIE_SHIFT * (a.high - a.low) for t, a in zip(ticks, own, strict=True)]
        points = tensor_grid(ticks)[None]
        few = points.shape[1] * samples.points.shape[1] <= MAX_PAIRS
        if entry.smooth or few or samples.mask is not None:
            values = self.interpolate(entry, samples, points)
        else:
            nearest = nearest_on_grid(samples.points[0], ticks, own)
            values = standardised(entry, samples)[:, nearest]
        values = values.unflatten(1, [len(tick) for tick in ticks])
        # The coordinates of an input may come in another order than those of the grid.
        order = sorted(range(len(places)), key=lambda i: places[i])
        values = values.permute(0, *[1 + i for i in order], -1)
        counts = [len(axis) if i in places else 1 for i, axis in enumerate(axes)]
        return values.reshape(values.shape[0], *counts, -1)


MOST_VALUES = 2**22
"""Values between grid and queries held in memory at once."""


class GridBackbone(Backbone, ABC):
    """A network on the tensor grid of all coordinates, or of space where it has the end alone.

    It is evaluated on the requested grid where that resolves its layers, else on a grid of its own,
    and interpolated from there: by harmonics along periodic axes, elsewhere by cubics.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes and choices.

    Attributes:
        columns: Coordinates of the grid, as columns of the queries.
        axes: Those coordinates.
        inputs: Interpolates inputs to a grid.
    """

    field = GRID_FIELD
    scattered = False
    context_points = 1  # inputs are encoded once for the grid

    def __init__(self, signature: Signature, config: Any) -> None:
        super().__init__(signature, config)
        self.columns = self.grid_columns(signature)
        self.axes = tuple(signature.coordinates[i] for i in self.columns)
        self.inputs = GridInputs(signature, self.columns)

    @classmethod
    def refusal(cls, signature: Signature, config: Any) -> str | None:
        """Refuse inputs that cannot be interpolated to the grid: see :meth:`Backbone.refusal`."""
        names = [signature.coordinates[i].name for i in cls.grid_columns(signature)]
        for entry in signature.functions:
            if not entry.smooth and not entry.gridded:
                return f"input {entry.name!r} has jumps and its sensors are not on an even grid"
            beyond = [name for name in entry.of if name not in names]
            if beyond:
                return f"input {entry.name!r} depends on {beyond[0]}, which its grid does not have"
        return None

    @classmethod
    def grid_columns(cls, signature: Signature) -> tuple[int, ...]:
        """Coordinates of the grid, as columns of the queries."""
        return signature.space_columns if cls.end_only else tuple(range(len(signature.coordinates)))

    @abstractmethod
    def evaluate(self, inputs: Inputs, ticks: Sequence[Tensor]) -> Tensor:
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
        """Whether the layers are evaluated on ``count`` points of an axis, not interpolated."""

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Interpolate from the network's own grid: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        ticks = [self.own_ticks(i, queries) for i in range(len(self.axes))]
        values = self.evaluate(inputs, ticks)
        points = take_columns(queries, self.columns)
        parts = chunks(points.shape[1], values[:, 0].numel(), MOST_VALUES)
        found = [interpolate_grid(values, ticks, self.axes, points[:, part]) for part in parts]
        return torch.cat(found, 1)

    def on_grid(self, inputs: Inputs, axes: Sequence[Tensor]) -> Tensor:
        """Evaluate on a tensor grid: see :meth:`Backbone.on_grid`.

        Times are taken to run evenly from the first to the last, ends included, and periodic axes
        to be divided evenly.
        """
        self.check(inputs, torch.stack([axis[0] for axis in axes]))
        wanted = [axes[i] for i in self.columns]
        ticks = [
            tick if self.resolves(i, len(tick)) else self.own_ticks(i, tick)
            for i, tick in enumerate(wanted)
        ]
        values = self.evaluate(inputs, ticks)
        for i, (target, tick) in enumerate(zip(wanted, ticks, strict=True)):
            if target is not tick:
                weights = interpolation_weights(tick, target, self.axes[i]).to(values)
                values = (weights @ values.movedim(i + 1, -2)).movedim(-2, i + 1)
        time = self.signature.time
        if time is None or time in self.columns:
            return values
        return values[:, None].expand(-1, len(axes[time]), *values.shape[1:])

    def own_ticks(self, axis: int, like: Tensor) -> Tensor:
        """Positions of the network's own grid along one of its axes."""
        return even_ticks(self.axes[axis], self.resolution(axis), like)
