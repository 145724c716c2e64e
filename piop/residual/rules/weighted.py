"""Sums weighted by a softmax, as in attention, with their gradient written out.

With E_0 = exp(z − max z) and E_r = E_0·w_r, w_r = z_r + (products of lower rows of z), numerators
and normalisers of softmax(z) @ v are

    T_r = E_r v,    b_r = Σ E_r,

and the rows of the quotient solve y·b = T by the rule of products (``docs/math.md``, 4 and 6). The
backward pass takes the same steps the other way round. Rows stand beside the queries, ``[*, S, N,
M]``, so that every product with keys or values is one tall matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.residual.rules.kernels import divide
from piop.residual.rules.scores import Scores, summed
from piop.residual.streams import Stream, StreamGroup, StreamLayout


def weighted_sum(scores: Stream, values: Tensor) -> Stream:
    """Give softmax(scores) @ values for values ``[*, M, c]`` that carry no rows."""
    found = summed(scores, values) if isinstance(scores, Scores) else None
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
    row: Tensor, groups: Sequence[StreamGroup], rows: Sequence[Tensor], weights: Tensor | None
) -> Tensor:
    """Give (row r of exp z) / exp z."""
    for group in groups:
        for key in group.rows:
            product = reduce(mul, (rows[i] for i in key))
            if group.slot is not None:
                product = product * weights[group.slot]  # type: ignore[index]
            row = torch.add(row, product, alpha=group.factor)
    return row


def _plain(scores: Stream, values: Tensor) -> Stream:
    """Leave the gradient to torch, which also finds that of the coefficients."""
    rows = scores.data.unbind(0)
    e = torch.exp(rows[0] - rows[0].detach().amax(-1, keepdim=True))
    extended = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    totals = [torch.matmul(e, extended)]
    for row, groups in zip(rows[1:], scores.layout.compositions[1:], strict=True):
        factor = exponent_row(row, groups, rows, scores.weights)
        totals.append(torch.matmul(e * factor, extended))
    return _quotient(scores, torch.stack(totals))


def _quotient(scores: Stream, totals: Tensor) -> Stream:
    """Divide the numerators ``[S, *, N, c]`` by the normaliser that follows them."""
    numerator, normaliser = scores.replace(totals).split([totals.shape[-1] - 1, 1], -1)
    return divide(numerator, normaliser)


def _product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply ``[*, S, N, K]`` by ``[*, K, L]``."""
    return torch.matmul(rows.flatten(-3, -2), matrix).unflatten(-2, rows.shape[-3:-1])


def _pairs(groups: Sequence[StreamGroup]) -> list[tuple[StreamGroup, int, int]]:
    return [(group, i, j) for group in groups for i, j in group.rows]


def _scaled(row: Tensor, group: StreamGroup, weights: Tensor | None) -> Tensor:
    """Multiply by the coefficient of the points, which is the same along the last axis."""
    if group.slot is None:
        return row
    return row * weights[group.slot][..., :1]  # type: ignore[index]
