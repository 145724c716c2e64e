"""Input functions that can be evaluated, with all their derivatives, at any points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self, final

import torch
from torch import Tensor

from piop.fields import FunctionSamples, InputFunction, nearest_sensor_values
from piop.sampling.basis import Basis

_CHUNK = 2**24  # numbers in the largest temporary of one evaluation, to bound memory


@final
@dataclass(frozen=True)
class ProductFunction(InputFunction):
    """A sum of products of functions of one coordinate.

    f(x) = offset + Σ c[k1, …, kd] b1_k1(x_1) ⋯ bd_kd(x_d).

    Attributes:
        coefficients: ``[B, K1, …, Kd]``, units of the input.
        bases: One basis per coordinate, in its order: trigonometric, or splines.
        offset: Constant added, units of the input: ``[1]`` for all functions, or ``[B]``.

    Example:
        >>> basis = TrigonometricBasis.periodic(torch.tensor([1]), 0.0, 1.0, unit=False)
        >>> cosine = ProductFunction(torch.tensor([[1.0, 0.0]]), (basis.to(None, torch.float32),))
        >>> cosine(torch.tensor([[[0.0], [0.5]]]))
        tensor([[ 1., -1.]])
    """

    coefficients: Tensor
    bases: tuple[Basis, ...]
    offset: Tensor = field(default_factory=lambda: torch.zeros(1))

    @property
    def batch(self) -> int:
        """B, the number of functions."""
        return self.coefficients.shape[0]

    @property
    def dimension(self) -> int:
        """d, the number of coordinates."""
        return len(self.bases)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate a derivative at ``points [B or 1, N, d]``: ``[B, N]``.

        Costs N·K1⋯Kd products for each function, and N·(K1 + … + Kd) cosines.
        """
        points = points.to(self.coefficients)
        width = max(1, self.batch * math.prod(self.coefficients.shape[2:]))
        chunks = points.split(max(1, _CHUNK // width), dim=1)
        values = torch.cat([self._at(chunk, order) for chunk in chunks], dim=1)
        return self._shifted(values, order)

    def _at(self, points: Tensor, order: Sequence[int]) -> Tensor:
        columns = zip(self.bases, points.unbind(-1), order, strict=True)
        first, *others = [basis.table(x, n) for basis, x, n in columns]  # each [B or 1, N, K]
        flat = self.coefficients.reshape(self.batch, first.shape[-1], -1)
        values = first @ flat  # [B, N, K2⋯Kd]
        for table in others:
            values = values.unflatten(-1, (table.shape[-1], -1))
            values = torch.einsum("bnk,bnkr->bnr", table.expand(len(values), -1, -1), values)
        return values.squeeze(-1)

    def on_grid(self, axes: Sequence[Tensor], order: Sequence[int] | None = None) -> Tensor:
        """Evaluate on a tensor grid, one matrix product per axis: ``[B, n1, …, nd]``."""
        order = order or (0,) * self.dimension
        values = self.coefficients
        for basis, axis, n in zip(self.bases, axes, order, strict=True):
            table = basis.table(axis.to(self.coefficients), n)
            values = values.movedim(1, -1) @ table.mT  # the new axis comes last
        return self._shifted(values, order)

    def _shifted(self, values: Tensor, order: Sequence[int]) -> Tensor:
        """Add the constant to values ``[B, …]``, unless they are a derivative's."""
        if any(order):
            return values + 0.0
        return values + self.offset.reshape(-1, *[1] * (values.ndim - 1))

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        offset = self.offset.expand(self.batch)[index]
        return replace(self, coefficients=self.coefficients[index], offset=offset)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move to a device or dtype."""
        return replace(
            self,
            coefficients=self.coefficients.to(device=device, dtype=dtype),
            bases=tuple(basis.to(device, dtype) for basis in self.bases),
            offset=self.offset.to(device=device, dtype=dtype),
        )


@dataclass(frozen=True)
class TabulatedFunction(InputFunction):
    """Functions that are given by a table of values.

    Attributes:
        values: ``[B, …]``, units of the input.
    """

    values: Tensor

    @property
    def batch(self) -> int:
        """B, the number of functions."""
        return len(self.values)

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        return replace(self, values=self.values[index])

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move to a device or dtype."""
        return replace(self, values=self.values.to(device=device, dtype=dtype))


@final
@dataclass(frozen=True)
class ScalarFunction(TabulatedFunction):
    """A number per function; of d > 0 coordinates, constant in them.

    Attributes:
        values: ``[B]``, units of the input.
        coordinates: d; 0 for a scalar input, whose points have shape ``[B, 1, 0]``.
    """

    coordinates: int = 0

    @property
    def dimension(self) -> int:
        """d, the number of coordinates."""
        return self.coordinates

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Return the value at every point, or zeros for a derivative: ``[B, N]``."""
        values = torch.zeros_like(self.values) if any(order) else self.values
        return values[:, None].expand(-1, points.shape[1])


@final
@dataclass(frozen=True)
class PiecewiseConstantFunction(TabulatedFunction):
    """Equal cells of a box, each with its value; derivatives are zero, the jumps left out.

    Attributes:
        values: ``[B, n1, …, nd]``, units of the input.
        low: Low ends of the box ``[d]``.
        high: High ends ``[d]``.
        periodic: For each axis, whether points beyond an end are folded back; else the end cell
            continues.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    periodic: tuple[bool, ...]

    @property
    def dimension(self) -> int:
        """d, the number of coordinates."""
        return len(self.low)

    def cells(self, points: Tensor) -> Tensor:
        """Number of the cell, rows first, of each of ``points [..., d]``: int64 ``[...]``."""
        flat = torch.zeros(points.shape[:-1], dtype=torch.int64, device=points.device)
        for axis, count in enumerate(self.values.shape[1:]):
            length = self.high[axis] - self.low[axis]
            cell = ((points[..., axis] - self.low[axis]) / length * count).floor().long()
            cell = cell % count if self.periodic[axis] else cell.clamp(0, count - 1)
            flat = flat * count + cell
        return flat

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``points [B or 1, N, d]``: ``[B, N]``."""
        if any(order):
            return self.values.new_zeros(self.batch, points.shape[1])
        cells = self.cells(points).expand(self.batch, -1)
        return self.values.flatten(1).gather(1, cells)


@final
@dataclass(frozen=True)
class NearestFunction(InputFunction):
    """The value at the nearest sensor, distances measured in lengths of the axes.

    Attributes:
        samples: The sensors, one channel.
        lengths: Of the axes ``[d]``.
        periodic: Whether the distance runs over the end, for each axis.
    """

    samples: FunctionSamples
    lengths: tuple[float, ...]
    periodic: tuple[bool, ...]

    @property
    def batch(self) -> int:
        """B, the number of functions."""
        return len(self.samples.values)

    @property
    def dimension(self) -> int:
        """d, the number of coordinates."""
        return len(self.lengths)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``points [B or 1, N, d]``: ``[B, N]``; derivatives are zero."""
        if any(order):
            return self.samples.values.new_zeros(self.batch, points.shape[1])
        points = points.to(self.samples.points)
        return nearest_sensor_values(self.samples, points, self.lengths, self.periodic)[..., 0]

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        return replace(self, samples=self.samples.take(index))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move to a device or dtype."""
        return replace(self, samples=self.samples.to(device=device, dtype=dtype))
