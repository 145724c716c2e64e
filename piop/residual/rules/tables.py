"""Derivatives up to order four of the elementwise functions that networks use.

Each function maps (value, n) to f, f′, …, f⁽ⁿ⁾ and may stop early where the rest is zero.
Source: M. Abramowitz, I. Stegun, Handbook of Mathematical Functions (1964), chapters 3, 4 and 7;
the recurrences of the activations are derived in ``docs/math.md`` and tested against SymPy.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Derivatives = list[Tensor | float]


def exp(x: Tensor, n: int) -> Derivatives:
    """Differentiate exp."""
    return [torch.exp(x)] * (n + 1)


def sin(x: Tensor, n: int) -> Derivatives:
    """Differentiate sin."""
    s, c = torch.sin(x), torch.cos(x)
    return _cycle([s, c, -s, -c] if n > 1 else [s, c], n)


def cos(x: Tensor, n: int) -> Derivatives:
    """Differentiate cos."""
    s, c = torch.sin(x), torch.cos(x)
    return _cycle([c, -s, -c, s] if n > 1 else [c, -s], n)


def sinh(x: Tensor, n: int) -> Derivatives:
    """Differentiate sinh."""
    return _cycle([torch.sinh(x), torch.cosh(x)], n)


def cosh(x: Tensor, n: int) -> Derivatives:
    """Differentiate cosh."""
    return _cycle([torch.cosh(x), torch.sinh(x)], n)


def tanh(x: Tensor, n: int) -> Derivatives:
    """Differentiate tanh: with y = tanh x, y′ = 1 − y²."""
    return _through_slope(torch.tanh(x), -1.0, n)


def tan(x: Tensor, n: int) -> Derivatives:
    """Differentiate tan: with y = tan x, y′ = 1 + y²."""
    return _through_slope(torch.tan(x), 1.0, n)


def _through_slope(y: Tensor, sign: float, n: int) -> Derivatives:
    """Differentiate the solution of y′ = 1 + sign·y²."""
    d = 1 + sign * y * y
    out: Derivatives = [y, d]
    if n > 1:
        out.append(2 * sign * y * d)
    if n > 2:
        out.append(d * (2 * sign + 6 * y * y))
    if n > 3:
        out.append(d * y * (16 + 24 * sign * y * y))
    return out


def sigmoid(x: Tensor, n: int) -> Derivatives:
    """Differentiate the logistic function s: s′ = s(1 − s)."""
    s = torch.sigmoid(x)
    d = s * (1 - s)
    out: Derivatives = [s, d]
    if n > 1:
        slope = d * (1 - 2 * s)
        out.append(slope)
        if n > 2:
            out.append(d * (1 - 6 * d))
        if n > 3:
            out.append(slope * (1 - 12 * d))
    return out


def silu(x: Tensor, n: int) -> Derivatives:
    """Differentiate x·s(x)."""
    return _times_argument(x, sigmoid(x, n), n)


def gelu(x: Tensor, n: int) -> Derivatives:
    """Differentiate x·Φ(x), Φ the normal distribution and φ = Φ′."""
    phi = torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    cdf = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
    out: Derivatives = [x * cdf, cdf + x * phi]
    square = x * x if n > 1 else x
    if n > 1:
        out.append(phi * (2 - square))
    if n > 2:
        out.append(phi * x * (square - 4))
    if n > 3:
        out.append(phi * (square * (7 - square) - 4))
    return out


def gelu_tanh(x: Tensor, n: int) -> Derivatives:
    """Differentiate x·½(1 + tanh g), g = √(2/π)(x + 0.044715x³)."""
    k, a = math.sqrt(2 / math.pi), 0.044715
    t = [0.5 * d for d in tanh(k * (x + a * x * x * x), n)]
    t[0] = t[0] + 0.5
    g1 = k * (1 + 3 * a * x * x)
    h: Derivatives = [t[0], t[1] * g1]
    if n > 1:
        g2 = 6 * a * k * x
        h.append(t[2] * g1**2 + t[1] * g2)
        g3 = 6 * a * k
        if n > 2:
            h.append(t[3] * g1**3 + 3 * t[2] * g1 * g2 + t[1] * g3)
        if n > 3:
            tail = t[2] * (4 * g1 * g3 + 3 * g2**2)
            h.append(t[4] * g1**4 + 6 * t[3] * g1**2 * g2 + tail)
    return _times_argument(x, h, n)


def softplus(x: Tensor, n: int) -> Derivatives:
    """Differentiate log(1 + eˣ); its slope is the logistic function."""
    return [torch.nn.functional.softplus(x), *sigmoid(x, n - 1)[:n]]


def erf(x: Tensor, n: int) -> Derivatives:
    """Differentiate erf through Hermite polynomials."""
    d = torch.exp(-x * x) * (2 / math.sqrt(math.pi))
    factors = [-2 * x, 4 * x * x - 2, x * (12 - 8 * x * x)]
    return [torch.erf(x), d, *(d * factor for factor in factors[: n - 1])]


def log(x: Tensor, n: int) -> Derivatives:
    """Differentiate log."""
    return [torch.log(x), *power(x, -1.0, n - 1)]


def log1p(x: Tensor, n: int) -> Derivatives:
    """Differentiate log(1 + x)."""
    return [torch.log1p(x), *power(1 + x, -1.0, n - 1)]


def expm1(x: Tensor, n: int) -> Derivatives:
    """Differentiate eˣ − 1."""
    return [torch.expm1(x), *[torch.exp(x)] * n]


def atan(x: Tensor, n: int) -> Derivatives:
    """Differentiate atan."""
    d = 1 / (1 + x * x)
    factors = [-2 * x * d, (6 * x * x - 2) * d**2, 24 * x * (1 - x * x) * d**3]
    return [torch.atan(x), d, *(d * factor for factor in factors[: n - 1])]


def reciprocal(x: Tensor, n: int) -> Derivatives:
    """Differentiate 1/x."""
    return power(x, -1.0, n)


def sqrt(x: Tensor, n: int) -> Derivatives:
    """Differentiate √x."""
    return power(x, 0.5, n)


def rsqrt(x: Tensor, n: int) -> Derivatives:
    """Differentiate 1/√x."""
    return power(x, -0.5, n)


def power(x: Tensor, exponent: float, n: int) -> Derivatives:
    """Differentiate xᵖ; a whole p ≥ 0 ends the list after p derivatives."""
    out: Derivatives = []
    if exponent in (-1.0, 0.5, -0.5):
        first = {-1.0: torch.reciprocal, 0.5: torch.sqrt, -0.5: torch.rsqrt}[exponent](x)
        inverse = first if exponent == -1 else torch.reciprocal(x) if n else x
        out, factor = [first], 1.0
        for k in range(n):
            factor *= exponent - k
            first = first * inverse
            out.append(factor * first)
        return out
    factor = 1.0
    for k in range(n + 1):
        rest = exponent - k
        out.append(factor * x**rest if rest else x.new_tensor(factor).expand_as(x))
        factor *= rest
        if factor == 0:
            break
    return out


def _times_argument(x: Tensor, h: Derivatives, n: int) -> Derivatives:
    """Differentiate x·h(x): the n-th derivative is x·h⁽ⁿ⁾ + n·h⁽ⁿ⁻¹⁾."""
    out: Derivatives = [x * h[0]]
    out += [torch.add(x * h[k], h[k - 1], alpha=k) for k in range(1, n + 1)]  # type: ignore[arg-type]
    return out


def _cycle(values: list[Tensor], n: int) -> Derivatives:
    return [values[k % len(values)] for k in range(n + 1)]
