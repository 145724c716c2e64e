"""Where a network that answers on a grid is evaluated, and how its values reach other places.

Its *home* is the grid it was trained on. It is never asked on a coarser one: where fewer even
positions are wanted along an axis it answers on a refinement of these, and where they are uneven it
answers at home, and its values are interpolated, by harmonics along periodic axes and by cubics
along others. A march always answers at its own times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from piop.models import AxisSignature, Backbone
from piop.models.core.interpolation import weights_between
from piop.problem import Coordinate

EVEN = 1e-6
"""Share of an axis by which positions may miss those of an even axis, as after storing float32."""


@dataclass(frozen=True)
class GridLayout:
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

    def to(self, like: Tensor) -> GridLayout:
        """Move to the device and precision of a tensor."""
        matrices = tuple(None if m is None else m.to(like) for m in self.matrices)
        return GridLayout(tuple(axis.to(like) for axis in self.axes), matrices)


def lay(backbone: Backbone, home: Sequence[Tensor], wanted: Sequence[Tensor]) -> GridLayout:
    """Choose where to evaluate a network so that its values at a tensor grid are known.

    Args:
        backbone: The network.
        home: Positions along each coordinate of the grid it was trained on, float64.
        wanted: Positions along each coordinate, float64, in any order.
    """
    axes, matrices = [], []
    for i, (own, ticks) in enumerate(zip(home, wanted, strict=True)):
        axis = backbone.signature.coordinates[i]
        fixed = i == backbone.signature.time and backbone.fixed_times() is not None
        even = not fixed and is_even(ticks, axis)
        laid = _refined(ticks, len(own), axis) if even else own
        same = len(laid) == len(ticks) and bool(((laid - ticks).abs() <= _slack(axis)).all())
        axes.append(laid)
        matrices.append(None if same else weights_between(laid, ticks, axis))
    return GridLayout(tuple(axes), tuple(matrices))


def _refined(ticks: Tensor, least: int, axis: AxisSignature) -> Tensor:
    """Divide the cells of an even axis until it has so many points; the ticks stay among them."""
    closed = 0 if axis.periodic else 1
    factor = ceil((least - closed) / (len(ticks) - closed))
    if factor <= 1:
        return ticks
    cells = factor * (len(ticks) - closed)
    steps = torch.arange(cells + closed, dtype=torch.float64, device=ticks.device)
    return axis.low + (axis.high - axis.low) / cells * steps


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
