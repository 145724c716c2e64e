"""Conjugate gradients, preconditioned by one multigrid cycle on coarser and coarser networks.

A batch at once, each system with its own step lengths. The value of a coarse cell is taken for both
cells it was made of, and residuals are added up (P. Wesseling, Cell-centered multigrid for
interface problems, J. Comput. Phys. 79 (1988)). The smoother is the Chebyshev polynomial of the
upper part of the spectrum (M. Adams et al., J. Comput. Phys. 188 (2003),
doi:10.1016/S0021-9991(03)00194-3), so the cycle is symmetric. It runs in single precision: it need
not be exact, and memory is its cost.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from piop.reference.elliptic.stencil import StencilOperator, add_pairs, dense, mergeable

_COARSEST = 320  # cells of the last network, which is factorised
_DEGREE = 3  # of the smoother
_UPPER = 0.125  # the part of the spectrum of D⁻¹A that is smoothed begins here, times its bound
_BOUND = 2.0  # of that spectrum, since rows of |A| sum to at most twice the diagonal
_STRONG = 0.25  # axes whose links are weaker than this, relative to the strongest, are not merged
_ITERATIONS = 60


@final
class Cycle:
    """One V-cycle: an approximate inverse of symmetric, (semi-)definite networks.

    Args:
        network: The matrices.
        singular: Whether constants are in their kernel.
    """

    def __init__(self, network: StencilOperator, singular: bool) -> None:
        size = network.diagonal.flatten(1).mean(1)
        scaled = network.scale(1 / size).to(torch.float32)
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
        network, axes = self.levels[level]
        values = _smooth(network, None, right)
        residual = right - network.apply(values)
        for axis in axes:
            residual = add_pairs(residual, axis + 1)
        coarse = self._descend(level + 1, residual)
        for axis in axes:
            spread = coarse.repeat_interleave(2, axis + 1)
            coarse = spread.narrow(axis + 1, 0, network.sizes[axis])
        return _smooth(network, values + coarse, right)


def _strong(network: StencilOperator) -> tuple[int, ...]:
    """Axes to merge: those along which errors stay smooth because cells are tied strongly."""
    allowed = mergeable(network)
    strength = {i: float(network.links[i].mean()) for i in allowed}
    most = max(strength.values(), default=0.0)
    return tuple(i for i in allowed if strength[i] >= _STRONG * most)


def _smooth(network: StencilOperator, values: Tensor | None, right: Tensor) -> Tensor:
    """Chebyshev iteration for D⁻¹A on the upper part of its spectrum (Adams et al., alg. 1)."""
    middle, reach = 0.5 * _BOUND * (1 + _UPPER), 0.5 * _BOUND * (1 - _UPPER)
    ratio = middle / reach
    residual = right if values is None else right - network.apply(values)
    step = residual * (network.inverse_diagonal / middle)
    values = step.clone() if values is None else values + step
    before = 1 / ratio
    for _ in range(_DEGREE - 1):
        residual = right - network.apply(values)
        following = 1 / (2 * ratio - before)
        step.mul_(following * before)
        step.addcmul_(residual, network.inverse_diagonal, value=2 * following / reach)
        values += step
        before = following
    return values


def conjugate_gradients(
    network: StencilOperator, right: Tensor, tolerance: float, *, singular: bool
) -> tuple[Tensor, Tensor]:
    """Solve symmetric, definite systems.

    Args:
        network: The matrices.
        right: Right sides ``[B, *sizes]``; of sum zero where singular.
        tolerance: Of the error in the norm of energy, relative to the solution's, as far as the
            preconditioner knows it.
        singular: Whether constants are in the kernels.

    Returns:
        Solutions ``[B, *sizes]`` and which of them met the tolerance ``[B]``.
    """
    precondition = Cycle(network, singular)
    values = torch.zeros_like(right)
    residual = right.clone()
    better = precondition(residual)
    direction = better.clone()
    energy = dot(residual, better)
    goal = tolerance**2 * energy
    for _ in range(_ITERATIONS):
        open_ = energy > goal
        if not bool(open_.any()):
            break
        image = network.apply(direction)
        length = torch.where(open_, energy / dot(direction, image), 0.0)
        values.addcmul_(direction, length)
        residual.addcmul_(image, length, value=-1)
        better = precondition(residual)
        # (z, r − r_before)/energy: the preconditioner is rounded, so not quite the same each time
        turn = -length * dot(better, image) / energy.clamp_min(1e-300)
        energy = dot(residual, better)
        direction = torch.addcmul(better, direction, turn)
    if singular:
        values -= values.mean(tuple(range(1, values.ndim)), keepdim=True)
    met = (energy <= goal) & torch.isfinite(energy)
    return values, met.flatten() & precondition.sound & torch.isfinite(values).flatten(1).all(1)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner products ``[B, 1, …]``."""
    return (a * b).flatten(1).sum(1).reshape(-1, *[1] * (a.ndim - 1))


def norm(a: Tensor) -> Tensor:
    """Norms ``[B, 1, …]``."""
    return torch.linalg.vector_norm(a.flatten(1), dim=1).reshape(-1, *[1] * (a.ndim - 1))
