"""Linear systems of cells: conjugate gradients with multigrid, or a sparse factorisation.

Conjugate gradients work on a batch at once, each system with its own step lengths, and are
preconditioned by one multigrid cycle on coarser and coarser grids. The value of a coarse cell is
taken for both cells it was made of, and residuals are added up (P. Wesseling, Cell-centered
multigrid for interface problems, J. Comput. Phys. 79 (1988)). The smoother is the Chebyshev
polynomial of the upper part of the spectrum (M. Adams et al., J. Comput. Phys. 188 (2003),
doi:10.1016/S0021-9991(03)00194-3), so the cycle is symmetric. It runs in single precision: it need
not be exact, and memory is its cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu
from torch import Tensor

from piop.reference.elliptic.assemble import CellSystem
from piop.reference.elliptic.cells import StencilOperator, add_pairs, dense
from piop.reference.levels import refuse

_COARSEST = 320  # cells of the coarsest grid, which is factorised
_DEGREE = 3  # of the smoother
_UPPER = 0.125  # the part of the spectrum of D⁻¹A that is smoothed begins here, times its bound
_BOUND = 2.0  # of that spectrum, since rows of |A| sum to at most twice the diagonal
_STRONG = 0.25  # axes whose links are weaker than this, relative to the strongest, are not merged
_ITERATIONS = 60


@final
class Cycle:
    """One V-cycle: an approximate inverse of symmetric, (semi-)definite matrices.

    Args:
        operator: The matrices.
        singular: Whether constants are in their kernel.
    """

    def __init__(self, operator: StencilOperator, singular: bool) -> None:
        size = operator.diagonal.flatten(1).mean(1)
        scaled = operator.scale(1 / size).to(torch.float32)
        self.levels: list[tuple[StencilOperator, tuple[int, ...]]] = []
        while scaled.mass[0].numel() > _COARSEST:
            axes = _strong(scaled)
            if not axes:
                break
            self.levels.append((scaled, axes))
            for axis in axes:
                scaled = scaled.merge(axis)
        matrix = dense(scaled.to(torch.float64))
        if singular:
            pull = matrix.diagonal(dim1=1, dim2=2).mean(1) / matrix.shape[1]
            matrix = matrix + pull[:, None, None]
        factor, failed = torch.linalg.cholesky_ex(matrix)
        self.sound = failed == 0
        self.factor = factor.to(torch.float32)

    def __call__(self, residual: Tensor) -> Tensor:
        """Solve approximately, ``[B, *sizes]`` float64, up to a factor per system."""
        size = norm(residual).clamp_min(1e-300)
        return self._descend(0, (residual / size).to(torch.float32)).to(residual) * size

    def _descend(self, level: int, right: Tensor) -> Tensor:
        if level == len(self.levels):
            flat = right.flatten(1)[..., None]
            return torch.cholesky_solve(flat, self.factor)[..., 0].reshape(right.shape)
        operator, axes = self.levels[level]
        values = _smooth(operator, None, right)
        residual = right - operator.apply(values)
        for axis in axes:
            residual = add_pairs(residual, axis + 1)
        coarse = self._descend(level + 1, residual)
        for axis in axes:
            spread = coarse.repeat_interleave(2, axis + 1)
            coarse = spread.narrow(axis + 1, 0, operator.sizes[axis])
        return _smooth(operator, values + coarse, right)


def _strong(operator: StencilOperator) -> tuple[int, ...]:
    """Axes to merge: those along which errors stay smooth because cells are tied strongly."""
    strength = {
        axis: float(operator.links[axis].mean())
        for axis, (n, pair) in enumerate(zip(operator.sizes, operator.walls, strict=True))
        if n > 2 and (pair is not None or n % 2 == 0)  # others cannot be merged in pairs
    }
    most = max(strength.values(), default=0.0)
    return tuple(axis for axis, own in strength.items() if own >= _STRONG * most)


def _smooth(operator: StencilOperator, values: Tensor | None, right: Tensor) -> Tensor:
    """Chebyshev iteration for D⁻¹A on the upper part of its spectrum (Adams et al., alg. 1)."""
    middle, reach = 0.5 * _BOUND * (1 + _UPPER), 0.5 * _BOUND * (1 - _UPPER)
    ratio = middle / reach
    residual = right if values is None else right - operator.apply(values)
    step = residual * (operator.inverse_diagonal / middle)
    values = step.clone() if values is None else values + step
    before = 1 / ratio
    for _ in range(_DEGREE - 1):
        residual = right - operator.apply(values)
        following = 1 / (2 * ratio - before)
        step.mul_(following * before)
        step.addcmul_(residual, operator.inverse_diagonal, value=2 * following / reach)
        values += step
        before = following
    return values


def conjugate_gradients(
    operator: StencilOperator, right: Tensor, tolerance: float, *, singular: bool
) -> tuple[Tensor, Tensor]:
    """Solve symmetric, definite systems.

    Args:
        operator: The matrices.
        right: Right sides ``[B, *sizes]``; of sum zero where singular.
        tolerance: Of the error in the norm of energy, relative to the solution's, as far as the
            preconditioner knows it.
        singular: Whether constants are in the kernels.

    Returns:
        Solutions ``[B, *sizes]`` and which of them converged ``[B]``.
    """
    precondition = Cycle(operator, singular)
    values = torch.zeros_like(right)
    residual = right.clone()
    better = precondition(residual)
    direction = better.clone()
    energy = dot(residual, better)
    goal = tolerance**2 * energy
    for _ in range(_ITERATIONS):
        active = energy > goal
        if not bool(active.any()):
            break
        image = operator.apply(direction)
        length = torch.where(active, energy / dot(direction, image), 0.0)
        values.addcmul_(direction, length)
        residual.addcmul_(image, length, value=-1)
        better = precondition(residual)
        # (z, r − r_before)/energy: the preconditioner is rounded, so not quite the same each time
        turn = -length * dot(better, image) / energy.clamp_min(1e-300)
        energy = dot(residual, better)
        direction = torch.addcmul(better, direction, turn)
    if singular:
        values -= values.mean(tuple(range(1, values.ndim)), keepdim=True)
    converged = ((energy <= goal) & torch.isfinite(energy)).flatten() & precondition.sound
    return values, converged & torch.isfinite(values).flatten(1).all(1)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner products ``[B, 1, …]``."""
    return (a * b).flatten(1).sum(1).reshape(-1, *[1] * (a.ndim - 1))


def norm(a: Tensor) -> Tensor:
    """Norms ``[B, 1, …]``."""
    return torch.linalg.vector_norm(a.flatten(1), dim=1).reshape(-1, *[1] * (a.ndim - 1))


def solve_cells(
    system: CellSystem, tolerance: float, gauge: float | None, samples: Sequence[int]
) -> Tensor:
    """Solve for values at centres.

    Args:
        system: Matrices and right sides.
        tolerance: Of the algebraic error, in the norm of energy.
        gauge: Mean of the solution where the equation leaves a constant free; then the mean of the
            right side is taken out (whether it vanishes with the cells is for the caller to see).
        samples: Their numbers, for messages.

    Returns:
        ``[B, *sizes]``.

    Raises:
        SolverError: If a matrix is singular.
    """
    operator, right, singular = system.operator, system.right, gauge is not None
    if singular:
        right = right - right.mean(tuple(range(1, right.ndim)), keepdim=True)
    values = torch.zeros_like(right)
    converged = operator.definite
    if bool(converged.any()):
        index = converged.nonzero().flatten()
        part = operator if len(index) == len(right) else operator.take(index)
        values[index], converged[index] = conjugate_gradients(
            part, right[index], tolerance, singular=singular
        )
    left = (~converged).nonzero().flatten()
    if len(left):
        values[left] = solve_directly(operator.take(left), right[left], singular=singular)
    refuse(
        ~torch.isfinite(values),
        samples,
        f"the equation has no solution, or many, on {operator.sizes} cells; "
        "is its reaction term an eigenvalue of the rest?",
    )
    return values if gauge is None else values + gauge


def solve_directly(operator: StencilOperator, right: Tensor, *, singular: bool) -> Tensor:
    """Solve by LU factorisation on the CPU, one system after the other.

    Args:
        operator: The matrices.
        right: Right sides ``[B, *sizes]``; of sum zero where singular.
        singular: Whether constants are in the kernels; the solution then has mean zero.

    Returns:
        ``[B, *sizes]``; NaN where a matrix is singular otherwise.
    """
    found = []
    for sample in range(len(right)):
        matrix = assemble(operator, sample)
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


def assemble(operator: StencilOperator, sample: int) -> csc_matrix:
    """The matrix of one sample."""
    cells = np.arange(operator.mass[sample].numel()).reshape(operator.sizes)
    rows, columns = [cells.ravel()], [cells.ravel()]
    entries = [operator.diagonal[sample].flatten().cpu().numpy()]
    for axis, links in enumerate(operator.links):
        link = links[sample].flatten().cpu().numpy()
        there = link != 0
        one, other = cells.ravel()[there], np.roll(cells, -1, axis).ravel()[there]
        rows += [one, other]
        columns += [other, one]
        entries += [-link[there], -link[there]]
    indices = (np.concatenate(rows), np.concatenate(columns))
    return csc_matrix((np.concatenate(entries), indices), shape=(cells.size, cells.size))
