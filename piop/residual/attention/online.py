"""Attention of streams, summed over blocks of sensors in plain torch.

The memory grows with queries and with sensors, never with their product; the backward pass computes
the scores again. It is also the plain twin of the Triton kernels: block for block the same
arithmetic.

Source: M. Milakov, N. Gimelshein, Online normalizer calculation for softmax (2018),
arXiv:1805.02867, algorithm 3; T. Dao et al., FlashAttention (2022), arXiv:2205.14135, algorithms 1
and 4. The streams beyond the value are ours: ``docs/math.md``, 11.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from piop.residual.attention.kernel import AttentionOperands, ScoreMonomial, ScorePolynomials
from piop.residual.stream_tensor import merge_streams, streams_times_matrix, times_coefficient

MAX_BLOCK_SCORES = {"cpu": 2**22, "cuda": 2**26}
"""Largest number of scores at once on a device, all streams counted: 16, 256 MiB in float32."""


def online_totals(
    operands: AttentionOperands, program: ScorePolynomials, block: int | None = None
) -> Tensor:
    """Sum the streams of e^{z − m} [v | 1] over the sensors, z = q·k + mask, m the largest value.

    Args:
        operands: Queries, keys, values, mask and coefficients; the last two without gradient.
        program: What the plan adds.
        block: Sensors at once; None for as many as ``MAX_BLOCK_SCORES`` allows.

    Returns:
        ``[S, *batch, N, e + 1]``, numerators and normaliser; differentiable once.
    """
    query = operands.query
    largest = MAX_BLOCK_SCORES.get(query.device.type, MAX_BLOCK_SCORES["cpu"])
    block = block or max(16, largest // max(1, math.prod(query.shape[:-1])))
    return attend_in_blocks(*operands, *program.encoded(), block)[0]


def sum_in_blocks(
    operands: AttentionOperands, program: ScorePolynomials, block: int
) -> tuple[Tensor, Tensor]:
    """Sum over blocks of so many sensors: see :func:`attention_operation`."""
    query, coefficients = operands.query, operands.coefficients
    top = query.new_full(query.shape[1:-1], -math.inf)
    totals = query.new_zeros((*query.shape[:-1], operands.value.shape[-1] + 1))
    for k, v, bias in _blocks(operands, block):
        z = _scores(query, k, bias)
        higher = torch.maximum(top, z[0].amax(-1))
        shift = _finite(higher)
        e = torch.exp(z[0] - shift[..., None])
        w = _weighted_streams(z, coefficients, program)
        added = streams_times_matrix(_times_exponential(e, w), _extended(v))
        totals = totals * torch.exp(top - shift)[..., None] + added
        top = higher
    return totals.contiguous(), _finite(top)


def slopes_in_blocks(
    grad: Tensor, operands: AttentionOperands, shift: Tensor, program: ScorePolynomials, block: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients of :func:`sum_in_blocks`: see :func:`attention_operation`."""
    query, coefficients = operands.query, operands.coefficients
    grad_query, grad_key, grad_value = torch.zeros_like(query), [], []
    for k, v, bias in _blocks(operands, block):
        z = _scores(query, k, bias)
        e = torch.exp(z[0] - shift[..., None])
        w = _weighted_streams(z, coefficients, program)
        a = streams_times_matrix(grad, _extended(v).mT).unbind(0)
        first = a[0]
        for stream, slope in zip(w[1:], a[1:], strict=True):
            first = torch.addcmul(first, stream, slope)
        slopes = [first, *a[1:]]
        for product in program.slopes:
            slopes[product.target] = _added(slopes[product.target], product, a, z, coefficients)
        grad_scores = torch.stack([e * slope for slope in slopes])
        grad_query = grad_query + streams_times_matrix(grad_scores, k)
        grad_key.append(merge_streams(grad_scores).mT @ merge_streams(query))
        streams = merge_streams(_times_exponential(e, w))
        grad_value.append(streams.mT @ merge_streams(grad[..., :-1]))
    return grad_query.contiguous(), torch.cat(grad_key, -2), torch.cat(grad_value, -2)


def empty_totals(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Make room for the sums ``[S, *batch, N, e + 1]`` and the largest scores ``[*batch, N]``."""
    totals = query.new_empty((*query.shape[:-1], value.shape[-1] + 1))
    return totals, query.new_empty(query.shape[1:-1])


def empty_gradients(grad: Tensor, *operands: Any) -> tuple[Tensor, ...]:
    """Make room for the gradients of query, key and value, contiguous."""
    kind = torch.contiguous_format
    return tuple(torch.empty_like(x, memory_format=kind) for x in operands[:3])


def attention_operation(name: str, forward: Any, backward: Any) -> Any:
    """Make an operation of sums over the sensors, which a trace keeps whole, with its gradient.

    Its arguments are the five tensors of :class:`AttentionOperands`, the program encoded (numbers,
    then factors), and a number of sensors.

    Args:
        name: Its name; that of its gradient ends in ``_backward``.
        forward: Gives the sums ``[S, *batch, N, e + 1]`` and the largest scores ``[*batch, N]``, of
            operands, program and sensors at once.
        backward: Gives the gradients of query, key and value, contiguous, of the gradient of the
            sums, the operands, the largest scores, the program and the sensors at once.
    """

    @torch.library.custom_op(f"piop::{name}", mutates_args=())
    def sums(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        coefficients: Tensor | None,
        numbers: Sequence[int],
        factors: Sequence[float],
        block: int,
    ) -> tuple[Tensor, Tensor]:
        program = ScorePolynomials.decoded(query.shape[0], numbers, factors)
        return forward(AttentionOperands(query, key, value, mask, coefficients), program, block)

    @torch.library.custom_op(f"piop::{name}_backward", mutates_args=())
    def slopes(
        grad: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        coefficients: Tensor | None,
        shift: Tensor,
        numbers: Sequence[int],
        factors: Sequence[float],
        block: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        program = ScorePolynomials.decoded(query.shape[0], numbers, factors)
        operands = AttentionOperands(query, key, value, mask, coefficients)
        return backward(grad, operands, shift, program, block)

    def remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:5], output[1])
        ctx.options = inputs[5:]
        ctx.mark_non_differentiable(output[1])

    def gradient(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
        found = slopes(grad, *ctx.saved_tensors, *ctx.options)
        return *found, *(None,) * (2 + len(ctx.options))

    sums.register_fake(empty_totals)
    slopes.register_fake(empty_gradients)
    sums.register_autograd(gradient, setup_context=remember)
    return sums


attend_in_blocks = attention_operation("attend_in_blocks", sum_in_blocks, slopes_in_blocks)


def _blocks(
    operands: AttentionOperands, block: int
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    _, key, value, mask, _ = operands
    for first in range(0, key.shape[-2], block):
        here = slice(first, first + block)
        yield key[..., here, :], value[..., here, :], None if mask is None else mask[..., here]


def _scores(query: Tensor, key: Tensor, bias: Tensor | None) -> list[Tensor]:
    z = list(streams_times_matrix(query, key.mT).unbind(0))
    if bias is not None:
        z[0] = z[0] + bias
    return z


def _weighted_streams(
    z: Sequence[Tensor], coefficients: Tensor | None, program: ScorePolynomials
) -> list[Tensor]:
    """Give w_r, (stream r of e^z) / e^z; its first entry is not used."""
    w = list(z)
    for term in program.terms:
        w[term.target] = _added(w[term.target], term, z, z, coefficients)
    return w


def _times_exponential(e: Tensor, w: Sequence[Tensor]) -> Tensor:
    """Give the streams of e^z."""
    return torch.stack([e, *(e * stream for stream in w[1:])])


def _added(
    total: Tensor,
    product: ScoreMonomial,
    leads: Sequence[Tensor],
    z: Sequence[Tensor],
    coefficients: Tensor | None,
) -> Tensor:
    slot = None if product.slot < 0 else product.slot
    narrow = None if coefficients is None else coefficients[..., None]
    found = times_coefficient(leads[product.lead], slot, narrow)
    for member in product.members:
        found = found * z[member]
    return torch.add(total, found, alpha=product.factor)


def _finite(top: Tensor) -> Tensor:
    """Leave a query that attends to no sensor unshifted, since ∞ − ∞ is undefined."""
    return torch.where(top == -math.inf, 0.0, top)


def _extended(value: Tensor) -> Tensor:
    return torch.cat([value, torch.ones_like(value[..., :1])], -1)
