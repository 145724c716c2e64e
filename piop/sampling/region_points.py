"""Points in a region of the plane and along its boundary."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from piop.domain import FixedDomain

_MORE = 1.1
_FEW = 8
"""Candidates beyond those that are inside on average: a factor, and so many."""


def inside(domain: FixedDomain, points: Tensor) -> Tensor:
    """Tell which points ``[..., D]``, space last, lie inside ``[...]``."""
    found = torch.from_numpy(domain.contains(_in_space(domain, points)))
    return found.reshape(points.shape[:-1]).to(points.device)


def first_inside(domain: FixedDomain, place: Callable[[int], Tensor], count: int) -> Tensor:
    """Keep of a sequence of candidates the first that lie inside.

    Args:
        domain: A region of the plane.
        place: Gives the first n candidates of the sequence of each sample ``[B, n, D]``.
        count: N, how many to keep.

    Returns:
        ``[B, N, D]``: the same of a sample whatever else is in the batch.
    """
    many = math.ceil(count / domain.filled * _MORE) + _FEW if count > 0 else count
    while True:
        points = place(many)
        held = inside(domain, points)
        if int(held.sum(1).min()) >= count:
            break
        many *= 2
    kept = held.int().argsort(dim=1, descending=True, stable=True)[:, :count]
    return torch.take_along_dim(points, kept[..., None], 1)


def grid_inside(domain: FixedDomain, grid: Callable[[int], Tensor], count: int) -> Tensor:
    """Keep the points of the finest grid of the whole box of which few enough lie inside.

    Args:
        domain: A region of the plane.
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
        edge = torch.from_numpy(domain.touches(_in_space(domain, points[0])))
        kept = points[:, inside(domain, points[0]) & ~edge.to(points.device)]
        if kept.shape[1] > count:
            break
        best = kept if kept.shape[1] else best
        each += 1
    if best is None:
        raise ValueError(f"count: {count} points of a grid are too few for the shape")
    return best


def on_face(domain: FixedDomain, face: str, fractions: Tensor) -> Tensor:
    """Return points of a face ``[..., 2]`` at fractions of its length ``[..., 1]``."""
    found = domain.points_on(face, fractions.double().cpu().numpy().reshape(-1, 1))
    return torch.from_numpy(found).reshape(*fractions.shape[:-1], 2).to(fractions.device)


def _in_space(domain: FixedDomain, points: Tensor) -> np.ndarray:
    """Return the last columns of points ``[..., D]`` as ``[N, d]``."""
    dimension = len(domain.axes)
    return points[..., -dimension:].double().cpu().numpy().reshape(-1, dimension)
