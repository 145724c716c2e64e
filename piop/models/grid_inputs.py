"""Input functions laid on a tensor grid, as networks that answer on grids read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.base import AxisSignature, InputSignature, Signature, standardised
from piop.models.fixed import PAIRS, nearest
from piop.models.spectrum import Spectrum

LEVEL = 1e-4
"""Sensors that are closer than this share of an axis lie on one line of their grid."""

NUDGE = 1e-5
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
        self.fits = nn.ModuleDict({e.name: Spectrum(e, self._axes(e)) for e in signature.functions})

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
        fit: Spectrum = self.fits[entry.name]  # type: ignore[assignment]
        places = [self.columns.index(self.signature.axis(name)) for name in entry.of]
        ticks = [axes[place] for place in places]
        if not entry.smooth:
            ticks = [t + NUDGE * (a.high - a.low) for t, a in zip(ticks, fit.axes, strict=True)]
        mesh = torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).reshape(1, -1, len(ticks))
        if entry.smooth:
            values = fit.basis(mesh) @ fit(samples)
        else:
            values = standardised(entry, samples)
            few = mesh.shape[1] * samples.points.shape[1] <= PAIRS
            if few or samples.mask is not None:
                values = nearest(values, samples, mesh, fit.axes)
            else:
                values = values[:, nearest_of_grid(samples.points[0], ticks, fit.axes)]
        values = values.unflatten(1, [len(tick) for tick in ticks])
        # The coordinates of an input may come in another order than those of the grid.
        order = sorted(range(len(places)), key=lambda i: places[i])
        values = values.permute(0, *[1 + i for i in order], -1)
        for place in range(len(axes)):
            values = values if place in places else values.unsqueeze(1 + place)
        return values

    def _axes(self, entry: InputSignature) -> list[AxisSignature]:
        return [self.signature.coordinates[self.signature.axis(name)] for name in entry.of]


def nearest_of_grid(
    points: Tensor, ticks: Sequence[Tensor], axes: Sequence[AxisSignature]
) -> Tensor:
    """Find the nearest sensor of each point of a grid, where sensors are on an even grid as well.

    Counted, not searched: along each axis sensors lie on m even lines, so the line and with it the
    sensor follow by division, whatever the order in which sensors are listed.

    Args:
        points: Sensors ``[M, d]`` on a full even grid.
        ticks: Positions along each of the d axes.
        axes: Those axes; beyond the last line of a periodic one comes the first.

    Returns:
        Indices into the sensors ``[n_1 ⋯ n_d]``.
    """
    count = len(points)
    place = torch.zeros(count, dtype=torch.long, device=points.device)
    wanted = place.new_zeros(())
    for i, (tick, axis) in enumerate(zip(ticks, axes, strict=True)):
        column = points[:, i]
        low, high = column.min(), column.max()
        lines = count // (column < low + LEVEL * (axis.high - axis.low)).sum()
        step = ((high - low) / (lines - 1).clamp(min=1)).clamp(min=1e-30)
        place = place * lines + ((column - low) / step).round().long()
        line = ((tick - low) / step).clamp(-2e9, 2e9).round().long()
        line = line.remainder(lines) if axis.periodic else line.clamp(min=0).minimum(lines - 1)
        wanted = wanted[..., None] * lines + line
    listed = torch.zeros_like(place).scatter(0, place, torch.arange(count, device=points.device))
    return listed[wanted.flatten()]
