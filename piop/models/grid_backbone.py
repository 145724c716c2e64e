"""What backbones on tensor grids share: inputs, a grid of their own, and places between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.models.base import Backbone, Signature
from piop.models.grid_inputs import GridInputs
from piop.models.interpolation import even_ticks, values_between, weights_between

AT_ONCE = 2**22
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

    field = "grid"
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

    def meets(self, sensors: Mapping[str, int]) -> int:
        """Count one: inputs are read once for the whole grid (see :meth:`Backbone.meets`)."""
        return 1

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Interpolate from the network's own grid: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        ticks = [self.own(i, queries) for i in range(len(self.axes))]
        values = self.evaluate(inputs, ticks)
        size = max(1, AT_ONCE // (values[:, 0].numel() or 1))
        places = torch.stack([queries[..., i] for i in self.columns], -1)
        pieces = places.split(size, 1)
        return torch.cat([values_between(values, ticks, self.axes, p) for p in pieces], 1)

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
                weights = weights_between(tick, wanted, self.axes[i]).to(values)
                values = (weights @ values.movedim(i + 1, -2)).movedim(-2, i + 1)
        time = self.signature.time
        if time is None or time in self.columns:
            return values
        return values[:, None].expand(-1, len(axes[time]), *values.shape[1:])

    def own(self, axis: int, like: Tensor) -> Tensor:
        """Positions of the network's own grid along one of its axes."""
        return even_ticks(self.axes[axis], self.resolution(axis), like)
