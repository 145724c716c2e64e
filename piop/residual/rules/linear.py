"""Linear maps and products of matrices: all rows in one large product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from piop.residual.rules.attention import (
    LazyScores,
    LazySoftmax,
    product_coefficients,
    weighted_sum,
)
from piop.residual.rules.composition import add_constant, align, bilinear
from piop.residual.streams import NoRuleError, StreamTensor, rule, streams_times_matrix


@rule("linear")
def linear(x: Any, weight: Any, bias: Tensor | None = None) -> StreamTensor:
    """As ``F.linear``; the bias reaches the value only."""
    if not isinstance(x, StreamTensor) or isinstance(weight, StreamTensor):
        raise NoRuleError("linear with a weight that depends on the queries")
    out = x.replace(F.linear(x.data, weight))
    return out if bias is None else add_constant(out, bias)


@rule("matmul", "__matmul__", "bmm", "mm")
def matmul(a: Any, b: Any) -> StreamTensor:
    """Multiply matrices, either or both of them streams."""
    if a.ndim < 2 or b.ndim < 2:
        if isinstance(b, StreamTensor) or b.ndim > 1:
            raise NoRuleError("matmul with a vector")
        return (a * b).sum(-1)
    if isinstance(a, StreamTensor) and isinstance(b, StreamTensor):
        a, b = align(a, b)
        data = bilinear(a, b, torch.matmul)
        return StreamTensor(data, a.layout, product_coefficients(a, data.shape[1:]))
    if isinstance(a, LazySoftmax):
        return weighted_sum(a.scores.aligned(b.ndim), b)
    if isinstance(a, StreamTensor):
        a = a.aligned(b.ndim)
        if a.ndim == b.ndim > 2:
            return LazyScores(a, b)
        data = streams_times_matrix(a.data, b)
        return StreamTensor(data, a.layout, product_coefficients(a, data.shape[1:]))
    b = b.aligned(a.ndim)
    data = torch.matmul(a, b.data)
    weights = b.weights
    if weights is not None:
        weights = weights[..., :1, :].expand(-1, *data.shape[1:])
    return StreamTensor(data, b.layout, weights)


@rule("__rmatmul__")
def reflected_matmul(a: Any, b: Any) -> StreamTensor:
    """Give b @ a."""
    return matmul(b, a)


@rule("addmm", "baddbmm")
def addmm(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> StreamTensor:
    """Give βx + α·a@b."""
    return beta * x + alpha * matmul(a, b)


@rule("einsum")
def einsum(equation: str, *operands: Any) -> StreamTensor:
    """As ``torch.einsum`` with at most two streams among the operands."""
    if len(operands) == 1 and isinstance(operands[0], Sequence):
        operands = tuple(operands[0])
    places = [i for i, o in enumerate(operands) if isinstance(o, StreamTensor)]
    left, _, right = equation.replace(" ", "").partition("->")
    if "->" not in equation or "." in equation or len(places) > 2:
        raise NoRuleError(f"einsum({equation!r})")
    letters = left.split(",")
    lead = next(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation)
    first = operands[places[0]]

    def run(*streamed: Tensor) -> Tensor:
        parts = list(operands)
        names = list(letters)
        for place, rows in zip(places, streamed, strict=True):
            parts[place] = rows
            names[place] = lead + names[place]
        return torch.einsum(f"{','.join(names)}->{lead}{right}", *parts)

    if len(places) == 1:
        data = run(first.data)
    else:
        data = bilinear(first, operands[places[1]], lambda a, b: run(*_same_lead(a, b)))
    weights = first.weights
    if weights is not None:
        names = letters[places[0]]
        for letter in set(names) - set(right):
            weights = weights.select(1 + names.index(letter), 0)
            names = names.replace(letter, "")
        weights = weights.permute(0, *(1 + names.index(c) for c in right if c in names))
        for position, letter in enumerate(right, start=1):
            weights = weights if letter in names else weights.unsqueeze(position)
        weights = weights.expand(-1, *data.shape[1:])
    return StreamTensor(data, first.layout, weights)


def _same_lead(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    count = max(a.shape[0], b.shape[0])
    return a.expand(count, *a.shape[1:]), b.expand(count, *b.shape[1:])
