"""The interpolant of last resort: what the nearest sensor sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import torch
from torch import Tensor

from piop.fields import InputFunction

PAIRS = 2**22
"""Distances between points and sensors held at once: bounds memory."""


@final
@dataclass(frozen=True)
class NearestFunction(InputFunction):
    """The value at the nearest sensor, distances measured in lengths of the axes.

    Attributes:
        points: ``[B, M, d]``.
        values: ``[B, M]``.
        mask: True where a sensor is real ``[B, M]``, or None.
        lengths: Of the axes ``[d]``.
        periodic: Whether the distance runs over the end, for each axis.
    """

    points: Tensor
    values: Tensor
    mask: Tensor | None
    lengths: tuple[float, ...]
    periodic: tuple[bool, ...]

    @property
    def batch(self) -> int:  # type: ignore[override]
        """B, the number of functions."""
        return len(self.values)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """d, the number of coordinates."""
        return len(self.lengths)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``points [B or 1, N, d]``: ``[B, N]``; derivatives are zero."""
        if any(order):
            return self.values.new_zeros(self.batch, points.shape[1])
        size = max(1, PAIRS // self.values.numel())
        pieces = points.split(size, 1)
        return torch.cat([self._at(piece) for piece in pieces], 1)

    def _at(self, points: Tensor) -> Tensor:
        square = self.values.new_zeros(())
        for axis, (length, periodic) in enumerate(zip(self.lengths, self.periodic, strict=True)):
            step = (
                points[..., None, axis].to(self.points) - self.points[:, None, :, axis]
            ) / length
            square = square + (step - step.round() if periodic else step) ** 2
        if self.mask is not None:
            square = torch.where(self.mask[:, None], square, torch.inf)
        return self.values.gather(1, square.argmin(-1))

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        mask = None if self.mask is None else self.mask[index]
        return replace(self, points=self.points[index], values=self.values[index], mask=mask)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move to a device or dtype."""
        mask = None if self.mask is None else self.mask.to(device)
        points, values = (v.to(device=device, dtype=dtype) for v in (self.points, self.values))
        return replace(self, points=points, values=values, mask=mask)
