"""Derivatives up to order five of the elementwise functions that networks use.

Residuals need four; the gradient of a residual of order four needs the fifth.

Source: M. Abramowitz, I. Stegun, Handbook of Mathematical Functions (1964), chapters 3, 4 and 7;
the recurrences of the activations are derived in ``docs/math.md`` and tested against SymPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Derivatives = Sequence[Any]
"""f, f′, f″, … at some points: tensors, or numbers where they are constant."""


@dataclass(frozen=True)
class Elementwise:
    """The derivatives of one elementwise function.

    Attributes:
        basis: Maps x to the tensors that are dear to compute; they are kept for the backward pass.
        derivatives: Maps (x, basis, n) to f, f′, …, f⁽ⁿ⁾; it may stop early where the rest is zero.
    """

    basis: Callable[[Tensor], tuple[Tensor, ...]]
    derivatives: Callable[[Tensor, tuple[Tensor, ...], int], Derivatives]

    def __call__(self, x: Tensor, n: int) -> Derivatives:
        """Give f, f′, …, f⁽ⁿ⁾ at x."""
        return self.derivatives(x, self.basis(x), n)


def _of(*basis: Callable[[Tensor], Tensor]) -> Callable[[Callable[..., Derivatives]], Elementwise]:
    """Make a table of a function (x, *basis of x, n)."""

    def make(function: Callable[..., Derivatives]) -> Elementwise:
        return Elementwise(lambda x: tuple(b(x) for b in basis), lambda x, b, n: function(x, *b, n))

    return make


@_of(torch.exp)
def exp(x: Tensor, e: Tensor, n: int) -> Derivatives:
    """Differentiate exp."""
    return [e] * (n + 1)


@_of(torch.sin, torch.cos)
def sin(x: Tensor, s: Tensor, c: Tensor, n: int) -> Derivatives:
    """Differentiate sin."""
    return _cycle([s, c, -s, -c] if n > 1 else [s, c], n)


@_of(torch.sin, torch.cos)
def cos(x: Tensor, s: Tensor, c: Tensor, n: int) -> Derivatives:
    """Differentiate cos."""
    return _cycle([c, -s, -c, s] if n > 1 else [c, -s], n)


@_of(torch.sinh, torch.cosh)
def sinh(x: Tensor, s: Tensor, c: Tensor, n: int) -> Derivatives:
    """Differentiate sinh."""
    return _cycle([s, c], n)


@_of(torch.sinh, torch.cosh)
def cosh(x: Tensor, s: Tensor, c: Tensor, n: int) -> Derivatives:
    """Differentiate cosh."""
    return _cycle([c, s], n)


@_of(torch.tanh)
def tanh(x: Tensor, y: Tensor, n: int) -> Derivatives:
    """Differentiate tanh: with y = tanh x, y′ = 1 − y²."""
    d = torch.addcmul(torch.ones((), dtype=y.dtype, device=y.device), y, y, value=-1)
    out: list[Any] = [y, d]
    if n > 1:
        second = -2 * y * d
        out.append(second)
        if n > 2:
            out.append(d * (4 - 6 * d))
        if n > 3:
            out.append(second * (4 - 12 * d))
        if n > 4:
            out.append(d * (16 - 120 * d * (1 - d)))
    return out


@_of(torch.tan)
def tan(x: Tensor, y: Tensor, n: int) -> Derivatives:
    """Differentiate tan: with y = tan x, y′ = 1 + y²."""
    d = 1 + y * y
    fifth = d * (16 - 120 * d * (1 - d))
    return [y, d, 2 * y * d, d * (6 * d - 4), y * d * (24 * d - 8), fifth][: n + 1]


@_of(torch.sigmoid)
def sigmoid(x: Tensor, s: Tensor, n: int) -> Derivatives:
    """Differentiate the logistic function s: s′ = s(1 − s)."""
    return _logistic(s, n)


@_of(torch.sigmoid)
def silu(x: Tensor, s: Tensor, n: int) -> Derivatives:
    """Differentiate x·s(x)."""
    return _times_argument(x, _logistic(s, n), n)


@_of(
    lambda x: torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi)),
    lambda x: 0.5 * (1 + torch.erf(x * math.sqrt(0.5))),
)
def gelu(x: Tensor, phi: Tensor, cdf: Tensor, n: int) -> Derivatives:
    """Differentiate x·Φ(x), Φ the normal distribution and φ = Φ′."""
    out: list[Any] = [x * cdf, torch.addcmul(cdf, x, phi)]
    if n > 1:
        square = x * x
        out.append(phi * (2 - square))
        if n > 2:
            out.append(phi * x * (square - 4))
        if n > 3:
            out.append(phi * (square * (7 - square) - 4))
        if n > 4:
            out.append(phi * x * (square * (square - 11) + 18))
    return out


@_of(lambda x: torch.tanh(_GELU * (x + _CUBIC * x * x * x)))
def gelu_tanh(x: Tensor, y: Tensor, n: int) -> Derivatives:
    """Differentiate x·½(1 + tanh g), g = √(2/π)(x + 0.044715x³)."""
    t: list[Any] = [0.5 * d for d in tanh.derivatives(x, (y,), n)]
    g1 = _GELU * (1 + 3 * _CUBIC * x * x)
    h: list[Any] = [t[0] + 0.5, t[1] * g1]
    if n > 1:
        g2 = 6 * _CUBIC * _GELU * x
        h.append(t[2] * g1**2 + t[1] * g2)
        g3 = 6 * _CUBIC * _GELU
        if n > 2:
            h.append(t[3] * g1**3 + 3 * t[2] * g1 * g2 + t[1] * g3)
        if n > 3:
            tail = t[2] * (4 * g1 * g3 + 3 * g2**2)
            h.append(t[4] * g1**4 + 6 * t[3] * g1**2 * g2 + tail)
        if n > 4:
            tail = t[3] * g1 * (10 * g1 * g3 + 15 * g2**2) + 10 * t[2] * g2 * g3
            h.append(t[5] * g1**5 + 10 * t[4] * g1**3 * g2 + tail)
    return _times_argument(x, h, n)


@_of(torch.nn.functional.softplus, torch.sigmoid)
def softplus(x: Tensor, y: Tensor, s: Tensor, n: int) -> Derivatives:
    """Differentiate log(1 + eˣ); its slope is the logistic function."""
    return [y, *_logistic(s, n - 1)[:n]]


@_of(torch.erf, lambda x: torch.exp(-x * x) * (2 / math.sqrt(math.pi)))
def erf(x: Tensor, y: Tensor, d: Tensor, n: int) -> Derivatives:
    """Differentiate erf through Hermite polynomials."""
    square = x * x
    factors = [-2 * x, 4 * square - 2, x * (12 - 8 * square), 12 + square * (16 * square - 48)]
    return [y, d, *(d * factor for factor in factors[: n - 1])]


@_of(torch.log, torch.reciprocal)
def log(x: Tensor, y: Tensor, inverse: Tensor, n: int) -> Derivatives:
    """Differentiate log."""
    return [y, *_falling(inverse, inverse, -1.0, n - 1)]


@_of(torch.log1p, lambda x: 1 / (1 + x))
def log1p(x: Tensor, y: Tensor, inverse: Tensor, n: int) -> Derivatives:
    """Differentiate log(1 + x)."""
    return [y, *_falling(inverse, inverse, -1.0, n - 1)]


@_of(torch.expm1, torch.exp)
def expm1(x: Tensor, y: Tensor, e: Tensor, n: int) -> Derivatives:
    """Differentiate eˣ − 1."""
    return [y, *[e] * n]


@_of(torch.atan, lambda x: 1 / (1 + x * x))
def atan(x: Tensor, y: Tensor, d: Tensor, n: int) -> Derivatives:
    """Differentiate atan."""
    square = x * x
    factors = [-2 * x * d, (6 * square - 2) * d**2, 24 * x * (1 - square) * d**3]
    factors.append(24 * (1 + square * (5 * square - 10)) * d**4)
    return [y, d, *(d * factor for factor in factors[: n - 1])]


@_of(torch.reciprocal)
def reciprocal(x: Tensor, inverse: Tensor, n: int) -> Derivatives:
    """Differentiate 1/x."""
    return _falling(inverse, inverse, -1.0, n)


@_of(torch.sqrt, torch.reciprocal)
def sqrt(x: Tensor, root: Tensor, inverse: Tensor, n: int) -> Derivatives:
    """Differentiate √x."""
    return _falling(root, inverse, 0.5, n)


@_of(torch.rsqrt, torch.reciprocal)
def rsqrt(x: Tensor, root: Tensor, inverse: Tensor, n: int) -> Derivatives:
    """Differentiate 1/√x."""
    return _falling(root, inverse, -0.5, n)


def power(exponent: float) -> Elementwise:
    """Differentiate xᵖ; a whole p ≥ 0 ends the list after p derivatives, p = 0 after one."""
    known = {-1.0: reciprocal, 0.5: sqrt, -0.5: rsqrt}
    if exponent in known:
        return known[exponent]
    if exponent == 0:
        return Elementwise(lambda x: (), lambda x, basis, n: [torch.ones_like(x), 0.0])

    def derivatives(x: Tensor, basis: tuple[Tensor, ...], n: int) -> Derivatives:
        out: list[Any] = []
        factor = 1.0
        for k in range(n + 1):
            rest = exponent - k
            out.append(factor * x**rest if rest else factor if k else torch.ones_like(x))
            factor *= rest
            if factor == 0:
                break
        return out

    return Elementwise(lambda x: (), derivatives)


_GELU = math.sqrt(2 / math.pi)
_CUBIC = 0.044715  # D. Hendrycks, K. Gimpel (2016), arXiv:1606.08415, section 2


def _logistic(s: Tensor, n: int) -> Derivatives:
    d = s * (1 - s)
    out: list[Any] = [s, d]
    if n > 1:
        slope = d * (1 - 2 * s)
        out.append(slope)
        if n > 2:
            out.append(d * (1 - 6 * d))
        if n > 3:
            out.append(slope * (1 - 12 * d))
        if n > 4:
            out.append(d * (1 - d * (30 - 120 * d)))
    return out


def _falling(first: Tensor, inverse: Tensor, exponent: float, n: int) -> Derivatives:
    """Differentiate xᵖ, given xᵖ and 1/x: the next derivative is (p − k)/x times the last."""
    out: list[Any] = [first]
    factor = 1.0
    for k in range(n):
        factor *= exponent - k
        first = first * inverse
        out.append(factor * first)
    return out


def _times_argument(x: Tensor, h: Sequence[Any], n: int) -> Derivatives:
    """Differentiate x·h(x): the n-th derivative is x·h⁽ⁿ⁾ + n·h⁽ⁿ⁻¹⁾."""
    out: list[Any] = [x * h[0]]
    out += [torch.add(x * h[k], h[k - 1], alpha=k) for k in range(1, n + 1)]
    return out


def _cycle(values: list[Tensor], n: int) -> Derivatives:
    return [values[k % len(values)] for k in range(n + 1)]
