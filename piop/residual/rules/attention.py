"""Attention of a query that carries streams to keys and values that carry none."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

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
    """As ``F.scaled_dot_product_attention``; keys and values may carry streams, but need not."""
    if dropout_p or is_causal or enable_gqa or isinstance(attn_mask, Stream):
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
