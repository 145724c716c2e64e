"""Attention of a query that carries streams to keys and values that carry none."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules.kernels import divide
from piop.residual.streams import NoRuleError, Stream, rule


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
) -> Stream:
    """As ``F.scaled_dot_product_attention``.

    With constant keys and values the rows of e^z are multiplied by ``[v | 1]``, which gives
    numerators and normalisers in one product; a quotient of small streams remains.
    """
    if dropout_p or is_causal or enable_gqa or isinstance(attn_mask, Stream):
        raise NoRuleError("scaled_dot_product_attention with dropout, causal or grouped heads")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not isinstance(query, Stream) or isinstance(key, Stream) or isinstance(value, Stream):
        scores = torch.matmul(query * scale, torch.transpose(key, -2, -1))
        scores = _masked(scores, attn_mask)
        return torch.matmul(torch.softmax(scores, -1), value)  # type: ignore[return-value]
    scores = torch.matmul(query, key.mT * scale)  # type: ignore[call-overload]
    scores = _masked(scores, attn_mask)
    return _normalised(scores, value)


def _masked(scores: Any, mask: Tensor | None) -> Any:
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _normalised(scores: Stream, value: Tensor) -> Stream:
    """Give softmax(scores) @ value."""
    rows = scores.data.unbind(0)
    peak = rows[0].detach().amax(-1, keepdim=True)
    e = torch.exp(rows[0] - peak)
    ones = torch.ones_like(value[..., :1])
    extended = torch.cat([value, ones], -1)
    totals = [torch.matmul(e, extended)]
    for row, groups in zip(rows[1:], scores.layout.compositions[1:], strict=True):
        w = row
        for group in groups:
            for key in group.rows:
                product = rows[key[0]]
                for i in key[1:]:
                    product = product * rows[i]
                if group.slot is not None:
                    product = product * scores.weights[group.slot]  # type: ignore[index]
                w = torch.add(w, product, alpha=group.factor)
        totals.append(torch.matmul(e * w, extended))
    out = scores.replace(torch.stack(totals))
    numerator, normaliser = out.split([value.shape[-1], 1], -1)
    return divide(numerator, normaliser)
