"""Squared distances between places, in lengths of the axes, right across every seam."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from piop.models.base import AxisSignature
from piop.models.encoding import angles

ROUND = 4 * math.pi**2
"""Square of the angle round an axis: chords per radian to chords per length of the axis."""


def squared_distances(to: Tensor, of: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Square the Euclidean distance to the nearest image.

    On a torus the nearest image is nearest along each axis by itself, so the minimum is taken axis
    by axis; images along the axes alone, as in the authors' TensorFlow code for two dimensions,
    would miss the diagonal ones. Not smooth half a period away: for a mesh, not for physics.

    Args:
        to: ``[B or 1, N, d]``, units of the axes.
        of: ``[B or 1, M, d]``.
        axes: The d axes; each counts as 1 long.

    Returns:
        ``[B or 1, N, M]``, dimensionless; zeros where d = 0.
    """
    total = to.new_zeros(()).expand(max(len(to), len(of)), to.shape[1], of.shape[1])
    for i, axis in enumerate(axes):
        step = (to[:, :, None, i] - of[:, None, :, i]) / (axis.high - axis.low)
        total = total + (step - step.round() if axis.periodic else step) ** 2
    return total


def squared_chords(to: Tensor, of: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Square the distance with the chord in place of the arc along periodic axes.

    An axis of length 1 is a circle of radius 1/2π, whose chord over Δ is sin(πΔ)/π: infinitely
    smooth across the seam, and Δ to first order. Along other axes it is the distance itself.

    Args:
        to: ``[B or 1, N, d]``, units of the axes.
        of: ``[B or 1, M, d]``.
        axes: The d axes; each counts as 1 long.

    Returns:
        ``[B or 1, N, M]``, dimensionless.
    """
    total = to.new_zeros(()).expand(max(len(to), len(of)), to.shape[1], of.shape[1])
    for i, axis in enumerate(axes):
        if axis.periodic:
            there, here = (angles(p[..., i : i + 1], [axis]) for p in (to, of))
            total = total + (2 - 2 * (there - here.mT).cos()) / ROUND
        else:
            step = (to[:, :, None, i] - of[:, None, :, i]) / (axis.high - axis.low)
            total = total + step**2
    return total


def largest_square(axes: Sequence[AxisSignature]) -> float:
    """Largest squared distance in the box: 1/4 from each periodic axis, 1 from any other."""
    return sum(0.25 if axis.periodic else 1.0 for axis in axes) or 1.0
