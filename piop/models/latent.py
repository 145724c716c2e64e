"""Latent meshes of position-attention: few points on which the processor works."""

from __future__ import annotations

import torch
from torch import Tensor

from piop.models.base import AxisSignature
from piop.models.distances import squared_distances


def pooled(axes: tuple[AxisSignature, ...], counts: tuple[int, ...], like: Tensor) -> Tensor:
    """Pool an even mesh: the mean places of equal cells, which are their centres.

    Args:
        axes: The d axes.
        counts: Cells along each.
        like: A tensor of the dtype and device wanted.

    Returns:
        ``[1, ∏ counts, d]``.
    """
    ticks = [
        axis.low
        + (torch.arange(n, dtype=like.dtype, device=like.device) + 0.5)
        * ((axis.high - axis.low) / n)
        for axis, n in zip(axes, counts, strict=True)
    ]
    if not ticks:
        return like.new_zeros(1, 1, 0)
    return torch.cartesian_prod(*ticks).reshape(1, -1, len(axes))


def sampled(axes: tuple[AxisSignature, ...], count: int, like: Tensor) -> Tensor:
    """Draw places evenly at random from torch's generator: ``[1, count, d]``."""
    unit = torch.rand(1, count, len(axes), dtype=like.dtype, device=like.device)
    low = unit.new_tensor([axis.low for axis in axes])
    return low + unit * unit.new_tensor([axis.high - axis.low for axis in axes])


def farthest(points: Tensor, count: int, axes: tuple[AxisSignature, ...]) -> Tensor:
    """Choose points greedily, each as far as can be from those chosen (farthest point sampling).

    The first is the one nearest to the middle of the box, so that the order of the points does not
    matter. Keeps the density of a cloud roughly, and its outline.

    Args:
        points: ``[B, M, d]``; padding repeats points that are there, and is chosen last.
        count: How many; all M at most.
        axes: The d axes.

    Returns:
        ``[B, min(count, M), d]``.
    """
    middle = points.new_tensor([[[0.5 * (axis.low + axis.high) for axis in axes]]])
    index = squared_distances(middle, points, axes)[:, 0].argmin(-1)
    nearest = points.new_full(points.shape[:2], torch.inf)
    chosen = []
    for _ in range(min(count, points.shape[1])):
        place = points.gather(1, index[:, None, None].expand(-1, 1, points.shape[-1]))
        chosen.append(place)
        nearest = torch.minimum(nearest, squared_distances(place, points, axes)[:, 0])
        index = nearest.argmax(-1)
    return torch.cat(chosen, 1)
