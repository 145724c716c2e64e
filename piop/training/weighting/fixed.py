"""Weights that are functions of what a step sees, without any memory."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor


def relative_weight(size: Tensor, floor: float = 0.1) -> Tensor:
    """Weigh each function by the inverse of the size of its solution: 1/(floor + size).

    The error that counts is relative to each solution, so the loss is too: without it functions
    of large amplitude rule the batch.

    Args:
        size: Mean square of each function's data over the mean of that over the law ``[B]``.
        floor: Keeps the smallest functions from ruling instead, dimensionless.

    Returns:
        ``[B]``.

    Source: own (docs/training.md).
    """
    return 1 / (floor + size)


def front_weight(slopes: Iterable[Tensor], strength: float) -> Tensor | float:
    """Damp the residual where the solution is steep, as at a moving front.

    The residual is multiplied by 1/(1 + strength·‖slope‖), so its square by the square of that,
    detached. Fronts carry residuals of the order slope² that would drown the rest of the domain.

    Args:
        slopes: First derivatives in space made dimensionless, ``[B, N]`` each.
        strength: Dimensionless; 0 gives ones.

    Returns:
        Factor of the squared residual ``[B, N]``, or 1.0 where there is nothing to damp.

    Source: own (docs/training.md); in the spirit of the gradient weights of Liu et al. 2022
    (2206.03864).
    """
    squares = sum(slope.detach() ** 2 for slope in slopes)
    if strength == 0 or isinstance(squares, int):
        return 1.0
    return (1 + strength * squares.sqrt()) ** -2
