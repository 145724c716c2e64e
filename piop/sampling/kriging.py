"""Best linear interpolation under the mean and covariance of a distribution.

For f = Σ c_k φ_k with mean m and variances S of c, and values v observed at points, with Φ =
φ_k(x_i), the coefficients of least mean-square error are ĉ = m + S Φᵀ(Φ S Φᵀ + εI)⁻¹(v − Φm). With
fewer functions than points the same ĉ comes from S^½(S^½ΦᵀΦS^½ + εI)⁻¹S^½Φᵀ(v − Φm) (push-through
identity), which is smaller and better conditioned. ε, a fraction ``NUGGET`` of the variance, keeps
the matrix regular where points are close; it grows tenfold for a sample whose Cholesky factor still
fails.

Cost for each layout of sensors (one per sample, unless all share it, as on a grid): with fewer
sensors than functions M³/3, and in d > 1 coordinates M²·K1⋯Kd/2^d for the covariance matrix (of a
grid M²·K, K that of one axis); with more, which are taken in chunks, M·K². No matrix is larger than
min(M, K) squared.

Source: Rasmussen & Williams 2006, eqs. 2.23 and 2.24; Stein 1999, "Interpolation of spatial data",
Sec. 1.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piop.errors import DataError
from piop.fields import chunks
from piop.sampling.functions import ProductFunction
from piop.sampling.random_fields import Prior

NUGGET = 1e-12
_CHUNK = 2**23  # numbers in the largest temporary, to bound memory
_POINT_CHUNK = 2**19  # numbers in the functions at one chunk of many sensors, for a CPU's cache


def krige(prior: Prior, points: Tensor, values: Tensor, mask: Tensor | None) -> ProductFunction:
    """Interpolate values observed at scattered points.

    Args:
        prior: Mean and variance of the coefficients, float64, on the points' device.
        points: ``[B, M, d]`` float64.
        values: ``[B, M]`` float64.
        mask: True where a point is real ``[B, M]``; None when all are.

    Returns:
        Functions in the basis of the prior.

    Raises:
        DataError: Values or points are not finite.
    """
    if torch.compiler.is_exporting():
        return krige_without_branches(prior, points, values)
    real = torch.ones_like(values) if mask is None else mask.to(values)
    points = torch.where(real[..., None] > 0, points, prior.bases[0].origin)
    rest = torch.where(real > 0, values - _mean_at(prior, points), 0.0)
    if not bool(rest.isfinite().all()):
        raise DataError(
            "sensors: points or values are not finite where the mask says they are real"
        )
    if mask is None and bool((points == points[:1]).all()):
        points, real = points[:1], real[:1]  # one layout, one matrix
    if prior.variance.numel() <= points.shape[1]:
        change = _few_functions(prior, points, rest, real)
    else:
        weights = _solve(covariance(prior, points, points), rest[..., None], real)
        change = prior.variance * _project(prior, points, weights)
    return prior.function(prior.mean + change)


FEW_FUNCTIONS = 128
"""Functions of a prior up to which a graph that is exported solves for their coefficients."""


def krige_without_branches(prior: Prior, points: Tensor, values: Tensor) -> ProductFunction:
    """Interpolate as :func:`krige` does, by operations that depend on no value and no size.

    With D = Φ S^½ the coefficients ĉ − m = S^½ x are those of the least-squares problem min |D x −
    (v − Φm)|² + ε|x|². It is solved by the QR factors of [D; √ε I], or for many functions of [Dᵀ;
    √ε I]: these exist for any number of sensors and lose half as many digits as a Cholesky factor
    of the normal equations, which :func:`krige` saves time by.

    Args:
        prior: As there.
        points: ``[B, M, d]`` float64.
        values: ``[B, M]`` float64.

    Returns:
        Functions in the basis of the prior.

    Source: own; the normal equations of this least-squares problem are the system of :func:`krige`.
    """
    rest = (values - _mean_at(prior, points))[..., None]
    root = prior.variance.sqrt().flatten()
    design = _functions_at(prior, points) * root  # [B, M, K]
    level = NUGGET * _level((design**2).sum(-1), torch.ones_like(values))
    few = prior.variance.numel() <= FEW_FUNCTIONS
    tall = design if few else design.mT
    eye = torch.eye(tall.shape[-1], dtype=rest.dtype, device=rest.device)
    below = level.sqrt()[:, None, None] * eye
    factor, triangle = torch.linalg.qr(torch.cat([tall, below], 1))
    factor = factor[:, : tall.shape[1]]
    if few:
        found = torch.linalg.solve_triangular(triangle, factor.mT @ rest, upper=True)
    else:
        found = factor @ torch.linalg.solve_triangular(triangle.mT, rest, upper=False)
    return prior.function(prior.mean + (root * found[..., 0]).unflatten(-1, prior.variance.shape))


def covariance(prior: Prior, x: Tensor, y: Tensor) -> Tensor:
    """Covariance of values at ``x [B or 1, N, d]`` and ``y [B or 1, M, d]``: ``[B, N, M]``."""
    columns = list(zip(prior.bases, x.unbind(-1), y.unbind(-1), strict=True))
    if len(columns) == 1:
        ((basis, a, b),) = columns
        return (basis.table(a) * prior.variance) @ basis.table(b).mT
    groups, variance = _by_frequency(prior)
    batch, rows = max(len(x), len(y)), x.shape[1]
    if batch == 1 and not torch.compiler.is_compiling():  # a graph has no branches on values
        different = [(torch.unique(a[0]), torch.unique(b[0])) for _, a, b in columns]
        if math.prod(len(a) * len(b) for a, b in different) <= rows * y.shape[1]:
            return _on_grid(prior, x[0], y[0], different, groups, variance)[None]
    tables = [
        (basis.table(a).expand(batch, -1, -1), basis.table(b).expand(batch, -1, -1))
        for basis, a, b in columns
    ]
    widest = max(max(p.size for p in prior.bases), variance[0].numel())
    size = max(1, min(rows, _CHUNK // (batch * y.shape[1] * widest)))
    chunks = [[(a[:, i : i + size], b) for a, b in tables] for i in range(0, rows, size)]
    return torch.cat([_paired(chunk, groups, variance) for chunk in chunks], dim=1)


def _on_grid(
    prior: Prior,
    x: Tensor,
    y: Tensor,
    different: list[tuple[Tensor, Tensor]],
    groups: list[tuple[Tensor, Tensor]],
    variance: Tensor,
) -> Tensor:
    """Covariance ``[N, M]`` of points on grids: summed over each pair of positions of an axis once.

    Args:
        prior: The distribution.
        x: ``[N, d]``.
        y: ``[M, d]``.
        different: Their positions along each axis, ascending.
        groups: As of :func:`_by_frequency`.
        variance: As of :func:`_by_frequency`.
    """
    values, index = variance, []
    axes = zip(prior.bases, different, groups, x.unbind(-1), y.unbind(-1), strict=True)
    for basis, (left, right), group, own, other in axes:
        pairs = _products(basis.table(left[None]), basis.table(right[None]), *group).flatten(0, 2)
        values = values.movedim(0, -1) @ pairs.mT  # the next axis comes first
        first = torch.searchsorted(left, own.contiguous())
        index.append(first[:, None] * len(right) + torch.searchsorted(right, other.contiguous()))
    return values[tuple(index)]


def _paired(
    tables: list[tuple[Tensor, Tensor]], groups: list[tuple[Tensor, Tensor]], variance: Tensor
) -> Tensor:
    """Sum variance_k Π_a φ_k(x_a) φ_k(y_a) over k, the functions of one frequency together."""
    pairs = [
        _products(left, right, first, last).flatten(1, 2)
        for (left, right), (first, last) in zip(tables, groups, strict=True)
    ]
    values = pairs[0] @ variance.flatten(1)
    for pair in pairs[1:]:
        values = values.unflatten(-1, (pair.shape[-1], -1))
        values = (pair[..., None, :] @ values).squeeze(-2)
    n, m = tables[0][0].shape[1], tables[0][1].shape[1]
    return values.squeeze(-1).unflatten(1, (n, m))


def _products(left: Tensor, right: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Sum φ(x) φ(y) over the functions of each frequency ``[B, N, M, frequencies]``."""
    products = left[:, :, None, first] * right[:, None, :, first]
    if torch.equal(first, last):
        return products
    second = left[..., last] * (first != last)
    return products + second[:, :, None] * right[:, None, :, last]


def _by_frequency(prior: Prior) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Pair cosine and sine of one frequency, where both have the same variance.

    Returns:
        For each axis, the positions of first and last function of each frequency (the same where
        there is one), and the variance of each combination of frequencies.
    """
    groups, variance = [], prior.variance
    for axis, basis in enumerate(prior.bases):
        position = torch.arange(basis.size, device=variance.device)
        frequency, group = torch.unique(basis.frequency, return_inverse=True)
        empty = torch.zeros_like(frequency, dtype=torch.int64)
        first, last = (
            empty.scatter_reduce(0, group, position, how, include_self=False)
            for how in ("amin", "amax")
        )
        chosen = variance.index_select(axis, first)
        if torch.equal(chosen.index_select(axis, group), variance):
            variance = chosen
        else:
            first = last = position
        groups.append((first, last))
    return groups, variance


def _few_functions(prior: Prior, points: Tensor, rest: Tensor, real: Tensor) -> Tensor:
    """Coefficients from the smaller of the two systems, ``[B, K1, …, Kd]``."""
    root = prior.variance.sqrt().flatten()
    gram = right = torch.zeros((), dtype=rest.dtype, device=rest.device)
    squares = []
    for chunk in _chunks(points, prior):
        design = _functions_at(prior, points[:, chunk]) * root * real[:, chunk, None]  # [B, M, K]
        squares.append((design**2).sum(-1))
        gram = gram + design.mT @ design
        right = right + (design * rest[:, chunk, None]).sum(1)
    level = _level(torch.cat(squares, 1), real)
    solved = _cholesky_solve(gram, right[..., None], level)[..., 0]
    return (root * solved).unflatten(-1, prior.variance.shape)


def _functions_at(prior: Prior, points: Tensor) -> Tensor:
    """All functions of the basis at ``points [B, M, d]``: ``[B, M, K]``."""
    columns = zip(prior.bases, points.unbind(-1), strict=True)
    first, *others = [basis.table(x) for basis, x in columns]
    for table in others:
        first = (first[..., None] * table[:, :, None]).flatten(2)
    return first


def _mean_at(prior: Prior, points: Tensor) -> Tensor:
    """Mean of the distribution at ``points [B, M, d]``: ``[B, M]``."""
    mean = prior.function(prior.mean[None])
    return torch.cat([mean(points[:, chunk]) for chunk in _chunks(points, prior)], 1)


def _chunks(points: Tensor, prior: Prior) -> list[slice]:
    """Cut the M points of ``[B, M, d]`` so that functions at a chunk take bounded memory."""
    return chunks(points.shape[1], points.shape[0] * prior.variance.numel(), _POINT_CHUNK)


def _solve(matrix: Tensor, right: Tensor, real: Tensor) -> Tensor:
    """Solve with a covariance matrix ``[B, M, M]``, leaving out points that are not real."""
    matrix = matrix * real[:, :, None] * real[:, None]
    return _cholesky_solve(matrix, right, _level(matrix.diagonal(dim1=1, dim2=2), real))


def _level(variance: Tensor, real: Tensor) -> Tensor:
    """Mean variance at the real points of each sample ``[B]``, or 1 where there is none."""
    mean = (variance * real).sum(1) / real.sum(1).clamp_min(1.0)
    return torch.where(mean > 0, mean, 1.0)


def _cholesky_solve(matrix: Tensor, right: Tensor, level: Tensor) -> Tensor:
    """Solve (matrix + ε level) x = right, each sample with the least ε that allows it."""
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    nugget = NUGGET * level
    factor, failed = torch.linalg.cholesky_ex(matrix + nugget[:, None, None] * eye)
    while bool(failed.any()):  # ends: once ε is of the size of the matrix, it dominates
        nugget = torch.where(failed > 0, 10 * nugget, nugget)
        factor, failed = torch.linalg.cholesky_ex(matrix + nugget[:, None, None] * eye)
    return torch.cholesky_solve(right, factor)


def _project(prior: Prior, points: Tensor, weights: Tensor) -> Tensor:
    """Φᵀ weights ``[B, M, 1]``, as ``[B, K1, …, Kd]``."""
    columns = zip(prior.bases, points.unbind(-1), strict=True)
    *others, last = [basis.table(x) for basis, x in columns]
    left = weights
    for table in others:
        left = (left[..., None] * table[:, :, None]).flatten(2)
    return (left.mT @ last).reshape(-1, *prior.variance.shape)
