"""Batched LU, solve and inverse that are right on any number of threads.

torch 2.13 factors the matrices of a batch in parallel on a CPU. Where MKL may not choose its own
threads (``MKL_DYNAMIC=FALSE``, which ``torch.set_num_threads`` implies), MKL factors each of them
on several threads again: matrices from about 150 rows on then come out with pivots that are no row
numbers, or never. On more than one thread large matrices are therefore factored one at a time,
which is right, and about as fast. Cholesky, QR, eigenvalues and ``lu_solve`` take the matrices of a
batch in turn and need no such care.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

BATCHED = 32
"""Rows of matrices that are factored as one batch on any number of threads: far below those that
MKL factors on several threads, and of these there are thousands in a batch, one per wavenumber."""


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve linear systems. One matrix for all of them is factored once.

    Args:
        matrix: ``[..., n, n]``.
        right: ``[..., n, c]``.

    Returns:
        ``[..., n, c]``.

    Raises:
        torch.linalg.LinAlgError: If a matrix is singular.

    Example:
        >>> solve(2 * torch.eye(3).expand(4, 3, 3), torch.ones(4, 3, 1)).unique()
        tensor([0.5000])
    """
    if torch.compiler.is_exporting():  # one matrix for all systems stays one
        return torch.linalg.solve(matrix, right)
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    if matrix.shape[:-2].numel() == 1 < batch.numel():
        columns = right.flatten(0, -3).movedim(0, -1).flatten(1)
        found = torch.linalg.solve(matrix.reshape(matrix.shape[-2:]), columns)
        found = found.unflatten(1, (right.shape[-1], -1)).movedim(-1, 0)
        return found.reshape(*batch, *right.shape[-2:])
    given = [t.expand(*batch, *t.shape[-2:]) for t in (matrix, right)]
    return _one_by_one(lambda a, b: [torch.linalg.solve(a, b)], *given)[0]


def invert(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Invert matrices ``[..., n, n]``.

    Returns:
        The inverses, and for each matrix whether it is singular: an integer above zero ``[...]``.
    """
    inverse, singular = _one_by_one(torch.linalg.inv_ex, matrix)
    return inverse, singular


def factorise(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Factor matrices ``[..., n, n]`` for ``torch.linalg.lu_solve``.

    Returns:
        LU factors ``[..., n, n]``, pivots ``[..., n]``, and for each matrix whether it is singular:
        an integer above zero ``[...]``. The factors of a singular one give no finite solution.
    """
    lu, pivots, singular = _one_by_one(torch.linalg.lu_factor_ex, matrix)
    return lu, pivots, singular


@torch.library.custom_op("piop::solve_without_gradient", mutates_args=())
def solve_without_gradient(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve linear systems as :func:`solve` does, also as one node of a compiled graph.

    The number of threads is that of the moment of the call, not of tracing.

    Args:
        matrix: ``[..., n, n]``.
        right: ``[..., n, c]``, of the same batch.

    Returns:
        ``[..., n, c]``.
    """
    return solve(matrix, right).contiguous()


@solve_without_gradient.register_fake
def _(matrix: Tensor, right: Tensor) -> Tensor:
    return right.new_empty(right.shape)


@torch.library.custom_op("piop::least_squares", mutates_args=())
def least_squares(matrix: Tensor, right: Tensor) -> Tensor:
    """Minimise |matrix · x − right|, without gradient; torch's own has no size when it is traced.

    By a QR decomposition without pivots (LAPACK's ``gels``). That with pivots (``gelsy``, torch's
    default on a CPU) gives other last digits from one call to the next.

    Args:
        matrix: ``[..., m, n]`` of rank n.
        right: ``[..., m, c]``.

    Returns:
        x ``[..., n, c]``.
    """
    return torch.linalg.lstsq(matrix, right, driver="gels").solution.contiguous()


@least_squares.register_fake
def _(matrix: Tensor, right: Tensor) -> Tensor:
    return right.new_empty(*right.shape[:-2], matrix.shape[-1], right.shape[-1])


def _one_by_one(function: Callable[..., Sequence[Tensor]], *batches: Tensor) -> Sequence[Tensor]:
    """Apply a function to batches ``[..., n, m]`` of large matrices one matrix at a time."""
    first = batches[0]
    batch = first.shape[:-2]
    small = first.shape[-1] <= BATCHED or batch.numel() < 2
    if small or first.device.type != "cpu" or torch.get_num_threads() == 1:
        return function(*batches)
    flat = [b.reshape(-1, *b.shape[-2:]) for b in batches]
    results = zip(*(function(*matrices) for matrices in zip(*flat, strict=True)), strict=True)
    return [torch.stack(parts).reshape(*batch, *parts[0].shape) for parts in results]
