"""Sums, means, variances and maxima along named dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from piop.residual.rules.kernels import bilinear, compose
from piop.residual.rules.tables import exp, log, sqrt
from piop.residual.streams import NoRuleError, Stream, rule

Dim = int | Sequence[int] | None


def axes(x: Stream, dim: Dim) -> tuple[int, ...]:
    """Turn dimensions of a value into dimensions of its rows."""
    if dim is None:
        raise NoRuleError("a reduction over every dimension, the batch's too")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(d % x.ndim + 1 for d in dims)


@rule("sum")
def total(x: Stream, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Stream:
    """Sum along dimensions."""
    data = x.data.sum(axes(x, dim), keepdim=True, dtype=dtype)
    return _dropped(x.replace(data), axes(x, dim), keepdim)


@rule("mean")
def mean(x: Stream, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Stream:
    """Average along dimensions."""
    data = x.data.mean(axes(x, dim), keepdim=True, dtype=dtype)
    return _dropped(x.replace(data), axes(x, dim), keepdim)


def mean_square(x: Stream, dim: Sequence[int]) -> Stream:
    """Average the square along dimensions, which stay with length one; no full square is kept."""
    dims = tuple(d % x.ndim + 1 for d in dim)
    data = bilinear(x, x, lambda a, b: (a * b).mean(dims, keepdim=True))
    return x.replace(data)


@rule("var")
def var(
    x: Stream,
    dim: Dim = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Stream:
    """Variance along dimensions."""
    dims = axes(x, dim)
    count = 1
    for d in dims:
        count *= x.data.shape[d]
    correction = float(unbiased) if correction is None else correction
    inner = tuple(d - 1 for d in dims)
    out = mean_square(x - mean(x, inner, keepdim=True), inner) * (count / (count - correction))
    return _dropped(out, dims, keepdim)


@rule("std")
def std(x: Stream, *args: Any, **kwargs: Any) -> Stream:
    """Standard deviation along dimensions."""
    return compose(var(x, *args, **kwargs), sqrt)


@rule("norm", "vector_norm")
def norm(x: Stream, ord: Any = 2, dim: Dim = None, keepdim: bool = False, **rest: Any) -> Stream:
    """Euclidean norm along dimensions."""
    order = rest.pop("p", ord)
    if order not in (2, 2.0, "fro") or any(v is not None for v in rest.values()):
        raise NoRuleError(f"norm(p={order!r})")
    return compose(total(x * x, dim, keepdim), sqrt)


@rule("logsumexp")
def logsumexp(x: Stream, dim: Dim, keepdim: bool = False) -> Stream:
    """Log of a sum of exponentials, shifted by the largest value."""
    shift = x.value.detach().amax(tuple(d - 1 for d in axes(x, dim)), keepdim=True)
    out = compose(total(compose(x - shift, exp), dim, True), log) + shift
    return _dropped(out, axes(x, dim), keepdim)


def _extreme(x: Stream, dim: Dim, keepdim: bool, which: Any) -> Stream:
    axis, *others = axes(x, dim)
    if others:
        raise NoRuleError("amax or amin over several dimensions")
    index = which(x.value, axis - 1, keepdim=True)
    rows = x.data.gather(axis, index.expand(x.layout.count, *index.shape))
    return _dropped(x.replace(rows), (axis,), keepdim)


@rule("amax")
def amax(x: Stream, dim: Dim = None, keepdim: bool = False) -> Stream:
    """Largest entry along a dimension; the rows are those of the entry that is largest."""
    return _extreme(x, dim, keepdim, torch.argmax)


@rule("amin")
def amin(x: Stream, dim: Dim = None, keepdim: bool = False) -> Stream:
    """Smallest entry along a dimension."""
    return _extreme(x, dim, keepdim, torch.argmin)


@rule("cumsum")
def cumsum(x: Stream, dim: int, *, dtype: Any = None) -> Stream:
    """Running sum."""
    return Stream(torch.cumsum(x.data, axes(x, dim)[0], dtype=dtype), x.layout, x.weights)


def _dropped(x: Stream, dims: tuple[int, ...], keepdim: bool) -> Stream:
    return x if keepdim else x.map(lambda rows: rows.squeeze(dims))
