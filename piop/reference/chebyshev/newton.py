"""Newton iterations: for the stages of a Radau IIA step, and for steady equations.

Steady equations V(w) = 0 are solved by damped Newton iterations. A step is taken as far as the
natural monotonicity test allows: the next simplified correction must be shorter than the last one,
which no scaling of the rows changes.

Source: Deuflhard 2011, Newton Methods for Nonlinear Problems, sec. 3.1
(doi:10.1007/978-3-642-23899-4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.polynomial import legendre, polynomial
from torch import Tensor

from piop.linalg import factorise
from piop.reference.chebyshev.system import CollocationSystem


@dataclass(frozen=True)
class Radau:
    """Coefficients of one number of stages.

    Attributes:
        nodes: c ``[s]``, the last one 1.
        inverse: A^{-1} ``[s, s]``.
        shifts: Eigenvalues of A^{-1}, one of each conjugate pair, real ones as real numbers.
        into: Rows of T^{-1} for those, ``[s', s]`` complex.
        back: Columns of T for those, doubled for pairs, ``[s, s']`` complex.
        top: Weights ``[s + 1]`` over 0 and the nodes that give the leading Chebyshev coefficient of
            the collocation polynomial on the step: how well the step is resolved.
    """

    nodes: tuple[float, ...]
    inverse: Tensor
    shifts: tuple[complex | float, ...]
    into: Tensor
    back: Tensor
    top: Tensor

    @property
    def stages(self) -> int:
        """S."""
        return len(self.nodes)


def radau(stages: int) -> Radau:
    """Coefficients of the method with ``stages`` stages."""
    series = np.zeros(stages + 1)
    series[stages - 1 :] = -1.0, 1.0
    c = (np.sort(legendre.legroots(series).real) + 1) / 2
    c[-1] = 1.0
    powers = np.arange(1, stages + 1)
    # Σ_j a_ij c_j^(k−1) = c_i^k / k for k = 1 … s: the polynomials of degree s − 1 are integrated.
    a = np.linalg.solve((c[:, None] ** (powers - 1)).T, (c[:, None] ** powers / powers).T).T
    inverse = np.linalg.inv(a)
    values, vectors = np.linalg.eig(inverse)
    dual = np.linalg.inv(vectors)
    kept = [i for i, v in enumerate(values) if v.imag > -1e-9]
    real = [abs(values[i].imag) < 1e-9 for i in kept]
    shifts = tuple(
        float(values[i].real) if r else complex(values[i]) for i, r in zip(kept, real, strict=True)
    )
    doubled = np.where(real, 1.0, 2.0)
    points = np.concatenate([[0.0], c])
    # Coefficients of powers from values at 0 and the nodes.
    fit = np.linalg.inv(polynomial.polyvander(points, stages))
    top = fit[-1] * 2.0 ** (1 - 2 * stages)
    as_tensor = lambda v: torch.as_tensor(np.ascontiguousarray(v))  # noqa: E731
    return Radau(
        tuple(c.tolist()),
        as_tensor(inverse),
        shifts,
        as_tensor(dual[kept]).to(torch.complex128),
        as_tensor(vectors[:, kept] * doubled).to(torch.complex128),
        as_tensor(top),
    )


_STAGE_ITERATIONS = 12
_SLOW = 0.05  # contraction above which ∂V/∂w is renewed for the next step
_STAGE_ROUNDING = 1e-8  # corrections below this that shrink no more are rounding
_KEPT = 8  # factorisations of step lengths


@final
class Stepper:
    """Steps a system and keeps factorisations.

    Args:
        system: The rows on a mesh.
        scheme: The method.
        start: Time at which the mass matrix is evaluated; it does not move.
    """

    def __init__(self, system: CollocationSystem, scheme: Radau, start: float) -> None:
        device = system.mesh.device
        self.system, self.scheme = system, scheme
        self.mass = system.mass(start)
        self.inverse = scheme.inverse.to(device)
        self.into, self.back = scheme.into.to(device), scheme.back.to(device)
        self.fixed = system.equations.linear and system.equations.steady
        self._slope: Tensor | None = None
        self._factors: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def stages(
        self, w: Tensor, t: float, h: float, guess: Tensor | None, scale: Tensor, tolerance: float
    ) -> tuple[Tensor, Tensor]:
        """Solve for the stages of a step from ``w [B, C, *sizes]`` at t.

        Args:
            w: The state.
            t: Its time.
            h: Length of the step.
            guess: Stages to start from ``[B, s, C, *sizes]``; None for ``w`` itself.
            scale: Size of each channel ``[B, C]``: convergence is relative to it.
            tolerance: Largest relative correction at which iterations stop.

        Returns:
            Stages ``[B, s, C, *sizes]`` and whether each instance converged ``[B]``.
        """
        slope, fresh = self._slope, self._slope is None
        if slope is None:
            slope = self._slope = self.system.jacobian(w, t)
            self._factors.clear()
        whole = w.unsqueeze(1)
        found = (
            whole.expand(-1, self.scheme.stages, *w.shape[1:]) if guess is None else guess
        ).clone()
        last = torch.full((len(w),), torch.inf, dtype=w.dtype, device=w.device)
        good = torch.zeros(len(w), dtype=torch.bool, device=w.device)
        slowest = 0.0
        for i in range(1 if self.fixed else _STAGE_ITERATIONS):
            change = self._correction(whole, found, t, h, slope)
            found += change
            if self.fixed:
                return found, torch.isfinite(found).flatten(1).all(1)
            norm = self.system.mesh.norm
            scale = torch.maximum(scale, norm(found).amax(1).nan_to_num())  # what starts from rest
            size = (norm(change).amax(1) / scale).amax(1)
            ratio = size / last
            if i:
                slowest = max(
                    slowest, float(ratio[~good].nan_to_num().amax()) if not good.all() else 0.0
                )
            # What is left after a contraction by q: size · q/(1 − q).
            left = size * (ratio / (1 - ratio).clamp_min(0.1)).clamp(max=1.0) if i else size
            stuck = (size <= _STAGE_ROUNDING) & (ratio > 0.3) & (i > 0)
            good = good | (left <= tolerance) | stuck
            diverging = ~good & (~torch.isfinite(size) | (ratio > 2) & (i > 1))
            last = torch.where(size > 0, size, last)
            if bool((good | diverging).all()):
                break
        if slowest > _SLOW or not bool(good.all()):
            self.renew()
        if not fresh and not bool(good.all()):  # once more with slopes of here and now
            return self.stages(w, t, h, guess, scale, tolerance)
        return found, good

    def renew(self) -> None:
        """Discard the Jacobian, unless it is constant."""
        if not self.fixed:
            self._slope = None

    def _correction(self, w: Tensor, found: Tensor, t: float, h: float, slope: Tensor) -> Tensor:
        """−(residual of the stages) through the Newton matrix ``[B, s, C, *sizes]``."""
        batch, stages = found.shape[:2]
        difference = (found - w).reshape(batch, stages, -1)
        moved = difference @ self.mass.mT if len(self.mass) > 1 else difference @ self.mass[0].T
        residual = torch.einsum("ij,bjn->bin", self.inverse / h, moved)
        times = [t + c * h for c in self.scheme.nodes]
        residual += self.system.value(found, times).reshape(batch, stages, -1)
        parts = torch.einsum("ki,bin->bkn", self.into, residual.to(self.into.dtype))
        out = torch.zeros_like(residual)
        for k, (lu, shift) in enumerate(
            zip(self._factor(h, slope), self.scheme.shifts, strict=True)
        ):
            part = parts[:, k] if isinstance(shift, complex) else parts[:, k].real
            solved = solve_factored(lu, part)
            out -= (self.back[:, k][:, None] * solved[:, None]).real
        return out.reshape(found.shape)

    def _factor(self, h: float, slope: Tensor) -> list[tuple[Tensor, Tensor]]:
        key = f"{h:.9e}"
        if key not in self._factors:
            if len(self._factors) >= _KEPT:
                self._factors.clear()
            self._factors[key] = [
                factorise(s / h * self.mass + slope)[:2] for s in self.scheme.shifts
            ]
        return self._factors[key]


def solve_factored(factored: tuple[Tensor, Tensor], right: Tensor) -> Tensor:
    """Solve for ``right [B, n]`` with factors ``[B or 1, n, n]``."""
    lu, pivots = factored
    if len(lu) == len(right):
        return torch.linalg.lu_solve(lu, pivots, right.unsqueeze(-1)).squeeze(-1)
    return torch.linalg.lu_solve(lu, pivots, right.T.unsqueeze(0).contiguous())[0].T


_ITERATIONS = 60
_ROUNDING = 1e-11
_SHORTEST = 1e-4


def solve_steady(system: CollocationSystem, guess: Tensor) -> tuple[Tensor, Tensor]:
    """Solve from ``guess [B, C, *sizes]``.

    Returns:
        The state and whether each instance converged ``[B]``.
    """
    w = guess.clone()
    pad = (1,) * (w.ndim - 1)
    lu, pivots, singular = factorise(system.jacobian(w, 0.0))
    if not system.equations.linear and bool(singular.any()):
        # Zero may be where a condition such as u ∂u/∂n = g has no slope: begin beside it.
        w = torch.where((singular > 0).expand(len(w)).reshape(-1, *pad), w + 1, w)
        lu, pivots, _ = factorise(system.jacobian(w, 0.0))
    factored = lu, pivots
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
        good = good | (size <= _ROUNDING * scale)
        damping = torch.where(good, 1.0, damping)
        while True:
            following = w + damping.reshape(-1, *pad) * change
            next_size = _size(system, _correction(system, factored, following)).nan_to_num(
                torch.inf
            )
            fits = good | (next_size <= (1 - damping / 4) * size) | (size <= 1e-9 * scale)
            if bool((fits | (damping < _SHORTEST)).all()):
                break
            damping = torch.where(fits, damping, damping / 2)
        w = torch.where(torch.isfinite(following), following, w)
        if bool((good | (damping < _SHORTEST)).all()):
            break
        damping = (2 * damping).clamp(max=1.0)
        factored = factorise(system.jacobian(w, 0.0))[:2]
    return w, good


def _correction(system: CollocationSystem, factored: tuple[Tensor, Tensor], w: Tensor) -> Tensor:
    return -solve_factored(factored, system.value(w.unsqueeze(1), (0.0,)).flatten(1)).reshape(
        w.shape
    )


def _size(system: CollocationSystem, w: Tensor) -> Tensor:
    return system.mesh.norm(w).square().sum(1).sqrt()
