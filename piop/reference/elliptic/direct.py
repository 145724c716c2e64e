"""Sparse factorisation, for networks that conjugate gradients cannot solve."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu
from torch import Tensor

from piop.reference.elliptic.network import Network


def solve_directly(network: Network, right: Tensor, *, singular: bool) -> Tensor:
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


def assemble(network: Network, sample: int) -> csc_matrix:
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
