"""Attention of queries that carry streams to keys and values that carry none.

With E_0 = exp(z − max z) and E_r = E_0·w_r, w_r = z_r + (products of lower streams of z),
numerators and normalisers of softmax(z) @ v are

    T_r = E_r v,    b_r = Σ E_r,

and the streams of the quotient solve y·b = T by the rule of products (``docs/math.md``, 4 and 6).
The backward pass takes the same steps the other way round. Streams stand beside the queries,
``[*, S, N, M]``, so that every product with keys or values is one large matrix product.

A softmax by itself is y = exp ζ, ζ = z − log Σ exp z. With w_r = z_r + (products of lower streams
of ζ) every stream is y·(w_r − Σ y w_r), since the derivatives of a constant sum vanish (6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.forms.stream_plan import ProductGroup
from piop.residual.attention.kernel import AttentionOperands, ScorePolynomials
from piop.residual.attention.online import online_totals
from piop.residual.rules.composition import divide, pairs, product_of, quotients
from piop.residual.rules.reduction import logsumexp
from piop.residual.stream_tensor import (
    NoRuleError,
    StreamLayout,
    StreamTensor,
    at_most,
    require_constant,
    rule,
    streams_times_matrix,
    times_coefficient,
)

MAX_SCORES = {"cpu": 2**24, "cuda": 2**28}
"""Largest number of scores, all streams counted, that a device holds as a whole in memory for a
product with values: 64 MiB and 1 GiB in float32."""


@final
class LazyScores(StreamTensor):
    """Scores of attention, queries times keys plus a mask, evaluated only if needed as a whole.

    ``softmax(q @ k + mask) @ v`` needs no stream of scores as a whole; everything else does.

    Args:
        query: Queries ``[*batch, N, d]``.
        key: Keys ``[*batch, d, M]``, with as many dimensions.
        mask: Added to the value ``[*batch, 1, M]``, or None.
    """

    def __init__(self, query: StreamTensor, key: Tensor, mask: Tensor | None = None) -> None:
        self.query, self.key, self.mask, self.layout = query, key, mask, query.layout
        self.dtype, self.device = query.dtype, query.device  # known without the scores
        self.coefficients = query.coefficients_of(self.shape)

    @cached_property
    def data(self) -> Tensor:
        """The streams of the scores ``[S, *batch, N, M]``."""
        streams = streams_times_matrix(self.query.data, self.key)
        if self.mask is None:
            return streams
        return StreamTensor(streams, self.layout, self.coefficients).plus(self.mask).data

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        batch = torch.broadcast_shapes(self.query.shape[:-2], self.key.shape[:-2])
        return torch.Size((*batch, self.query.shape[-2], self.key.shape[-1]))

    def plus(self, constant: Any) -> StreamTensor:
        """Add a constant: a first mask of the sensors is stored, anything else evaluates scores."""
        if self.mask is None and isinstance(constant, Tensor) and constant.ndim == self.ndim:
            wide = torch.broadcast_shapes(self.shape, constant.shape) == self.shape
            if wide and constant.shape[-2] == 1 and constant.dtype == self.query.dtype:
                return LazyScores(self.query, self.key, constant)
        return StreamTensor(self.data, self.layout, self.coefficients).plus(constant)

    def kernel_sums(self, values: Tensor) -> Tensor | None:
        """Sum the streams of e^z [v | 1] without scores: ``[S, *batch, N, e + 1]``.

        Args:
            values: v, ``[*batch, M, e]``.

        Returns:
            The sums; None where the scores are better evaluated as a whole.
        """
        kernel, size = self.layout.kernel, self.layout.count * self.numel()
        largest = MAX_SCORES.get(values.device.type, MAX_SCORES["cpu"])
        if not self._kernel_applies(values) or (kernel is None and not at_most(largest + 1, size)):
            return None
        query, mask, coefficients = self.query, self.mask, self.query.coefficients
        *batch, n, m = self.shape
        operands = AttentionOperands(
            query.data.expand(-1, *batch, *query.shape[-2:]),
            self.key.mT.expand(*batch, -1, -1),
            values.expand(*batch, -1, -1),
            None if mask is None else mask.expand(*batch, 1, m),
            None if coefficients is None else coefficients[..., 0].expand(-1, *batch, n),
        )
        return (kernel or online_totals)(operands, ScorePolynomials.of(self.layout))

    def _kernel_applies(self, values: Tensor) -> bool:
        """Whether the kernels apply: one precision, gradients to streams, keys and values alone."""
        constants, batch = (self.mask, self.query.coefficients), self.shape[:-2]
        return (
            self.query.dtype in (torch.float32, torch.float64)
            and self.key.dtype == values.dtype == self.query.dtype
            and values.ndim == self.ndim
            and torch.broadcast_shapes(batch, values.shape[:-2]) == batch
            and not any(c is not None and c.requires_grad for c in constants)
        )


def weighted_sum(scores: StreamTensor, values: Tensor) -> StreamTensor:
    """Return softmax(scores) @ values for values ``[*, M, c]`` that carry no streams."""
    found = scores.kernel_sums(values)
    if found is not None:
        return _quotient(scores, found)
    batch = torch.broadcast_shapes(scores.shape[:-2], values.shape[:-2])
    size = (*batch, *scores.shape[-2:])
    if scores.shape != size:
        scores = scores.map(lambda data: data.expand(-1, *size))
    values = values.expand(*batch, *values.shape[-2:])
    coefficients = scores.coefficients
    if coefficients is not None and coefficients.requires_grad:
        return _by_autograd(scores, values)
    data: Any = _WeightedSum.apply(scores.data, values, coefficients, scores.layout)
    return scores.replace(data)


@once_differentiable
def _weighted_sum_gradients(ctx: Any, grad: Tensor) -> Any:
    data, values, coefficients, stacked, *rest = ctx.saved_tensors
    count = data.shape[0]
    narrow = None if coefficients is None else coefficients[..., :1]
    sums, y, layout = rest[:count], rest[count:], ctx.layout
    inverse = sums[0].reciprocal()
    slopes: list[Tensor] = list(grad.unbind(0))
    at_sums: list[Any] = [0.0] * count
    at_totals = list(slopes)
    for r in range(count - 1, -1, -1):
        h = slopes[r] * inverse
        at_totals[r] = h
        at_sums[0] = at_sums[0] - (h * y[r]).sum(-1, keepdim=True)
        if r == 0:
            break
        slopes[0] = torch.addcmul(slopes[0], h, sums[r], value=-1)
        at_sums[r] = at_sums[r] - (h * y[0]).sum(-1, keepdim=True)
        for group, i, j in pairs(layout.products[r]):
            part = times_coefficient(h, group.slot, narrow)
            slopes[i] = torch.addcmul(slopes[i], part, sums[j], value=-group.factor)
            lost = (part * y[i]).sum(-1, keepdim=True)
            at_sums[j] = torch.add(at_sums[j], lost, alpha=-group.factor)
    stacked_totals = torch.stack(at_totals, -3)
    at_values = None
    if ctx.needs_input_grad[1]:
        at_values = torch.matmul(stacked.flatten(-3, -2).mT, stacked_totals.flatten(-3, -2))
    if not ctx.needs_input_grad[0]:
        return None, at_values, None, None
    found = _product(stacked_totals, values.mT).unbind(-3)
    z, e = data.movedim(0, -3).unbind(-3), stacked.unbind(-3)
    inner = [stream + extra for stream, extra in zip(found, at_sums, strict=True)]
    outer = [e[0] * stream for stream in inner]
    at_scores = outer.copy()
    for stream, slope in zip(e[1:], inner[1:], strict=True):
        at_scores[0] = torch.addcmul(at_scores[0], stream, slope)
    for r, groups in enumerate(layout.compositions[1:], start=1):
        for group in groups:
            part = times_coefficient(outer[r], group.slot, narrow)
            for i, others, factor in group.slopes:
                product = product_of(z, others)
                at_scores[i] = torch.addcmul(at_scores[i], part, product, value=factor)
    return torch.stack(at_scores, -3).movedim(-3, 0), at_values, None, None


class _WeightedSum(torch.autograd.Function):
    """Streams of z ``[S, *, N, M]``, values ``[*, M, c]`` → streams of the sum ``[S, *, N, c]``."""

    @staticmethod
    def forward(
        ctx: Any, data: Tensor, values: Tensor, coefficients: Tensor | None, layout: StreamLayout
    ) -> Any:
        z = data.movedim(0, -3).unbind(-3)
        narrow = None if coefficients is None else coefficients[..., :1]
        e = torch.exp(z[0] - z[0].amax(-1, keepdim=True))
        factors = zip(z[1:], layout.compositions[1:], strict=True)
        streams = [e]
        streams += [e * exponent_stream(*factor, z, coefficients) for factor in factors]
        stacked = torch.stack(streams, -3)
        sums = [stream.sum(-1, keepdim=True) for stream in streams]
        y = quotients(_product(stacked, values).unbind(-3), sums, layout, narrow)
        ctx.save_for_backward(data, values, coefficients, stacked, *sums, *y)
        ctx.layout = layout
        return torch.stack(y)

    backward: Any = staticmethod(_weighted_sum_gradients)


def exponent_stream(
    stream: Tensor,
    groups: Sequence[ProductGroup],
    streams: Sequence[Tensor],
    coefficients: Tensor | None,
) -> Tensor:
    """Give (stream r of exp z) / exp z."""
    for group in groups:
        for key in group.products:
            product = times_coefficient(product_of(streams, key), group.slot, coefficients)
            stream = torch.add(stream, product, alpha=group.factor)
    return stream


def _by_autograd(scores: StreamTensor, values: Tensor) -> StreamTensor:
    """Leave the gradient to torch, which also computes that of the coefficients."""
    streams = scores.data.unbind(0)
    e = torch.exp(streams[0] - streams[0].detach().amax(-1, keepdim=True))
    extended = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    totals = [torch.matmul(e, extended)]
    for stream, groups in zip(streams[1:], scores.layout.compositions[1:], strict=True):
        factor = exponent_stream(stream, groups, streams, scores.coefficients)
        totals.append(torch.matmul(e * factor, extended))
    return _quotient(scores, torch.stack(totals))


def _quotient(scores: StreamTensor, totals: Tensor) -> StreamTensor:
    """Divide the numerators ``[S, *, N, c]`` by the normaliser that follows them."""
    numerator, normaliser = scores.replace(totals).split([totals.shape[-1] - 1, 1], -1)
    return divide(numerator, normaliser)


def _product(streams: Tensor, matrix: Tensor) -> Tensor:
    """Multiply ``[*, S, N, K]`` by ``[*, K, L]``."""
    return torch.matmul(streams.flatten(-3, -2), matrix).unflatten(-2, streams.shape[-3:-1])


@final
class LazySoftmax(StreamTensor):
    """A softmax along the last dimension, evaluated only if no product with values follows.

    Args:
        scores: The argument of the softmax.
    """

    def __init__(self, scores: StreamTensor) -> None:
        self.scores, self.layout = scores, scores.layout
        self.dtype, self.device = scores.dtype, scores.device
        self.coefficients = scores.coefficients

    @cached_property
    def data(self) -> Tensor:
        """The streams of the normalised weights."""
        return _normalised_streams(self.scores, -1)

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        return self.scores.shape

    def attend(self, values: Tensor) -> StreamTensor:
        """Multiply by values ``[*, M, c]`` that carry no streams."""
        return weighted_sum(self.scores.aligned(values.ndim), values)


@rule("softmax")
def softmax(x: StreamTensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> StreamTensor:
    """As ``F.softmax``."""
    x = x if dtype is None else x.to(dtype)
    if dim % x.ndim == x.ndim - 1:
        return LazySoftmax(x)
    return StreamTensor(_normalised_streams(x, dim), x.layout, x.coefficients)


@rule("log_softmax")
def log_softmax(x: StreamTensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> StreamTensor:
    """As ``F.log_softmax``."""
    x = x if dtype is None else x.to(dtype)
    return x - logsumexp(x, dim, keepdim=True)


def _normalised_streams(x: StreamTensor, dim: int) -> Tensor:
    streams = x.data.unbind(0)
    y = torch.softmax(streams[0], dim)
    centred: list[Tensor] = [y]
    out = [y]
    for stream, groups in zip(streams[1:], x.layout.compositions[1:], strict=True):
        w = exponent_stream(stream, groups, centred, x.coefficients)
        average = (y * w).sum(dim, keepdim=True)
        centred.append(stream - average)
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
    if dropout_p or is_causal or enable_gqa:
        raise NoRuleError("scaled_dot_product_attention with dropout, causal or grouped heads")
    require_constant("scaled_dot_product_attention with a mask of the queries", attn_mask)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(query, torch.transpose(key, -2, -1) * scale)
    weights: Any = torch.softmax(_masked(scores, attn_mask), -1)
    return weights @ value


def _masked(scores: Any, mask: Tensor | None) -> Any:
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -math.inf)
    return scores + mask.reshape((1,) * (scores.ndim - mask.ndim) + mask.shape)
