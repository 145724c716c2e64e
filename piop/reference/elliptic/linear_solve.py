"""Solve the discrete system: multigrid where it is definite, else a sparse factorisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu
from torch import Tensor

from piop.errors import SolverError
from piop.reference.elliptic.assemble import Discrete
from piop.reference.elliptic.multigrid import conjugate_gradients
from piop.reference.elliptic.stencil import StencilOperator


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


def solve_directly(network: StencilOperator, right: Tensor, *, singular: bool) -> Tensor:
    """Solve by LU factorisation on the CPU, one system after the other.

    Args:
        network: The matrices.
        right: Right sides ``[B, *sizes]``; of sum zero where singular.
        singular: Whether constants are in the kernels; the solution then has mean zero.

    Returns:
        ``[B, *sizes]``; NaN where a matrix is singular otherwise.
    """
    found = []
    for sample in range(len(right)):
        matrix = assemble(network, sample)
        if singular:  # the right side sums to zero, so the pinned value comes out as zero
            matrix[0, 0] = 2 * matrix[0, 0]
        try:
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A")
        except RuntimeError:  # exactly singular
            found.append(torch.full_like(right[sample], torch.nan))
            continue
        values = torch.from_numpy(factors.solve(right[sample].flatten().cpu().numpy()))
        if singular:
            values -= values.mean()
        found.append(values.reshape(right.shape[1:]).to(right))
    return torch.stack(found)


def assemble(network: StencilOperator, sample: int) -> csc_matrix:
    """The matrix of one sample."""
    cells = np.arange(network.mass[sample].numel()).reshape(network.sizes)
    rows, columns = [cells.ravel()], [cells.ravel()]
    entries = [network.diagonal[sample].flatten().cpu().numpy()]
    for axis, links in enumerate(network.links):
        link = links[sample].flatten().cpu().numpy()
        there = link != 0
        one, other = cells.ravel()[there], np.roll(cells, -1, axis).ravel()[there]
        rows += [one, other]
        columns += [other, one]
        entries += [-link[there], -link[there]]
    place = (np.concatenate(rows), np.concatenate(columns))
    return csc_matrix((np.concatenate(entries), place), shape=(cells.size, cells.size))
