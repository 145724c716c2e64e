"""Steady problems between walls: damped Newton iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from piop.linalg import factorise
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.chebyshev.time_stepping import solve_factored

_ITERATIONS = 60
_CONVERGED = 1e-11
_SHORTEST = 1e-4
_SLOW = 0.1  # contraction above which ∂V/∂w is renewed for the next correction


@final
class ConstraintsAtStart:
    """Rows of an evolution without time derivatives, at one time, with all other values held.

    Args:
        system: The rows on a mesh.
        w: The state ``[B, C, *sizes]``.
        t: The time.
        free: Channels that nothing but those rows determines ``[C]``.
    """

    def __init__(self, system: CollocationSystem, w: Tensor, t: float, free: Tensor) -> None:
        self.equations, self.mesh = system.equations, system.mesh
        self._system, self._start, self._time = system, w.unsqueeze(1), t
        self._held = (~free).reshape(-1, *(1,) * (w.ndim - 2)).expand(w.shape[1:])

    def value(self, w: Tensor, _: Sequence[float]) -> Tensor:
        """As of a system."""
        rows = self._system.value(w, (self._time,))
        return torch.where(self._held, w - self._start, rows)

    def jacobian(self, w: Tensor, _: float) -> Tensor:
        """As of a system."""
        rows, held = self._system.jacobian(w, self._time), self._held.flatten()
        return torch.where(held[:, None], torch.eye(len(held)).to(rows), rows)


def consistent_start(system: CollocationSystem, w: Tensor, t: float) -> Tensor:
    """Solve for what has no initial data, so that nonlinear steps begin beside the solution.

    Args:
        system: The rows on a mesh.
        w: The state ``[B, C, *sizes]``, zero where there are no data.
        t: Time of the start.

    Returns:
        The state; as it was where there is no solution.
    """
    free = ~system.differential().reshape(w.shape[1], -1).any(1)
    if system.equations.linear or not bool(free.any()):
        return w
    found, good = solve_steady(ConstraintsAtStart(system, w, t, free), w)
    return torch.where(good.reshape(-1, *(1,) * (w.ndim - 1)), found, w)


def solve_steady(
    system: CollocationSystem | ConstraintsAtStart, guess: Tensor
) -> tuple[Tensor, Tensor]:
    """Solve V(w) = 0 by damped Newton iterations from ``guess [B, C, *sizes]``.

    A step is taken as far as the natural monotonicity test allows: the next simplified correction
    must be shorter than the last one, which no scaling of the rows changes (Deuflhard 2011, Newton
    Methods for Nonlinear Problems, sec. 3.1, doi:10.1007/978-3-642-23899-4).

    Returns:
        The state and whether each instance converged ``[B]``.
    """
    w, good = _newton(system, guess)
    if not system.equations.linear and not bool(good.all()):
        # Zero may be where u**3, or a condition such as u ∂u/∂n = g, has no slope, which leaves a
        # matrix singular up to rounding: begin beside it.
        again, fine = _newton(system, guess + 1)
        w = torch.where(good.reshape(-1, *(1,) * (w.ndim - 1)), w, again)
        good = good | fine
    return w, good


def _newton(system: CollocationSystem | ConstraintsAtStart, guess: Tensor) -> tuple[Tensor, Tensor]:
    w = guess.clone()
    pad = (1,) * (w.ndim - 1)
    factored = factorise(system.jacobian(w, 0.0))[:2]
    if system.equations.linear:
        for _ in range(2):  # the second one takes off rounding
            w = w + _correction(system, factored, w)
        return w, torch.isfinite(w).flatten(1).all(1)
    good = torch.zeros(len(w), dtype=torch.bool, device=w.device)
    damping = torch.ones(len(w), dtype=w.dtype, device=w.device)
    for _ in range(_ITERATIONS):
        change = _correction(system, factored, w)
        size = _size(system, change)
        scale = _size(system, w).clamp_min(1e-300)
        good = good | (size <= _CONVERGED * scale)
        damping = torch.where(good, 1.0, damping)
        while True:
            following = w + damping.reshape(-1, *pad) * change
            further = _correction(system, factored, following)
            next_size = _size(system, further).nan_to_num(torch.inf)
            fits = good | (next_size <= (1 - damping / 4) * size) | (size <= 1e-9 * scale)
            if bool((fits | (damping < _SHORTEST)).all()):
                break
            damping = torch.where(fits, damping, damping / 2)
        w = torch.where(torch.isfinite(following), following, w)
        if bool((good | (damping < _SHORTEST)).all()):
            break
        damping = (2 * damping).clamp(max=1.0)
        if bool((~good & (next_size > _SLOW * size)).any()):
            factored = factorise(system.jacobian(w, 0.0))[:2]
    return w, good


def _correction(
    system: CollocationSystem | ConstraintsAtStart, factored: tuple[Tensor, Tensor], w: Tensor
) -> Tensor:
    residual = system.value(w.unsqueeze(1), (0.0,)).flatten(1)
    return -solve_factored(factored, residual).reshape(w.shape)


def _size(system: CollocationSystem | ConstraintsAtStart, w: Tensor) -> Tensor:
    return system.mesh.norm(w).square().sum(1).sqrt()
