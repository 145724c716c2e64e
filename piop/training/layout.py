"""Where a network that answers on a grid is evaluated, and how its values reach other places.

Its *home* is the grid it was trained on. It is never asked on a coarser one: along an axis on which
fewer, or uneven, positions are wanted it answers at home, and its values are interpolated, by
harmonics along periodic axes and by cubics along others. A march always answers at its own times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from piop.models import AxisSignature, Backbone
from piop.problem import Coordinate

EVEN = 1e-6
"""Share of an axis by which positions may miss those of an even axis, as after storing float32."""


@dataclass(frozen=True)
class Layout:
    """A grid to evaluate on, and what takes its values to the grid that is wanted.

    Attributes:
        axes: Where the network is evaluated: positions along each coordinate.
        matrices: For each coordinate ``[wanted, evaluated]``; None where they are the same.
    """

    axes: tuple[Tensor, ...]
    matrices: tuple[Tensor | None, ...]

    def spread(self, values: Tensor) -> Tensor:
        """Take values ``[B, *evaluated, C]`` to ``[B, *wanted, C]``."""
        for axis, matrix in enumerate(self.matrices):
            if matrix is not None:
                moved = torch.matmul(values.movedim(axis + 1, -1), matrix.mT)
                values = moved.movedim(-1, axis + 1)
        return values

    def to(self, like: Tensor) -> Layout:
        """Move to the device and precision of a tensor."""
        matrices = tuple(None if m is None else m.to(like) for m in self.matrices)
        return Layout(tuple(axis.to(like) for axis in self.axes), matrices)


def lay(backbone: Backbone, home: Sequence[Tensor], wanted: Sequence[Tensor]) -> Layout:
    """Choose where to evaluate a network so that its values at a tensor grid are known.

    Args:
        backbone: The network.
        home: Positions along each coordinate of the grid it was trained on, float64.
        wanted: Positions along each coordinate, float64, in any order.
    """
    axes, matrices = [], []
    for i, (own, ticks) in enumerate(zip(home, wanted, strict=True)):
        axis = backbone.signature.coordinates[i]
        fixed = i == backbone.signature.time and _keeps_times(backbone)
        direct = not fixed and len(ticks) >= len(own) and is_even(ticks, axis)
        laid = ticks if direct else own
        same = len(laid) == len(ticks) and bool(((laid - ticks).abs() <= _slack(axis)).all())
        axes.append(laid)
        matrices.append(None if same else weights_between(laid, ticks, axis))
    return Layout(tuple(axes), tuple(matrices))


def _keeps_times(backbone: Backbone) -> bool:
    return backbone.field == "march" or backbone.times == "end"


def _slack(axis: AxisSignature | Coordinate) -> float:
    return EVEN * (axis.high - axis.low)


def is_even(ticks: Tensor, axis: AxisSignature | Coordinate) -> bool:
    """Tell whether positions divide an axis evenly: both its ends, or one of a periodic axis."""
    if len(ticks) < 2:
        return False
    cells = len(ticks) if axis.periodic else len(ticks) - 1
    steps = torch.arange(len(ticks), dtype=torch.float64, device=ticks.device)
    even = axis.low + (axis.high - axis.low) / cells * steps
    return bool(((ticks.double() - even).abs() <= _slack(axis)).all())


def weights_between(ticks: Tensor, at: Tensor, axis: AxisSignature) -> Tensor:
    """Weigh the values at ticks for those at other places.

    Args:
        ticks: ``[n]`` float64, increasing; even where the axis is periodic.
        at: Places ``[…]``, units of the axis.
        axis: The axis.

    Returns:
        ``[…, n]`` float64.
    """
    at = at.double()
    if axis.periodic:
        return _harmonic(at, len(ticks), axis)
    return _cubic(ticks.double().to(at.device), at)


def _harmonic(at: Tensor, count: int, axis: AxisSignature) -> Tensor:
    """Trigonometric interpolation: (1 + 2 Σ cos k(x - x_j))/n, half the wave n/2 of an even n."""
    turns = (at - axis.low) * (2 * torch.pi / (axis.high - axis.low))
    waves = torch.arange(1, (count + 1) // 2, dtype=torch.float64, device=at.device)
    steps = torch.arange(count, dtype=torch.float64, device=at.device)
    here, there = turns[..., None] * waves, steps[:, None] * (waves * (2 * torch.pi / count))
    total = 1 + 2 * (here.cos() @ there.cos().mT + here.sin() @ there.sin().mT)
    if count % 2 == 0:
        total = total + torch.cos(turns * (count / 2))[..., None] * (1 - 2 * (steps % 2))
    return total / count


def _cubic(ticks: Tensor, at: Tensor) -> Tensor:
    """Lagrange's cubic through the four nearest ticks, or through all where they are fewer."""
    size = min(4, len(ticks))
    below = torch.searchsorted(ticks, at.contiguous(), right=True) - 1
    first = (below - (size // 2 - 1)).clamp(0, len(ticks) - size)
    index = first[..., None] + torch.arange(size, device=at.device)
    nodes = ticks[index]
    weights = []
    for i in range(size):
        others = [j for j in range(size) if j != i]
        shares = [(at - nodes[..., j]) / (nodes[..., i] - nodes[..., j]) for j in others]
        weights.append(torch.stack(shares).prod(0) if shares else torch.ones_like(at))
    blank = torch.zeros(*at.shape, len(ticks), dtype=torch.float64, device=at.device)
    return blank.scatter(-1, index, torch.stack(weights, -1))
