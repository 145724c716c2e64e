"""Parts of the plane in which data of a problem count: a region, or a face of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from piop.domain import Outline


@dataclass(frozen=True)
class Support(ABC):
    """A part of the plane.

    Attributes:
        outline: Boundary of the region, or the curves of a face.
        cell: Length of the cells of the coarsest mesh.
        thin: Whether it crosses boxes in any direction, so that their sides must be alike.
    """

    outline: Outline
    cell: float
    thin: ClassVar[bool] = False

    @abstractmethod
    def measure(self, size: Tensor, distance: Tensor) -> Tensor:
        """Measure the part of it in boxes ``[n]``, zero in those that are off it.

        Args:
            size: Lengths of their sides ``[n, 2]``.
            distance: Of their centres, negative outside the region.
        """

    @abstractmethod
    def off(self, distance: Tensor) -> Tensor:
        """Whether points at these distances are not in it."""

    def nearest(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Points of it nearest to points ``[n, 2]``, and the distances of the latter ``[n]``."""
        found = self.outline.nearest(points.cpu().numpy())
        feet, distance = (torch.from_numpy(v).to(points.device) for v in found)
        return torch.where(self.off(distance)[:, None], feet, points), distance


@final
class Region(Support):
    """The inside of a region."""

    def measure(self, size: Tensor, distance: Tensor) -> Tensor:
        """See the base class: the area of boxes that may reach into it."""
        return size.prod(1) * (distance >= -0.5 * size.norm(dim=1))

    def off(self, distance: Tensor) -> Tensor:
        """See the base class."""
        return distance < 0


@final
class Face(Support):
    """A part of the boundary."""

    thin = True

    def measure(self, size: Tensor, distance: Tensor) -> Tensor:
        """See the base class: the diagonal of boxes that may touch it."""
        diagonal = size.norm(dim=1)
        return diagonal * (distance.abs() <= 0.5 * diagonal)

    def off(self, distance: Tensor) -> Tensor:
        """See the base class."""
        return torch.ones_like(distance, dtype=torch.bool)
