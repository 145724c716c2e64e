"""Linear maps and matrix products: all streams in one large product."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.residual.rules.attention import LazyScores
from piop.residual.rules.composition import bilinear
from piop.residual.rules.shape import unpacked
from piop.residual.stream_tensor import (
    NoRuleError,
    OperandRule,
    StreamTensor,
    align,
    require_constant,
    rule,
    streamed,
    streams_times_matrix,
)


@rule("linear")
def linear(x: StreamTensor, weight: Any, bias: Tensor | None = None) -> StreamTensor:
    """As ``F.linear``; the bias reaches the value only."""
    require_constant("linear with a weight that depends on the queries", weight, bias)
    data: Any = (_Linear.apply if weight.ndim == 2 else F.linear)(x.data, weight)
    out = x.replace(data)
    return out if bias is None else out.plus(bias)


@once_differentiable
def _linear_gradients(ctx: Any, grad: Tensor) -> Any:
    data, weight = ctx.saved_tensors
    rows = grad.flatten(0, -2)
    at_data = at_weight = None
    if ctx.needs_input_grad[0]:
        at_data = torch.mm(rows, weight).view(data.shape)
    if ctx.needs_input_grad[1]:
        at_weight = torch.mm(rows.mT, data.flatten(0, -2))
    return at_data, at_weight


class _Linear(torch.autograd.Function):
    """A matrix times all streams, with an explicit gradient, of fewer operations than torch's."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, weight: Tensor) -> Any:
        ctx.save_for_backward(data, weight)
        return F.linear(data, weight)

    backward: Any = staticmethod(_linear_gradients)


def _matmul_both(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    a, b = align(a, b)
    return a.replace(bilinear(a, b, torch.matmul))


def _times_matrix(a: StreamTensor, matrix: Tensor) -> StreamTensor:
    attended = a.attend(matrix)
    if attended is not None:
        return attended
    a = a.aligned(matrix.ndim)
    if a.ndim == matrix.ndim > 2:
        return LazyScores(a, matrix)
    return a.replace(streams_times_matrix(a.data, matrix))


def _matrix_times(matrix: Tensor, b: StreamTensor) -> StreamTensor:
    b = b.aligned(matrix.ndim)
    return b.replace(torch.matmul(matrix, b.data))


_matrix_product = OperandRule(_matmul_both, _times_matrix, _matrix_times)


@rule("matmul", "__matmul__", "bmm", "mm")
def matmul(a: Any, b: Any) -> StreamTensor:
    """Multiply matrices, either or both of which carry streams."""
    if min(a.ndim, b.ndim) > 1:
        return _matrix_product(a, b)
    require_constant("matmul with a vector", b)
    if b.ndim > 1:
        raise NoRuleError("matmul with a vector")
    return (a * b).sum(-1)


@rule("addmm", "baddbmm")
def addmm(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> StreamTensor:
    """Return βx + α·a@b."""
    return beta * x + alpha * matmul(a, b)


@rule("einsum")
def einsum(equation: str, *operands: Any) -> StreamTensor:
    """As ``torch.einsum``; at most two of the operands carry streams."""
    operands = unpacked(operands)
    positions = streamed(operands)
    left, _, right = equation.replace(" ", "").partition("->")
    if "->" not in equation or "." in equation or len(positions) > 2:
        raise NoRuleError(f"einsum({equation!r})")
    letters = left.split(",")
    lead = next(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation)
    first = operands[positions[0]]

    def run(*data: Tensor) -> Tensor:
        parts = list(operands)
        names = list(letters)
        for position, streams in zip(positions, data, strict=True):
            parts[position] = streams
            names[position] = lead + names[position]
        return torch.einsum(f"{','.join(names)}->{lead}{right}", *parts)

    if len(positions) == 1:
        data = run(first.data)
    else:
        data = bilinear(first, operands[positions[1]], lambda a, b: run(*_same_lead(a, b)))
    coefficients = first.coefficients
    if coefficients is not None:
        names = letters[positions[0]]
        for letter in set(names) - set(right):
            coefficients = coefficients.select(1 + names.index(letter), 0)
            names = names.replace(letter, "")
        kept = (1 + names.index(c) for c in right if c in names)
        coefficients = coefficients.permute(0, *kept)
        for position, letter in enumerate(right, start=1):
            coefficients = coefficients if letter in names else coefficients.unsqueeze(position)
        coefficients = coefficients.expand(-1, *data.shape[1:])
    return StreamTensor(data, first.layout, coefficients)


def _same_lead(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    count = max(a.shape[0], b.shape[0])
    return a.expand(count, *a.shape[1:]), b.expand(count, *b.shape[1:])
