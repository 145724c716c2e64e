"""Input functions of any coordinates, and the bases of one coordinate that products are made of."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from piop.fields import Device, FunctionSamples, InputFunction, chunks, nearest_sensor_values


class Basis(ABC):
    """K functions b_k of one coordinate."""

    @property
    @abstractmethod
    def size(self) -> int:
        """K, the number of functions."""

    @abstractmethod
    def table(self, x: Tensor, order: int = 0) -> Tensor:
        """Evaluate the derivative of this order of every function.

        Args:
            x: Any shape ``[...]``.
            order: At least 0.

        Returns:
            ``[..., K]``, units of x to the power −order.
        """

    def combine(self, x: Tensor, values: Tensor, order: int = 0) -> Tensor:
        """Sum the functions at points, with weights of many sums.

        Args:
            x: ``[B or 1, N]``.
            values: The weights ``[B, K, R]``, or others at each point ``[B, N, K, R]``.
            order: Of the derivative.

        Returns:
            ``[B, N, R]``.
        """
        table = self.table(x, order)
        if values.ndim == 3:
            return table @ values
        return torch.einsum("bnk,bnkr->bnr", table.expand(values.shape[0], -1, -1), values)

    def along(self, x: Tensor, values: Tensor, order: int = 0) -> Tensor:
        """Sum the functions at points ``[n]`` with weights ``[..., K]``: ``[..., n]``."""
        return values @ self.table(x, order).mT

    @abstractmethod
    def to(self, device: Device, dtype: torch.dtype | None) -> Self:
        """Move to a device or dtype."""


@final
@dataclass(frozen=True)
class TrigonometricBasis(Basis):
    """b_k(x) = scale_k cos(frequency_k (x − origin) + phase_k); one form for all boundaries.

    Attributes:
        frequency: Angular frequencies ``[K]`` ≥ 0, inverse units of x.
        phase: Radians ``[K]``: 0 for a cosine, −π/2 for a sine.
        scale: Prefactors ``[K]``.
        origin: Point at which the phases are given, usually the low end of the axis.
    """

    frequency: Tensor
    phase: Tensor
    scale: Tensor
    origin: float

    @classmethod
    def periodic(cls, wavenumbers: Tensor, low: float, high: float, *, unit: bool) -> Self:
        """Cosines, then sines, of whole numbers of periods on [low, high].

        Args:
            wavenumbers: ``[n]`` whole numbers ≥ 0; 0 gives the constant and no sine.
            low: Low end.
            high: High end.
            unit: True for functions orthonormal in L2(low, high), False for amplitude 1.
        """
        k = wavenumbers.double()
        sines = k[k > 0]
        frequency = 2 * math.pi / (high - low) * torch.cat((k, sines))
        phase = torch.cat((torch.zeros_like(k), torch.full_like(sines, -math.pi / 2)))
        return cls._scaled(frequency, phase, low, high, unit)

    @classmethod
    def half_waves(cls, count: int, low: float, high: float, kind: Literal["cos", "sin"]) -> Self:
        """Orthonormal cosines of 0 … count half waves on [low, high], or sines of 1 … count."""
        k = torch.arange(0 if kind == "cos" else 1, count + 1, dtype=torch.float64)
        phase = torch.full_like(k, 0.0 if kind == "cos" else -math.pi / 2)
        return cls._scaled(math.pi / (high - low) * k, phase, low, high, unit=True)

    @classmethod
    def _scaled(cls, frequency: Tensor, phase: Tensor, low: float, high: float, unit: bool) -> Self:
        length = high - low
        norm = ((1 + (frequency > 0).to(frequency)) / length).sqrt()
        return cls(frequency, phase, norm if unit else torch.ones_like(norm), low)

    @property
    def size(self) -> int:
        """K, the number of functions."""
        return self.frequency.shape[0]

    @property
    def mean_square(self) -> Tensor:
        """Averages of b_k² over the axis ``[K]``; the functions are orthogonal to each other."""
        return self.scale**2 / (1 + (self.frequency > 0).to(self.scale))

    def table(self, x: Tensor, order: int = 0) -> Tensor:
        """Evaluate the derivative of this order: each one shifts the phase by π/2."""
        angle = (x - self.origin)[..., None] * self.frequency + self.phase
        factor = self.scale * self.frequency**order
        return factor * _shifted_cosine(angle, order)

    def to(self, device: Device, dtype: torch.dtype | None) -> Self:
        """Move to a device or dtype."""
        parts = (self.frequency, self.phase, self.scale)
        frequency, phase, scale = (p.to(device=device, dtype=dtype) for p in parts)
        return replace(self, frequency=frequency, phase=phase, scale=scale)


def _shifted_cosine(angle: Tensor, quarters: int) -> Tensor:
    """cos(angle + quarters·π/2) without adding to the angle, so that no accuracy is lost."""
    value = angle.cos() if quarters % 2 == 0 else angle.sin()
    return value if quarters % 4 in (0, 3) else -value


@final
@dataclass(frozen=True)
class SplineBasis(Basis):
    """B-splines of one degree over non-decreasing knots; zero derivatives above the degree.

    Attributes:
        knots: ``[K + degree + 1]``, the first and last ``degree + 1`` of them equal.
        degree: 0 for steps, 1 for broken lines, 3 for cubic splines.

    Source: de Boor 2001, "A Practical Guide to Splines", ch. IX eq. 14 and ch. X eq. 15.
    """

    knots: Tensor
    degree: int

    @property
    def size(self) -> int:
        """K, the number of functions."""
        return self.knots.shape[0] - self.degree - 1

    def table(self, x: Tensor, order: int = 0) -> Tensor:
        """See the base class; outside the knots the end polynomials continue."""
        index, weight = self._present(x, order)
        return weight.new_zeros(*x.shape, self.size).scatter(-1, index, weight)

    def combine(self, x: Tensor, values: Tensor, order: int = 0) -> Tensor:
        """See the base class; costs N·(degree + 1) products."""
        index, weight = self._present(x, order)
        index = index.expand(values.shape[0], -1, -1)
        if values.ndim == 3:
            rows = torch.arange(values.shape[0], device=values.device)[:, None, None]
            found = values[rows, index]
        else:
            found = values.gather(2, index[..., None].expand(-1, -1, -1, values.shape[-1]))
        return (weight[..., None] * found).sum(2)

    def along(self, x: Tensor, values: Tensor, order: int = 0) -> Tensor:
        """See the base class."""
        index, weight = self._present(x, order)
        return (values[..., index] * weight).sum(-1)

    def _present(self, x: Tensor, order: int) -> tuple[Tensor, Tensor]:
        """The functions that are not zero at points: their numbers and values ``[..., p + 1]``."""
        t, p = self.knots, self.degree
        inner = t[p + 1 : self.size].contiguous()
        span = p + torch.searchsorted(inner, x.detach().contiguous(), right=True)
        index = span[..., None] + torch.arange(-p, 1, device=x.device)
        if order > p:
            return index, x.new_zeros(index.shape)
        values = torch.ones_like(x)[..., None]
        for degree in range(1, p + 1):
            low, high = index[..., p + 1 - degree :], index[..., -degree:] + degree
            part = values / (t[high] - t[low])
            if degree <= p - order:
                rise, fall = (x[..., None] - t[low]) * part, (t[high] - x[..., None]) * part
            else:
                rise, fall = degree * part, -degree * part
            values = pad(rise, (1, 0)) + pad(fall, (0, 1))
        return index, values

    def to(self, device: Device, dtype: torch.dtype | None) -> Self:
        """Move to a device or dtype."""
        return replace(self, knots=self.knots.to(device=device, dtype=dtype))


_CHUNK = 2**24  # numbers in the largest temporary of one evaluation, to bound memory


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
        >>> basis = basis.to(None, torch.float32)
        >>> one = torch.tensor([[1.0, 0.0]])
        >>> cosine = ProductFunction(one, (basis,), torch.zeros(1))
        >>> cosine(torch.tensor([[[0.0], [0.5]]]))
        tensor([[ 1., -1.]])
    """

    coefficients: Tensor
    bases: tuple[Basis, ...]
    offset: Tensor

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
        width = self.batch * math.prod(self.coefficients.shape[2:])
        parts = chunks(points.shape[1], width, _CHUNK)
        values = torch.cat([self._at(points[:, part], order) for part in parts], dim=1)
        return self._shifted(values, order)

    def _at(self, points: Tensor, order: Sequence[int]) -> Tensor:
        values = self.coefficients.flatten(1)
        for basis, x, n in zip(self.bases, points.unbind(-1), order, strict=True):
            values = basis.combine(x, values.unflatten(-1, (basis.size, -1)), n)
        return values.squeeze(-1)

    def on_grid(self, axes: Sequence[Tensor], order: Sequence[int] | None = None) -> Tensor:
        """Evaluate on a tensor grid, one matrix product per axis: ``[B, n1, …, nd]``."""
        order = order or (0,) * self.dimension
        values = self.coefficients
        for basis, axis, n in zip(self.bases, axes, order, strict=True):
            values = basis.along(axis.to(self.coefficients), values.movedim(1, -1), n)
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

    def combined(self, weights: Tensor) -> Self:
        """See the base class."""
        coefficients = (weights @ self.coefficients.flatten(1)).unflatten(
            1, self.coefficients.shape[1:]
        )
        offset = self.offset if len(self.offset) == 1 else weights @ self.offset
        return replace(self, coefficients=coefficients, offset=offset)

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
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
        return self.values.shape[0]

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        return replace(self, values=self.values[index])

    def combined(self, weights: Tensor) -> Self:
        """See the base class."""
        values = weights @ self.values.flatten(1) if self.values.ndim > 1 else weights @ self.values
        return replace(self, values=values.reshape(-1, *self.values.shape[1:]))

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device or dtype."""
        return replace(self, values=self.values.to(device=device, dtype=dtype))


@final
@dataclass(frozen=True)
class ScalarFunction(TabulatedFunction):
    """A number per function, of no coordinates: its points have shape ``[B, 1, 0]``.

    Attributes:
        values: ``[B]``, units of the input.
    """

    @property
    def dimension(self) -> int:
        """No coordinate."""
        return 0

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Return the value at every point, where the order is ``()``: ``[B, N]``."""
        del order
        return self.values[:, None].expand(-1, points.shape[1])


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
        return self.samples.values.shape[0]

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

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device or dtype."""
        return replace(self, samples=self.samples.to(device=device, dtype=dtype))
