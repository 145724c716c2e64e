"""Attention of queries that carry streams to keys and values that carry none, evaluated lazily."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.residual.attention.kernel import AttentionOperands, ScorePolynomials
from piop.residual.attention.online import online_totals
from piop.residual.rules.composition import add_constant, divide
from piop.residual.rules.reduction import logsumexp
from piop.residual.streams import (
    NoRuleError,
    ProductGroup,
    StreamLayout,
    StreamTensor,
    rule,
    streams_times_matrix,
)

MAX_SCORES = {"cpu": 2**24, "cuda": 2**28}
"""Scores, all rows counted, up to which a device writes them out: 64 MiB and 1 GiB in float32."""


class LazyScores(StreamTensor):
    """Rows of queries times keys, plus a mask.

    Args:
        query: Queries ``[*batch, N, d]``.
        key: Keys ``[*batch, d, M]``, with as many dimensions.
        mask: Added to the value ``[*batch, 1, M]``, or None.
    """

    __slots__ = ("_data", "key", "mask", "query")

    def __init__(self, query: StreamTensor, key: Tensor, mask: Tensor | None = None) -> None:
        self.query, self.key, self.mask, self.layout = query, key, mask, query.layout
        self._data: Tensor | None = None

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The rows, written out."""
        if self._data is None:
            rows = streams_times_matrix(self.query.data, self.key)
            if self.mask is not None:
                rows = add_constant(StreamTensor(rows, self.layout, self.weights), self.mask).data
            self._data = rows
        return self._data

    @property
    def weights(self) -> Tensor | None:  # type: ignore[override]
        """Coefficients of the points."""
        return product_coefficients(self.query, self.shape)

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        batch = torch.broadcast_shapes(self.query.shape[:-2], self.key.shape[:-2])
        return torch.Size((*batch, self.query.shape[-2], self.key.shape[-1]))

    @property
    def ndim(self) -> int:
        """Number of dimensions of the value."""
        return self.query.ndim

    def plus(self, constant: Any) -> StreamTensor:
        """Add a constant: a first mask of the sensors is kept apart, anything else written out."""
        if self.mask is None and isinstance(constant, Tensor) and constant.ndim == self.ndim:
            wide = torch.broadcast_shapes(self.shape, constant.shape) == self.shape
            if wide and constant.shape[-2] == 1 and constant.dtype == self.query.dtype:
                return LazyScores(self.query, self.key, constant)
        return add_constant(StreamTensor(self.data, self.layout, self.weights), constant)


def kernel_sums(scores: LazyScores, values: Tensor) -> Tensor | None:
    """Sum the rows of e^z [v | 1] without scores: ``[S, *batch, N, e + 1]``.

    Args:
        scores: The scores z.
        values: v, ``[*batch, M, e]``.

    Returns:
        The sums; None where scores had better be written out.
    """
    kernel = scores.layout.kernel
    size = scores.layout.count * scores.shape.numel()
    held = MAX_SCORES.get(values.device.type, MAX_SCORES["cpu"])
    if not _fits(scores, values) or (kernel is None and size <= held):
        return None
    batch, (n, m) = scores.shape[:-2], scores.shape[-2:]
    query, mask, weights = scores.query, scores.mask, scores.query.weights
    operands = AttentionOperands(
        query.data.expand(-1, *batch, *query.shape[-2:]),
        scores.key.mT.expand(*batch, -1, -1),
        values.expand(*batch, -1, -1),
        None if mask is None else mask.expand(*batch, 1, m),
        None if weights is None else weights[..., 0].expand(-1, *batch, n),
    )
    return (kernel or online_totals)(operands, ScorePolynomials.of(scores.layout))


def _fits(scores: LazyScores, values: Tensor) -> bool:
    """Tell whether the kernels serve: one precision, gradients to rows, keys and values alone."""
    mask, weights = scores.mask, scores.query.weights
    batch = scores.shape[:-2]
    return (
        scores.query.dtype in (torch.float32, torch.float64)
        and scores.key.dtype == values.dtype == scores.query.dtype
        and values.ndim == scores.ndim
        and torch.broadcast_shapes(batch, values.shape[:-2]) == batch
        and not (mask is not None and mask.requires_grad)
        and not (weights is not None and weights.requires_grad)
    )


def product_coefficients(a: StreamTensor, shape: torch.Size) -> Tensor | None:
    """Fit the coefficients of a stream to a product of it with a matrix."""
    return None if a.weights is None else a.weights[..., :1].expand(-1, *shape)


def weighted_sum(scores: StreamTensor, values: Tensor) -> StreamTensor:
    """Give softmax(scores) @ values for values ``[*, M, c]`` that carry no rows."""
    found = kernel_sums(scores, values) if isinstance(scores, LazyScores) else None
    if found is not None:
        return _quotient(scores, found)
    batch = torch.broadcast_shapes(scores.shape[:-2], values.shape[:-2])
    size = (*batch, *scores.shape[-2:])
    if scores.shape != size:
        scores = scores.map(lambda rows: rows.expand(-1, *size))
    values = values.expand(*batch, *values.shape[-2:])
    weights = scores.weights
    if weights is not None and weights.requires_grad:
        return _plain(scores, values)
    data = _WeightedSum.apply(scores.data, values, weights, scores.layout)
    return scores.replace(data)  # type: ignore[arg-type]


class _WeightedSum(torch.autograd.Function):
    """Rows of z ``[S, *, N, M]``, values ``[*, M, c]`` → rows of the sum ``[S, *, N, c]``."""

    @staticmethod
    def forward(
        ctx: Any, data: Tensor, values: Tensor, weights: Tensor | None, layout: StreamLayout
    ) -> Any:
        z = data.movedim(0, -3).unbind(-3)
        e = torch.exp(z[0] - z[0].amax(-1, keepdim=True))
        factors = zip(z[1:], layout.compositions[1:], strict=True)
        rows = [e, *(e * exponent_row(row, groups, z, weights) for row, groups in factors)]
        stacked = torch.stack(rows, -3)
        sums = [row.sum(-1, keepdim=True) for row in rows]
        totals = _product(stacked, values).unbind(-3)
        inverse = sums[0].reciprocal()
        y = [totals[0] * inverse]
        for r, groups in enumerate(layout.products[1:], start=1):
            top = torch.addcmul(totals[r], y[0], sums[r], value=-1)
            for group, i, j in _pairs(groups):
                factor = _scaled(y[i], group, weights)
                top = torch.addcmul(top, factor, sums[j], value=-group.factor)
            y.append(top * inverse)
        ctx.save_for_backward(data, values, weights, stacked, inverse, *sums, *y)
        ctx.layout = layout
        return torch.stack(y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        data, values, weights, stacked, inverse, *rest = ctx.saved_tensors
        count = data.shape[0]
        sums, y, layout = rest[:count], rest[count:], ctx.layout
        slopes: list[Tensor] = list(grads[0].unbind(0))
        at_sums: list[Tensor | float] = [0.0] * count
        at_totals = list(slopes)
        for r in range(count - 1, -1, -1):
            h = slopes[r] * inverse
            at_totals[r] = h
            at_sums[0] = at_sums[0] - (h * y[r]).sum(-1, keepdim=True)
            if r == 0:
                break
            slopes[0] = torch.addcmul(slopes[0], h, sums[r], value=-1)
            at_sums[r] = at_sums[r] - (h * y[0]).sum(-1, keepdim=True)
            for group, i, j in _pairs(layout.products[r]):
                part = _scaled(h, group, weights)
                slopes[i] = torch.addcmul(slopes[i], part, sums[j], value=-group.factor)
                lost = (part * y[i]).sum(-1, keepdim=True)
                at_sums[j] = torch.add(at_sums[j], lost, alpha=-group.factor)  # type: ignore[arg-type]
        tall = torch.stack(at_totals, -3)
        at_values = None
        if ctx.needs_input_grad[1]:
            at_values = torch.matmul(stacked.flatten(-3, -2).mT, tall.flatten(-3, -2))
        if not ctx.needs_input_grad[0]:
            return None, at_values, None, None
        found = _product(tall, values.mT).unbind(-3)
        z, e = data.movedim(0, -3).unbind(-3), stacked.unbind(-3)
        inner = [row + extra for row, extra in zip(found, at_sums, strict=True)]
        at_scores = [reduce(torch.add, (a * b for a, b in zip(e, inner, strict=True)))]
        at_scores += [e[0] * row for row in inner[1:]]
        for r, groups in enumerate(layout.compositions[1:], start=1):
            outer = e[0] * inner[r]
            for group in groups:
                part = _scaled(outer, group, weights)
                for key in group.rows:
                    for i in set(key):
                        others = list(key)
                        others.remove(i)
                        product = reduce(mul, (z[k] for k in others))
                        factor = group.factor * key.count(i)
                        at_scores[i] = torch.addcmul(at_scores[i], part, product, value=factor)
        return torch.stack(at_scores, -3).movedim(-3, 0), at_values, None, None


def exponent_row(
    row: Tensor, groups: Sequence[ProductGroup], rows: Sequence[Tensor], weights: Tensor | None
) -> Tensor:
    """Give (row r of exp z) / exp z."""
    for group in groups:
        for key in group.rows:
            product = reduce(mul, (rows[i] for i in key))
            if group.slot is not None:
                product = product * weights[group.slot]  # type: ignore[index]
            row = torch.add(row, product, alpha=group.factor)
    return row


def _plain(scores: StreamTensor, values: Tensor) -> StreamTensor:
    """Leave the gradient to torch, which also finds that of the coefficients."""
    rows = scores.data.unbind(0)
    e = torch.exp(rows[0] - rows[0].detach().amax(-1, keepdim=True))
    extended = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    totals = [torch.matmul(e, extended)]
    for row, groups in zip(rows[1:], scores.layout.compositions[1:], strict=True):
        factor = exponent_row(row, groups, rows, scores.weights)
        totals.append(torch.matmul(e * factor, extended))
    return _quotient(scores, torch.stack(totals))


def _quotient(scores: StreamTensor, totals: Tensor) -> StreamTensor:
    """Divide the numerators ``[S, *, N, c]`` by the normaliser that follows them."""
    numerator, normaliser = scores.replace(totals).split([totals.shape[-1] - 1, 1], -1)
    return divide(numerator, normaliser)


def _product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply ``[*, S, N, K]`` by ``[*, K, L]``."""
    return torch.matmul(rows.flatten(-3, -2), matrix).unflatten(-2, rows.shape[-3:-1])


def _pairs(groups: Sequence[ProductGroup]) -> list[tuple[ProductGroup, int, int]]:
    return [(group, i, j) for group in groups for i, j in group.rows]


def _scaled(row: Tensor, group: ProductGroup, weights: Tensor | None) -> Tensor:
    """Multiply by the coefficient of the points, which is the same along the last axis."""
    if group.slot is None:
        return row
    return row * weights[group.slot][..., :1]  # type: ignore[index]


class LazySoftmax(StreamTensor):
    """A softmax along the last dimension, written out only if no product with values follows.

    Args:
        scores: What it is the softmax of.
    """

    __slots__ = ("_data", "scores")

    def __init__(self, scores: StreamTensor) -> None:
        self.scores, self.layout, self.weights = scores, scores.layout, scores.weights
        self._data: Tensor | None = None

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The rows, normalised."""
        if self._data is None:
            self._data = _normalised_rows(self.scores, -1)
        return self._data

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        return self.scores.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the value."""
        return self.scores.ndim


@rule("softmax")
def softmax(x: StreamTensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> StreamTensor:
    """As ``F.softmax``."""
    x = x if dtype is None else x.to(dtype)
    if dim % x.ndim == x.ndim - 1:
        return LazySoftmax(x)
    return StreamTensor(_normalised_rows(x, dim), x.layout, x.weights)


@rule("log_softmax")
def log_softmax(x: StreamTensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> StreamTensor:
    """As ``F.log_softmax``."""
    x = x if dtype is None else x.to(dtype)
    return x - logsumexp(x, dim, keepdim=True)


def _normalised_rows(x: StreamTensor, dim: int) -> Tensor:
    rows = x.data.unbind(0)
    y = torch.softmax(rows[0], dim)
    centred: list[Tensor] = [y]
    out = [y]
    for row, groups in zip(rows[1:], x.layout.compositions[1:], strict=True):
        w = exponent_row(row, groups, centred, x.weights)
        average = (y * w).sum(dim, keepdim=True)
        centred.append(row - average)
        out.append(y * (w - average))
    return torch.stack(out)


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> StreamTensor:
    """As ``F.scaled_dot_product_attention``; keys and values may carry streams, but need not."""
    if dropout_p or is_causal or enable_gqa or isinstance(attn_mask, StreamTensor):
        raise NoRuleError("scaled_dot_product_attention with dropout, causal or grouped heads")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(query, torch.transpose(key, -2, -1) * scale)
    return torch.matmul(torch.softmax(_masked(scores, attn_mask), -1), value)  # type: ignore[return-value]


def _masked(scores: Any, mask: Tensor | None) -> Any:
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -math.inf)
    return scores + mask.reshape((1,) * (scores.ndim - mask.ndim) + mask.shape)
