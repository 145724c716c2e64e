"""Solve what was discretised, by multigrid where the matrices are definite, else directly."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.reference.elliptic.assemble import Discrete
from piop.reference.elliptic.direct import solve_directly
from piop.reference.elliptic.multigrid import conjugate_gradients


def solve_cells(
    discrete: Discrete, tolerance: float, gauge: float | None, samples: Sequence[int]
) -> Tensor:
    """Solve for values at centres.

    Args:
        discrete: Matrices and right sides.
        tolerance: Of the algebraic error, in the norm of energy.
        gauge: Mean of the solution where the equation leaves a constant free; then the mean of the
            right side is taken out (whether it vanishes with the cells is for the caller to see).
        samples: Their numbers, for messages.

    Returns:
        ``[B, *sizes]``.

    Raises:
        SolverError: If a matrix is singular.
    """
    network, right, singular = discrete.network, discrete.right, gauge is not None
    if singular:
        right = right - right.mean(tuple(range(1, right.ndim)), keepdim=True)
    values = torch.zeros_like(right)
    met = network.definite
    index = met.nonzero().flatten()
    if len(index):
        whole = len(index) == len(right)
        part = network if whole else network.take(index)
        values[index], met[index] = conjugate_gradients(
            part, right if whole else right[index], tolerance, singular=singular
        )
    left = (~met).nonzero().flatten()
    if len(left):
        values[left] = solve_directly(network.take(left), right[left], singular=singular)
    bad = ~torch.isfinite(values).flatten(1).all(1)
    if bool(bad.any()):
        sample = samples[int(bad.nonzero()[0])]
        raise SolverError(
            f"sample {sample}: the equation has no solution, or many, on {network.sizes} cells; is "
            "its reaction term an eigenvalue of the rest?"
        )
    return values if gauge is None else values + gauge
