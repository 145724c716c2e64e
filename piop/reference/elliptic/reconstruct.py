"""Values between centres: on faces from the flux that passes them, on walls from the condition.

Where the coefficient jumps on a face the slope does too, and the flux does not: the value on the
face is then the mean of its neighbours weighted by their conductances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from piop.reference.elliptic.assemble import Discrete
from piop.reference.elliptic.grids import at_centres, at_nodes, between, interleave

if TYPE_CHECKING:
    from piop.problem import Coordinate


def reconstruct(
    discrete: Discrete, cells: Tensor, space: Sequence[Coordinate], shape: Sequence[int]
) -> Tensor:
    """Interpolate the solution at the nodes of an output.

    Args:
        discrete: What was solved.
        cells: Values at centres ``[B, *sizes]``.
        space: Axes.
        shape: Points of the output along each.

    Returns:
        ``[B, *shape]``, of second order where the coefficient is smooth, exact on Dirichlet walls.
    """
    values = cells
    for axis in range(len(space)):
        low, high = discrete.halves[axis]
        for i in range(axis):  # these axes have been refined already
            low, high = (between(h, i + 1, space[i].periodic) for h in (low, high))
        values = _refine(discrete, values, axis, (low, high), space)
    return at_nodes(values, space, shape)


def _refine(
    discrete: Discrete,
    values: Tensor,
    axis: int,
    halves: tuple[Tensor, Tensor],
    space: Sequence[Coordinate],
) -> Tensor:
    """Add faces along an axis."""
    dim, n = axis + 1, values.shape[axis + 1]
    low, high = halves[0].roll(-1, dim), halves[1]
    faces = (high * values + low * values.roll(-1, dim)) / (low + high)
    pair = discrete.walls[axis]
    if pair is None:
        return torch.stack([values, faces], dim + 1).flatten(dim, dim + 1)
    ends = []
    for k, wall in enumerate(pair):
        constant, share = wall.constant, wall.share
        for later in range(axis + 1, len(space)):  # these are still at centres
            periodic = space[later].periodic
            constant, share = (at_centres(v, later + 1, periodic) for v in (constant, share))
        ends.append(constant + share * values.narrow(dim, k * (n - 1), 1))
    outer = torch.cat([ends[0], faces.narrow(dim, 0, n - 1), ends[1]], dim)
    return interleave(values, outer, dim)
