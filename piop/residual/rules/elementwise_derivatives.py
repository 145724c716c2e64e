"""Derivatives up to order five of the elementwise functions that networks use.

Residuals need four; the gradient of a residual of order four needs the fifth.

Source: M. Abramowitz, I. Stegun, Handbook of Mathematical Functions (1964), chapters 3, 4 and 7;
the recurrences of the activations are derived in ``docs/math.md`` and tested against SymPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice, repeat
from typing import Any

import torch
from torch import Tensor

Derivatives = Iterator[Any]
"""f, f′, f″, … at some points, each computed when it is asked for: tensors, or numbers where they
are constant. It may end where the rest is zero."""


@dataclass(frozen=True)
class Elementwise:
    """The derivatives of one elementwise function.

    Attributes:
        basis: Maps x to the tensors that are expensive to compute, kept for the backward pass.
        series: Maps (x, *basis) to f, f′, ….
    """

    basis: Callable[[Tensor], tuple[Tensor, ...]]
    series: Callable[..., Derivatives]

    def derivatives(self, x: Tensor, basis: tuple[Tensor, ...], n: int) -> list[Any]:
        """Give f, f′, …, f⁽ⁿ⁾ at x, fewer where the rest is zero, given the basis there."""
        return list(islice(self.series(x, *basis), n + 1))


def _of(*basis: Callable[[Tensor], Tensor]) -> Callable[[Callable[..., Derivatives]], Elementwise]:
    """Make a table of a function (x, *basis of x)."""
    return lambda series: Elementwise(lambda x: tuple(b(x) for b in basis), series)


@_of(torch.exp)
def exp(x: Tensor, e: Tensor) -> Derivatives:
    """Differentiate exp."""
    return repeat(e)


@_of(torch.sin, torch.cos)
def sin(x: Tensor, s: Tensor, c: Tensor) -> Derivatives:
    """Differentiate sin."""
    yield from (s, c)
    yield from cycle((-s, -c, s, c))


@_of(torch.sin, torch.cos)
def cos(x: Tensor, s: Tensor, c: Tensor) -> Derivatives:
    """Differentiate cos."""
    yield from (c, -s)
    yield from cycle((-c, s, c, -s))


@_of(torch.sinh, torch.cosh)
def sinh(x: Tensor, s: Tensor, c: Tensor) -> Derivatives:
    """Differentiate sinh."""
    return cycle((s, c))


cosh = _of(torch.cosh, torch.sinh)(sinh.series)
"""cosh, which sinh and cosh exchanged differentiate alike."""


@_of(torch.tanh)
def tanh(x: Tensor, y: Tensor) -> Derivatives:
    """Differentiate tanh: with y = tanh x, y′ = 1 − y²."""
    d = torch.addcmul(torch.ones((), dtype=y.dtype, device=y.device), y, y, value=-1)
    yield from (y, d)
    second = -2 * y * d
    yield second
    yield d * (4 - 6 * d)
    yield second * (4 - 12 * d)
    yield d * (16 - 120 * d * (1 - d))


@_of(torch.tan)
def tan(x: Tensor, y: Tensor) -> Derivatives:
    """Differentiate tan: with y = tan x, y′ = 1 + y²."""
    d = 1 + y * y
    yield from (y, d)
    yield 2 * y * d
    yield d * (6 * d - 4)
    yield y * d * (24 * d - 8)
    yield d * (16 - 120 * d * (1 - d))


@_of(torch.sigmoid)
def sigmoid(x: Tensor, s: Tensor) -> Derivatives:
    """Differentiate the logistic function s: s′ = s(1 − s)."""
    d = s * (1 - s)
    yield from (s, d)
    slope = d * (1 - 2 * s)
    yield slope
    yield d * (1 - 6 * d)
    yield slope * (1 - 12 * d)
    yield d * (1 - d * (30 - 120 * d))


@_of(torch.sigmoid)
def silu(x: Tensor, s: Tensor) -> Derivatives:
    """Differentiate x·s(x)."""
    return _times_argument(x, sigmoid.series(x, s))


@_of(
    lambda x: torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi)),
    lambda x: 0.5 * (1 + torch.erf(x * math.sqrt(0.5))),
)
def gelu(x: Tensor, phi: Tensor, cdf: Tensor) -> Derivatives:
    """Differentiate x·Φ(x), Φ the normal distribution and φ = Φ′."""
    yield x * cdf
    yield torch.addcmul(cdf, x, phi)
    square = x * x
    yield phi * (2 - square)
    yield phi * x * (square - 4)
    yield phi * (square * (7 - square) - 4)
    yield phi * x * (square * (square - 11) + 18)


@_of(lambda x: torch.tanh(_GELU * (x + _CUBIC * x * x * x)))
def gelu_tanh(x: Tensor, y: Tensor) -> Derivatives:
    """Differentiate x·½(1 + tanh g), g = √(2/π)(x + 0.044715x³)."""
    return _times_argument(x, _half_tanh(x, y))


def _half_tanh(x: Tensor, y: Tensor) -> Derivatives:
    """Differentiate ½(1 + tanh g) by the chain rule."""
    t = (0.5 * d for d in tanh.series(x, y))
    yield next(t) + 0.5
    t1, g1 = next(t), _GELU * (1 + 3 * _CUBIC * x * x)
    yield t1 * g1
    t2, g2, g3 = next(t), 6 * _CUBIC * _GELU * x, 6 * _CUBIC * _GELU
    yield t2 * g1**2 + t1 * g2
    t3 = next(t)
    yield t3 * g1**3 + 3 * t2 * g1 * g2 + t1 * g3
    t4 = next(t)
    yield t4 * g1**4 + 6 * t3 * g1**2 * g2 + t2 * (4 * g1 * g3 + 3 * g2**2)
    tail = t3 * g1 * (10 * g1 * g3 + 15 * g2**2) + 10 * t2 * g2 * g3
    yield next(t) * g1**5 + 10 * t4 * g1**3 * g2 + tail


@_of(torch.nn.functional.softplus, torch.sigmoid)
def softplus(x: Tensor, y: Tensor, s: Tensor) -> Derivatives:
    """Differentiate log(1 + eˣ); its slope is the logistic function."""
    yield y
    yield from sigmoid.series(x, s)


@_of(torch.erf, lambda x: torch.exp(-x * x) * (2 / math.sqrt(math.pi)))
def erf(x: Tensor, y: Tensor, d: Tensor) -> Derivatives:
    """Differentiate erf through Hermite polynomials."""
    yield from (y, d)
    square = x * x
    yield d * (-2 * x)
    yield d * (4 * square - 2)
    yield d * (x * (12 - 8 * square))
    yield d * (12 + square * (16 * square - 48))


@_of(torch.log, torch.reciprocal)
def log(x: Tensor, y: Tensor, inverse: Tensor) -> Derivatives:
    """Differentiate log."""
    yield y
    yield from _falling(inverse, inverse, -1.0)


log1p = _of(torch.log1p, lambda x: 1 / (1 + x))(log.series)
"""log(1 + x): log with another argument."""


@_of(torch.expm1, torch.exp)
def expm1(x: Tensor, y: Tensor, e: Tensor) -> Derivatives:
    """Differentiate eˣ − 1."""
    yield y
    yield from repeat(e)


@_of(torch.atan, lambda x: 1 / (1 + x * x))
def atan(x: Tensor, y: Tensor, d: Tensor) -> Derivatives:
    """Differentiate atan."""
    yield from (y, d)
    square = x * x
    yield d * (-2 * x * d)
    yield d * ((6 * square - 2) * d**2)
    yield d * (24 * x * (1 - square) * d**3)
    yield d * (24 * (1 + square * (5 * square - 10)) * d**4)


@_of(torch.reciprocal)
def reciprocal(x: Tensor, inverse: Tensor) -> Derivatives:
    """Differentiate 1/x."""
    return _falling(inverse, inverse, -1.0)


@_of(torch.sqrt, torch.reciprocal)
def sqrt(x: Tensor, root: Tensor, inverse: Tensor) -> Derivatives:
    """Differentiate √x."""
    return _falling(root, inverse, 0.5)


@_of(torch.rsqrt, torch.reciprocal)
def rsqrt(x: Tensor, root: Tensor, inverse: Tensor) -> Derivatives:
    """Differentiate 1/√x."""
    return _falling(root, inverse, -0.5)


def power(exponent: float) -> Elementwise:
    """Differentiate xᵖ; a whole p ≥ 0 ends the list after p derivatives, p = 0 after one."""
    known = {-1.0: reciprocal, 0.5: sqrt, -0.5: rsqrt}
    if exponent in known:
        return known[exponent]

    def series(x: Tensor) -> Derivatives:
        if exponent == 0:
            yield from (torch.ones_like(x), 0.0)
            return
        factor = 1.0
        for k in count():
            rest = exponent - k
            yield factor * x**rest if rest else factor
            factor *= rest
            if not factor:
                return

    return Elementwise(lambda x: (), series)


_GELU = math.sqrt(2 / math.pi)
_CUBIC = 0.044715  # D. Hendrycks, K. Gimpel (2016), arXiv:1606.08415, section 2


def _falling(first: Tensor, inverse: Tensor, exponent: float) -> Derivatives:
    """Differentiate xᵖ, given xᵖ and 1/x: the next derivative is (p − k)/x times the last."""
    yield first
    factor = 1.0
    for k in count():
        factor *= exponent - k
        first = first * inverse
        yield factor * first


def _times_argument(x: Tensor, series: Derivatives) -> Derivatives:
    """Differentiate x·h(x): the n-th derivative is x·h⁽ⁿ⁾ + n·h⁽ⁿ⁻¹⁾."""
    before = next(series)
    yield x * before
    for n, h in enumerate(series, start=1):
        yield torch.add(x * h, before, alpha=n)
        before = h
