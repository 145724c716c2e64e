"""The part of some data that the nodes of a grid do not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from piop.reference.features.boxes import Boxes, KnownValues

_SHOWN = 4.0
"""Factor on what nodes show of the error of interpolation between them: at three points on a wave
it is three times as large in the middle between two."""


@dataclass(frozen=True)
class Seen:
    """What the nodes of a grid show of some data, box by box.

    Attributes:
        part: Of the domain that each box holds ``[n]``.
        points: Where it is looked at ``[n, k]``.
        data: Values there ``[n]``.
        hidden: What of these the nodes do not show ``[n]``, of either sign.
        bends: What boxes themselves do not resolve along axes without nodes ``[n]``.
    """

    part: Tensor
    points: Tensor
    data: Tensor
    hidden: Tensor
    bends: Tensor


def look(values: KnownValues, boxes: Boxes, nodes: Mapping[str, Tensor]) -> Seen:
    """Compare some data in each of their boxes with what the nodes of a grid show.

    Args:
        values: The data.
        boxes: Theirs.
        nodes: Of the grid, by the name of their coordinate.
    """
    part, points = values.locate(boxes)
    seen = values(boxes.sample, points).nan_to_num()
    largest = torch.zeros(values.batch, dtype=seen.dtype, device=seen.device)
    largest.scatter_reduce_(0, boxes.sample, seen.abs(), "amax")
    detail = values.detail * largest[boxes.sample]
    key, small = boxes.sample, torch.zeros_like(boxes.sample, dtype=torch.bool)
    corners = [(i, boxes.low[:, i], boxes.high[:, i]) for i in range(len(values.axes))]
    hidden, bends, cells = torch.zeros_like(seen), torch.zeros_like(seen), []
    for i, c in enumerate(values.axes):
        if c.name not in nodes:
            if not values.smooth_inside:
                unresolved = (_multilinear(values, boxes, corners) - seen).abs() > 2 * detail
                bend = (_multilinear(values, boxes, corners[i : i + 1]) - seen).abs().nan_to_num()
                bends += torch.where(unresolved & (bend > detail), bend, 0.0)
            continue
        own = torch.cat([nodes[c.name], nodes[c.name].new_tensor([c.low, c.high])]).unique()
        upper = torch.searchsorted(own, boxes.centre[:, i].contiguous()).clamp(1, len(own) - 1)
        low, high = own[upper - 1], own[upper]
        cells.append((i, low, high))
        small |= boxes.reach[:, i] < high - low
        key = key * len(own) + upper
        finer = (boxes.size[:, i] < high - low).nonzero()[:, 0]
        line = values.support is None and not values.smooth_inside  # one may leave the region
        if len(finer) and line:
            beyond = _not_shown(values, boxes.take(finer), i, own)
            hidden[finer] += torch.where(beyond > 0.01 * detail[finer], beyond, 0.0)
    coarse = torch.isin(key, key[small].unique()).nonzero()[:, 0]
    if len(coarse):
        bends[coarse] = 0
        around = [(i, low[coarse], high[coarse]) for i, low, high in cells]
        if values.around:
            hidden[coarse] = _beyond(values, boxes.take(coarse), around, seen[coarse])
        else:
            shown = _multilinear(values, boxes.take(coarse), around)
            hidden[coarse] = seen[coarse] - shown.nan_to_num()
        if values.support is not None:  # a node of a mesh may be anywhere in a cell
            cell = key[coarse].unique(return_inverse=True)[1]
            most = torch.zeros_like(seen).scatter_reduce_(0, cell, hidden[coarse].abs(), "amax")
            hidden[coarse] = most[cell]
    return Seen(part, points, seen, hidden, bends)


def unseen_part(
    values: KnownValues, boxes: Boxes, nodes: Mapping[str, Tensor], power: int, part: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mean size over the domain of what a grid does not see of some data, and of the data.

    Args:
        values: The data.
        boxes: Theirs.
        nodes: Of the grid, by the name of their coordinate.
        power: Of the norm.
        part: Of the domain that the largest of what is not seen stands for at least.

    Returns:
        Both norms of each sample ``[B]``.
    """
    found = look(values, boxes, nodes)
    size = found.data.abs() ** power
    hidden = (found.hidden + found.bends).abs() ** power
    total, missed, peak = torch.zeros(3, values.batch, dtype=size.dtype, device=size.device)
    total.index_add_(0, boxes.sample, found.part * size)
    missed.index_add_(0, boxes.sample, found.part * hidden)
    peak.scatter_reduce_(0, boxes.sample, hidden, "amax")
    missed = torch.maximum(missed, part * peak)
    return missed ** (1 / power), total ** (1 / power)


def _along(values: KnownValues, boxes: Boxes, axis: int, at: Tensor) -> Tensor:
    """Values ``[n, m]`` at positions ``[n, m]`` on lines along an axis through the centres."""
    points = boxes.centre[:, None].repeat(1, at.shape[1], 1)
    points[..., axis] = at
    sample = boxes.sample.repeat_interleave(at.shape[1])
    return values(sample, points.flatten(0, 1)).reshape(at.shape)


def _not_shown(values: KnownValues, boxes: Boxes, axis: int, nodes: Tensor) -> Tensor:
    """How much more data at centres differ from polynomials than nodes of a grid show ``[n]``.

    On the line through a centre x the polynomial through its six nearest nodes misses Newton's
    remainder d[x₁, …, x₆, x] ∏(x − xᵢ); the next four nodes, in place of x, show how large its
    divided difference is. A small grid has fewer nodes.
    """
    x, count = boxes.centre[:, axis : axis + 1].contiguous(), min(10, len(nodes))
    first = torch.searchsorted(nodes, x) - count // 2
    first = first.clamp(0, len(nodes) - count)
    at = nodes[first + torch.arange(count, device=nodes.device)]
    at = torch.cat([at.gather(1, (at - x).abs().argsort(1)), x], 1)
    table, base = _along(values, boxes, axis, at).nan_to_num(), (count + 2) // 2
    for k in range(base):
        table = (table[:, 1:] - table[:, :1]) / (at[:, k + 1 :] - at[:, k : k + 1])
    beyond = table[:, -1].abs() - _SHOWN * table[:, :-1].abs().amax(1)
    return beyond.clamp_min(0) * (x - at[:, :base]).prod(1).abs()


def _beyond(
    values: KnownValues, boxes: Boxes, cells: Sequence[tuple[int, Tensor, Tensor]], seen: Tensor
) -> Tensor:
    """How far data ``[n]`` are beyond what the nodes of their cell and those next to it show."""
    low = torch.stack([own for _, own, _ in cells], 1)
    high = torch.stack([own for _, _, own in cells], 1)
    ends, cell = torch.cat([boxes.sample[:, None], low], 1).unique(dim=0, return_inverse=True)
    one = torch.empty_like(cell[: len(ends)])
    one[cell] = torch.arange(len(cell), device=cell.device)  # a box in each cell
    shown = values.shown_around(Boxes(boxes.sample[one], low[one], high[one]))
    return (seen - shown.high[cell]).clamp_min(0) + (shown.low[cell] - seen).clamp_min(0)


def _multilinear(
    values: KnownValues, boxes: Boxes, cells: Sequence[tuple[int, Tensor, Tensor]]
) -> Tensor:
    """Interpolate linearly at centres ``[n]`` from the ends ``[n]`` of cells along some axes."""
    linear = torch.zeros_like(boxes.centre[:, 0])
    for upper in product((False, True), repeat=len(cells)):
        points, part = boxes.centre, torch.ones_like(linear)
        for (i, low, high), up in zip(cells, upper, strict=True):
            along = (boxes.centre[:, i] - low) / (high - low)
            part = part * (along if up else 1 - along)
            points[:, i] = high if up else low
        linear += part * values(boxes.sample, points)
    return linear
