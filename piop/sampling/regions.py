"""Points in a shape of the plane and along its boundary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from piop.domain import Outline, Shape

_MORE = 1.1
_FEW = 8
"""Candidates beyond those that are inside on average: a share, and so many."""
_OFF = 1e-9  # of the size: grid points that are nearer to the boundary are not inside


@final
@dataclass(frozen=True)
class Region:
    """A shape and its boundary, whose coordinates are the last two columns of points.

    Attributes:
        shape: The shape.
        outline: Its boundary.
    """

    shape: Shape
    outline: Outline

    @property
    def ends(self) -> list[tuple[float, float]]:
        """Along each axis the ends of a box around it."""
        (x0, y0), (x1, y1) = self.outline.box().tolist()
        return [(x0, x1), (y0, y1)]

    @property
    def share(self) -> float:
        """Part of that box that it fills."""
        return self.outline.area / math.prod(high - low for low, high in self.ends)

    def inside(self, points: Tensor) -> Tensor:
        """Tell which points ``[..., D]`` lie inside ``[...]``."""
        places = points[..., -2:].double().cpu().numpy().reshape(-1, 2)
        found = torch.from_numpy(np.asarray(self.shape.inside(places)))
        return found.reshape(points.shape[:-1]).to(points.device)

    def first(self, place: Callable[[int], Tensor], count: int) -> Tensor:
        """Keep of a sequence of candidates the first that lie inside.

        Args:
            place: Gives the first n candidates of the sequence of each sample ``[B, n, D]``.
            count: N, how many to keep.

        Returns:
            ``[B, N, D]``: the same of a sample whatever else is in the batch.
        """
        many = math.ceil(count / self.share * _MORE) + _FEW if count > 0 else count
        while True:
            points = place(many)
            held = self.inside(points)
            if int(held.sum(1).min()) >= count:
                break
            many *= 2
        kept = held.int().argsort(dim=1, descending=True, stable=True)[:, :count]
        return torch.take_along_dim(points, kept[..., None], 1)

    def on_grid(self, grid: Callable[[int], Tensor], count: int) -> Tensor:
        """Keep the points of the finest grid of the whole box of which few enough lie inside.

        Args:
            grid: Gives a grid with so many points along each axis, the same for all samples
                ``[B, n, D]``.
            count: N, how many to keep at most.

        Returns:
            ``[B, N', D]``.

        Raises:
            ValueError: If no grid has a point inside and few enough.
        """
        if count < 1:
            raise ValueError(f"count: {count} is not positive")
        best, each = None, 1
        while True:
            points = grid(each)
            kept = points[:, self._well_inside(points[0])]
            if kept.shape[1] > count:
                break
            best = kept if kept.shape[1] else best
            each += 1
        if best is None:
            raise ValueError(f"count: {count} points of a grid are too few for the shape")
        return best

    def _well_inside(self, points: Tensor) -> Tensor:
        away = self.outline.distance(points[..., -2:].cpu().numpy())
        off = torch.from_numpy(away > _OFF * self.outline.size).to(points.device)
        return self.inside(points) & off

    def on_face(self, face: str, share: Tensor) -> Tensor:
        """Find points of a face ``[..., 2]`` at shares of its length ``[...]``."""
        curves = [c for c in self.outline.curves if c.face == face]
        ends = np.cumsum([0.0] + [c.length for c in curves])
        at = share.double().cpu().numpy() * ends[-1]
        on = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(curves) - 1)
        places = np.empty((*at.shape, 2))
        for i, curve in enumerate(curves):
            own = on == i
            places[own] = curve.at(curve.along((at[own] - ends[i]) / curve.length))
        return torch.from_numpy(places).to(share.device)
