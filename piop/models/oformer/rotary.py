"""Rotary position: pairs of entries turn by a phase that grows along the coordinates.

A query turned by its place times a key turned by its own depends on the difference of the places
alone: (Θ(x) q)·(Θ(y) k) = q·Θ(y − x) k, after eq. 10 of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from piop.models.core.base import AxisSignature
from piop.models.core.relative_attention import Harmonics


def ladder(size: int, dimension: int, rate: float) -> Tensor:
    """Lay out the geometric ladder of phases: ``rate``·10000^(−2l/d'), d' = size/dimension.

    Args:
        size: Entries of a head; each coordinate turns its own part of them.
        dimension: d, coordinates.
        rate: Radians by which the first pair turns over the length of an axis. The paper's λ, the
            number of points along it, times a scale per layer in the authors' code.

    Returns:
        Radians per length of each axis ``[P, d]``, P = d ⌊size/2d⌋.

    Source: eq. 9 to 11 of the paper, and ``RotaryEmbedding`` of its code.
    """
    part = size // dimension
    steps = torch.arange(part // 2, dtype=torch.get_default_dtype())
    rates = rate * 10000.0 ** (-2 * steps / part)
    waves = torch.zeros(dimension, len(rates), dimension)
    for axis in range(dimension):
        waves[axis, :, axis] = rates
    return waves.flatten(0, 1)


def turned(entries: Any, at: Harmonics | None, parts: int = 1) -> Any:
    """Turn pairs of entries.

    Args:
        entries: ``[B, n, H, size]``; the first 2P turn, and the others stay.
        at: Cosines and sines of the P phases at the points, ``[B, n, P]`` each; None turns nothing.
        parts: Into how many parts the 2P entries are split before each is split in halves, of which
            the first holds the real parts: the coordinates for :func:`ladder`, else one.

    Returns:
        ``[B, n, H, size]``.
    """
    if at is None:
        return entries
    cos, sin = at[0][:, :, None], at[1][:, :, None]
    pairs = cos.shape[-1] // parts
    found = []
    for first in range(0, parts * pairs, pairs):
        a = entries[..., 2 * first : 2 * first + pairs]
        b = entries[..., 2 * first + pairs : 2 * first + 2 * pairs]
        c, s = cos[..., first : first + pairs], sin[..., first : first + pairs]
        found += [a * c - b * s, a * s + b * c]
    still = entries.shape[-1] - 2 * parts * pairs
    return torch.cat([*found, entries[..., -still:]] if still else found, -1)


def unit(points: Any, axes: Sequence[AxisSignature]) -> Any:
    """Scale coordinates so that every axis runs from zero to one.

    Args:
        points: ``[B, n, d]``, units of the axes.
        axes: The d axes.
    """
    columns = [
        (points[..., i : i + 1] - axis.low) * (1 / (axis.high - axis.low))
        for i, axis in enumerate(axes)
    ]
    return torch.cat(columns, -1) if len(columns) > 1 else columns[0]
