"""Exponential time differencing Runge–Kutta of order four (ETDRK4), and its coefficients."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import Tensor

from piop.linalg import invert
from piop.reference.fourier.grid import Multiplier, Pairs


@final
class ETDRK4:
    """One step of w_t = L w + M F(w, t), with F evaluated by a callable on spectra.

    Args:
        coefficients: ``E, E2, Q, f1, f2, f3`` of h·L, the last four already times M.
        states: Components of w.
        products: Components of F; 0 makes the step exact.
        step: h, in units of time.
    """

    def __init__(
        self, coefficients: Mapping[str, Pairs], states: int, products: int, step: float
    ) -> None:
        self.step = step
        self.products = products
        self.whole, self.half = (Multiplier(coefficients[k], states, states) for k in ("E", "E2"))
        if products:
            doubled = {k: 2 * v for k, v in coefficients["Q"].items()}
            change = {(i, j): v - 1 if i == j else v for (i, j), v in coefficients["E2"].items()}
            self.change = Multiplier(change, states, states)
            folded = (coefficients["Q"], doubled, *(coefficients[k] for k in ("f1", "f2", "f3")))
            self.first, self.third, self.f1, self.f2, self.f3 = (
                Multiplier(c, states, products) for c in folded
            )

    def __call__(
        self, w: Tensor, now: Tensor | None, t: float, evaluate: Callable[[Tensor, float], Tensor]
    ) -> Tensor:
        """Advance ``w [B, states, *modes]`` from t to t + h.

        Args:
            w: Spectra of the state.
            now: F(w, t), which the caller has for its own use; None without products.
            t: Time.
            evaluate: F, giving ``[B, products, *modes]``.

        Returns:
            The new state; ``w`` is left alone.
        """
        if now is None:
            return self.whole(w)
        # Sums are formed as soon as their terms are there, while those are in the cache. The third
        # stage E2 a + Q (2 F(b) − F(w)) is written with Q F(w) = a − E2 w.
        middle = t + self.step / 2
        half = self.half(w)
        a = self.first.plus(half, now)
        new = self.f1.add(now, self.whole(w))
        c = self.change.plus(half, a)
        stage = evaluate(a, middle)
        b = self.first.add(stage, half)
        self.f2.add(stage, new)
        stage = evaluate(b, middle)
        self.third.add(stage, c)
        self.f2.add(stage, new)
        return self.f3.add(evaluate(c, t + self.step), new)


_POINTS = 32  # on the circle: below 1e-14 on the real and the imaginary axis
_WELL_CONDITIONED = 1e3  # of eigenvectors; rounding is this times machine precision


def scalar_coefficients(symbol: Tensor, step: float) -> dict[str, Tensor]:
    """E, E2, Q, f1, f2, f3 of a scalar symbol.

    Args:
        symbol: L, complex, any shape, per unit of time.
        step: h, in units of time.

    Returns:
        Tensors of the symbol's shape; Q, f1, f2 and f3 carry the factor h.
    """
    z = step * symbol
    means = [torch.zeros_like(z) for _ in range(4)]
    for j in range(_POINTS):
        r = z + cmath.exp(2j * math.pi * (j + 0.5) / _POINTS)
        e, cube = torch.exp(r), r**3
        means[0] += (torch.exp(r / 2) - 1) / r
        means[1] += (-4 - r + e * (4 - 3 * r + r * r)) / cube
        means[2] += 2 * (2 + r + e * (r - 2)) / cube
        means[3] += (-4 - 3 * r - r * r + e * (4 - r)) / cube
    means = [m * (step / _POINTS) for m in means]
    if not symbol.imag.any():  # the means of a real symbol are real up to rounding
        means = [m.real.to(z.dtype) for m in means]
    names = ("E", "E2", "Q", "f1", "f2", "f3")
    return dict(zip(names, (torch.exp(z), torch.exp(z / 2), *means), strict=True))


def coupled_coefficients(blocks: Tensor, step: float) -> dict[str, Tensor]:
    """E, E2, Q, f1, f2, f3 of one matrix per wavenumber.

    Blocks with well-conditioned eigenvectors go through their eigenvalues; the others (a wave
    equation at k = 0 is defective) through the exponential of an augmented matrix: the first block
    row of exp [[A, I, 0, 0], [0, 0, I, 0], [0, 0, 0, I], 0] is e^A, φ1, φ2, φ3 (A. H. Al-Mohy and
    N. J. Higham, SIAM J. Sci. Comput. 33 (2011), thm. 2.1, doi:10.1137/100788860).

    Args:
        blocks: L, complex ``[..., n, n]``, per unit of time.
        step: h, in units of time.

    Returns:
        Tensors of the blocks' shape.
    """
    values, vectors = torch.linalg.eig(blocks.cpu())
    spread = torch.linalg.svdvals(vectors)
    good = spread[..., 0] < _WELL_CONDITIONED * spread[..., -1]
    identity = torch.eye(blocks.shape[-1], dtype=blocks.dtype)
    vectors = torch.where(good[..., None, None], vectors, identity)
    inverse, _ = invert(vectors)  # never singular: of condition below 1e3, or the identity
    scalar = scalar_coefficients(values, step)
    out = {k: (vectors * s[..., None, :]) @ inverse for k, s in scalar.items()}
    if not good.all():
        defective = _augmented(blocks.cpu()[~good], step)
        for name, value in defective.items():
            out[name][~good] = value
    return {k: v.to(blocks.device) for k, v in out.items()}


def _augmented(blocks: Tensor, step: float) -> dict[str, Tensor]:
    e, p1, p2, p3 = _phi(step * blocks)
    e2, q, _, _ = _phi(step / 2 * blocks)
    return {
        "E": e,
        "E2": e2,
        "Q": step / 2 * q,
        "f1": step * (p1 - 3 * p2 + 4 * p3),
        "f2": step * (2 * p2 - 4 * p3),
        "f3": step * (-p2 + 4 * p3),
    }


def _phi(matrix: Tensor) -> list[Tensor]:
    """e^A, φ1(A), φ2(A), φ3(A) of ``[m, n, n]``."""
    n = matrix.shape[-1]
    big = matrix.new_zeros((*matrix.shape[:-2], 4 * n, 4 * n))
    big[..., :n, :n] = matrix
    for i in range(3):
        rows, columns = slice(i * n, (i + 1) * n), slice((i + 1) * n, (i + 2) * n)
        big[..., rows, columns] = torch.eye(n, dtype=matrix.dtype)
    return list(torch.matrix_exp(big)[..., :n, :].split(n, dim=-1))


def pairs_of(tensor: Tensor, scalar: bool) -> Pairs:
    """Entries of ``[b, n, *modes]`` (diagonal) or ``[b, *modes, n, n]`` that are not all zero."""
    if scalar:
        return {(i, i): tensor[:, i] for i in range(tensor.shape[1])}
    n = tensor.shape[-1]
    entries = {(i, j): tensor[..., i, j].contiguous() for i in range(n) for j in range(n)}
    return {k: v for k, v in entries.items() if k[0] == k[1] or v.any()}
