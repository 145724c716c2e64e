"""Exponential time differencing Runge–Kutta of order four (ETDRK4).

Scheme: S. M. Cox and P. C. Matthews, "Exponential time differencing for stiff systems", J. Comput.
Phys. 176 (2002), eqs. (26)–(29), doi:10.1006/jcph.2002.6995. The operators that multiply the
nonlinear terms are folded into its coefficients, so a step is transforms and few fused updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import Tensor

Pairs = Mapping[tuple[int, int], Tensor]
"""A sparse matrix of symbols: (row, column) → ``[B or 1, *modes]``."""


@final
class Multiplier:
    """A matrix of symbols acting on spectra, ``out[:, r] = Σ_c M[r, c] x[:, c]``.

    Args:
        pairs: Its entries that are not zero.
        rows: Number of rows.
        columns: Number of columns.
    """

    def __init__(self, pairs: Pairs, rows: int, columns: int) -> None:
        self.pairs, self.rows = dict(pairs), rows
        square = rows == columns and set(self.pairs) == {(i, i) for i in range(rows)}
        self.diagonal = None
        if square and rows:
            entries = torch.broadcast_tensors(*(self.pairs[i, i] for i in range(rows)))
            self.diagonal = torch.stack(entries, 1)

    def __call__(self, x: Tensor) -> Tensor:
        """``M x``."""
        if self.diagonal is not None:
            return x * self.diagonal
        return self.add(x, x.new_zeros((x.shape[0], self.rows, *x.shape[2:])))

    def plus(self, base: Tensor, x: Tensor) -> Tensor:
        """``base + M x``."""
        if self.diagonal is not None:
            return torch.addcmul(base, x, self.diagonal)
        return self.add(x, base.clone())

    def add(self, x: Tensor, out: Tensor, first: int = 0) -> Tensor:
        """``out += M x``, in place; ``x`` holds some columns of it, from ``first`` on."""
        if self.diagonal is not None and not first:
            return out.addcmul_(x, self.diagonal)
        for (row, column), symbol in self.pairs.items():
            if first <= column < first + x.shape[1]:
                out[:, row].addcmul_(x[:, column - first], symbol)
        return out


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
