"""Sums, means, norms and maxima along named dimensions, and the normalisations made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules.composition import bilinear, compose, multiply
from piop.residual.rules.elementwise_derivatives import exp, log, rsqrt, sqrt
from piop.residual.stream_tensor import NoRuleError, StreamTensor, as_tuple, rule

Dim = int | Sequence[int] | None


def axes(x: StreamTensor, dim: Dim) -> tuple[int, ...]:
    """Turn dimensions of the value into dimensions of the streams."""
    if dim is None:
        raise NoRuleError("a reduction over every dimension, the batch's too")
    return tuple(d % x.ndim + 1 for d in as_tuple(dim))


def _reduce(
    x: StreamTensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, method: Any
) -> StreamTensor:
    """Sum or average along dimensions."""
    data = method(x.data, axes(x, dim), keepdim=True, dtype=dtype)
    return _dropped(x.replace(data), axes(x, dim), keepdim)


total = rule("sum")(partial(_reduce, method=torch.sum))
mean = rule("mean")(partial(_reduce, method=torch.mean))


def mean_square(x: StreamTensor, dim: Sequence[int]) -> StreamTensor:
    """Average the square along dimensions, which stay with length one; no full square is kept."""
    return x.replace(bilinear(x, x, lambda a, b: (a * b).mean(axes(x, dim), keepdim=True)))


@rule("var")
def var(
    x: StreamTensor,
    dim: Dim = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> StreamTensor:
    """Variance along dimensions."""
    dims = axes(x, dim)
    count = math.prod(x.data.shape[d] for d in dims)
    correction = float(unbiased) if correction is None else correction
    inner = tuple(d - 1 for d in dims)
    out = mean_square(x - mean(x, inner, keepdim=True), inner) * (count / (count - correction))
    return _dropped(out, dims, keepdim)


@rule("std")
def std(x: StreamTensor, *args: Any, **kwargs: Any) -> StreamTensor:
    """Standard deviation along dimensions."""
    return compose(var(x, *args, **kwargs), sqrt)


@rule("norm", "vector_norm")
def norm(
    x: StreamTensor, ord: Any = 2, dim: Dim = None, keepdim: bool = False, **rest: Any
) -> StreamTensor:
    """Euclidean norm along dimensions."""
    order = rest.pop("p", ord)
    if order not in (2, 2.0, "fro") or any(v is not None for v in rest.values()):
        raise NoRuleError(f"norm(p={order!r})")
    return compose(total(x * x, dim, keepdim), sqrt)


@rule("logsumexp")
def logsumexp(x: StreamTensor, dim: Dim, keepdim: bool = False) -> StreamTensor:
    """Log of a sum of exponentials, shifted by the largest value."""
    shift = x.value.detach().amax(tuple(d - 1 for d in axes(x, dim)), keepdim=True)
    out = compose(total(compose(x - shift, exp), dim, True), log) + shift
    return _dropped(out, axes(x, dim), keepdim)


def _extreme(
    x: StreamTensor, dim: Dim = None, keepdim: bool = False, *, argument: Any
) -> StreamTensor:
    """Largest or smallest entry along a dimension; its streams are those of that entry."""
    axis, *others = axes(x, dim)
    if others:
        raise NoRuleError("amax or amin over several dimensions")
    index = argument(x.value, axis - 1, keepdim=True)
    data = x.data.gather(axis, index.expand(x.layout.count, *index.shape))
    return _dropped(x.replace(data), (axis,), keepdim)


rule("amax")(partial(_extreme, argument=torch.argmax))
rule("amin")(partial(_extreme, argument=torch.argmin))


@rule("cumsum")
def cumsum(x: StreamTensor, dim: int, *, dtype: Any = None) -> StreamTensor:
    """Running sum."""
    data = torch.cumsum(x.data, axes(x, dim)[0], dtype=dtype)
    return StreamTensor(data, x.layout, x.coefficients)


def _dropped(x: StreamTensor, dims: tuple[int, ...], keepdim: bool) -> StreamTensor:
    return x if keepdim else x.map(lambda data: data.squeeze(dims))


@rule("layer_norm")
def layer_norm(
    x: StreamTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> StreamTensor:
    """As ``F.layer_norm``."""
    dims = tuple(range(-len(normalized_shape), 0))
    centred = x - mean(x, dims, keepdim=True)
    return _affine(_unit(centred, dims, eps), weight, bias)


@rule("rms_norm")
def rms_norm(
    x: StreamTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> StreamTensor:
    """As ``F.rms_norm``."""
    dims = tuple(range(-len(normalized_shape), 0))
    return _affine(_unit(x, dims, torch.finfo(x.dtype).eps if eps is None else eps), weight, None)


@rule("group_norm")
def group_norm(
    x: StreamTensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> StreamTensor:
    """As ``F.group_norm`` on ``[N, C]``; with further axes it would mix queries."""
    if x.ndim != 2:
        raise NoRuleError("group_norm that mixes further axes")
    grouped = x.unflatten(1, (num_groups, x.shape[1] // num_groups))
    centred = grouped - mean(grouped, -1, keepdim=True)
    return _affine(_unit(centred, (-1,), eps).flatten(1), weight, bias)


@rule("normalize")
def normalize(
    x: StreamTensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> StreamTensor:
    """As ``F.normalize`` for the Euclidean norm."""
    if p != 2.0:
        raise NoRuleError(f"normalize(p={p})")
    return x / norm(x, 2, dim, keepdim=True).clamp(min=eps)


@rule("dropout", "alpha_dropout", "feature_dropout")
def dropout(
    x: StreamTensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> StreamTensor:
    """Do nothing in evaluation; one random mask for all streams in training."""
    if not training or p == 0:
        return x
    mask = torch.nn.functional.dropout(torch.ones_like(x.data[0]), p)
    return StreamTensor(x.data * mask, x.layout, x.coefficients)


def _unit(x: StreamTensor, dims: tuple[int, ...], eps: float) -> StreamTensor:
    return multiply(x, compose(mean_square(x, dims) + eps, rsqrt))


def _affine(x: StreamTensor, weight: Tensor | None, bias: Tensor | None) -> StreamTensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias
