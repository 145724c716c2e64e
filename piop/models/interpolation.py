"""Values between the points of an even axis: by harmonics round a period, by cubics elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from piop.models.base import AxisSignature
from piop.models.encoding import angles


def even_ticks(axis: AxisSignature, count: int, like: Tensor) -> Tensor:
    """Lay ``count`` even points along an axis, its end left out where it is periodic."""
    steps = torch.arange(count, dtype=like.dtype, device=like.device)
    cells = count if axis.periodic else count - 1
    return axis.low + steps * ((axis.high - axis.low) / cells)


def weights_between(at: Tensor, axis: AxisSignature, count: int) -> Tensor:
    """Weights of the values at :func:`even_ticks` for the values at other places.

    Args:
        at: Places ``[…]``, units of the axis.
        axis: The axis.
        count: n, the number of ticks; at least four where the axis is not periodic.

    Returns:
        ``[…, n]``.
    """
    return _harmonic(at, axis, count) if axis.periodic else _cubic(at, axis, count)


def _harmonic(at: Tensor, axis: AxisSignature, count: int) -> Tensor:
    """Trigonometric interpolation; the wave n/2 of an even n by its cosine, which alone is seen."""
    waves = torch.arange(1, (count + 1) // 2, dtype=at.dtype, device=at.device)
    ticks = even_ticks(axis, count, at)
    here, there = angles(at[..., None], [axis]), angles(ticks[:, None], [axis])
    a, b = here * waves, there * waves
    total = 1 + 2 * (a.cos() @ b.cos().mT + a.sin() @ b.sin().mT)
    if count % 2 == 0:
        total = total + torch.cos(here * (count / 2)) @ torch.cos(there * (count / 2)).mT
    return total / count


def _cubic(at: Tensor, axis: AxisSignature, count: int) -> Tensor:
    """Lagrange's cubic through the four nearest ticks, the outermost four near the ends."""
    place = (at - axis.low) * ((count - 1) / (axis.high - axis.low))
    first = (place.floor() - 1).clamp(0, count - 4)
    s = (place - first)[..., None]
    nodes = torch.arange(4, dtype=at.dtype, device=at.device)
    columns = []
    for i in range(4):
        others = torch.cat([nodes[:i], nodes[i + 1 :]])
        columns.append(((s - others) / (nodes[i] - others)).prod(-1))
    index = first.long()[..., None] + torch.arange(4, device=at.device)
    blank = torch.zeros(*at.shape, count, dtype=at.dtype, device=at.device)
    return blank.scatter(-1, index, torch.stack(columns, -1))
