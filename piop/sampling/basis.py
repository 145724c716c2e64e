"""Functions of one coordinate from which product bases are made: trigonometric and spline."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, Self, final

import torch
from torch import Tensor


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

    @abstractmethod
    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> Self:
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

    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> Self:
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
        """Evaluate the derivative of this order; outside the knots the end polynomials continue."""
        if order > self.degree:
            return x.new_zeros(*x.shape, self.size)
        t, p = self.knots, self.degree
        inner = t[p + 1 : self.size].contiguous()
        interval = p + torch.searchsorted(inner, x.detach().contiguous(), right=True)
        values = torch.nn.functional.one_hot(interval, len(t) - 1).to(x.dtype)
        for degree in range(1, p - order + 1):
            left, right = self._widths(degree)
            rise = (x[..., None] - t[: -degree - 1]) * left
            fall = (t[degree + 1 :] - x[..., None]) * right
            values = rise * values[..., :-1] + fall * values[..., 1:]
        for degree in range(p - order + 1, p + 1):
            left, right = self._widths(degree)
            values = degree * (left * values[..., :-1] - right * values[..., 1:])
        return values

    def _widths(self, degree: int) -> tuple[Tensor, Tensor]:
        """Reciprocal widths of the supports one degree below, 0 where they are empty."""
        width = self.knots[degree:] - self.knots[:-degree]
        inverse = torch.where(width > 0, 1 / width.clamp_min(1e-300), torch.zeros_like(width))
        return inverse[:-1], inverse[1:]

    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> Self:
        """Move to a device or dtype."""
        return replace(self, knots=self.knots.to(device=device, dtype=dtype))
