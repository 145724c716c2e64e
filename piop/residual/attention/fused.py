"""Attention of streams by the Triton kernels, as two operations that a trace keeps whole.

``make_fx`` and inductor see ``piop::attend`` and ``piop::attend_backward`` as calls like any other.
Only this file and ``fused_kernels.py`` need Triton; nothing loads them unless the kernel was asked
for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from piop.residual.attention import fused_kernels as kernels
from piop.residual.attention.kernel import AttentionOperands, ScorePolynomials
from piop.residual.attention.online import empty_gradients, empty_totals, register_gradient

# pyright: reportCallIssue=false
# Triton itself adds the arguments of a kernel that are options of its compiler.

REGISTERS = 12_000
"""Numbers of 32 bits that one program may hold: the registers of 128 threads, some to spare."""

BLOCKS = ((64, 64), (64, 32), (32, 32), (32, 16), (16, 16))
"""Queries and sensors of a block, the largest first; a product of matrices needs 16."""


def fused_totals(operands: AttentionOperands, program: ScorePolynomials) -> Tensor:
    """Sum as :func:`~.online.online_totals` does.

    Args:
        operands: In float32 or float64, on one device.
        program: What the plan adds.
    """
    query, batch = operands.query, operands.query.shape[1:-2]
    lead = (math.prod(batch[:-1]), batch[-1])
    n, m = query.shape[-2], operands.key.shape[-2]
    mask, coefficients = operands.mask, operands.coefficients
    numbers, factors = program.encoded()
    totals, _ = attend(
        query.reshape(program.count, *lead, n, -1),
        operands.key.reshape(*lead, m, -1),
        operands.value.reshape(*lead, m, -1),
        None if mask is None else mask.expand(*batch, 1, m).reshape(*lead, m),
        None if coefficients is None else coefficients.expand(-1, *batch, n).reshape(-1, *lead, n),
        numbers,
        factors,
    )
    return totals.reshape(program.count, *batch, n, -1)


@torch.library.custom_op("piop::attend", mutates_args=())
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    coefficients: Tensor | None,
    numbers: Sequence[int],
    factors: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """Sum over the sensors.

    Args:
        query: ``[S, B, H, N, d]``.
        key: ``[B, H, M, d]``.
        value: ``[B, H, M, e]``.
        mask: ``[B, H, M]``, or None.
        coefficients: ``[K, B, H, N]``, or None.
        numbers: The products of a plan, without their factors.
        factors: The factors.

    Returns:
        ``[S, B, H, N, e + 1]``, and the largest score ``[B, H, N]``.
    """
    program = ScorePolynomials.decoded(query.shape[0], numbers, factors)
    totals, shift = empty_totals(query, key, value)
    inputs, sizes, options = _launch(query, key, value, mask, coefficients, program)
    grid = (triton.cdiv(query.shape[3], options["BN"]) * query.shape[1] * query.shape[2],)
    with torch.cuda.device_of(query):
        kernels.sum_sensors[grid](*inputs, _rows(totals), shift, *sizes, **options)
    return totals, shift


@torch.library.custom_op("piop::attend_backward", mutates_args=())
def attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    coefficients: Tensor | None,
    shift: Tensor,
    numbers: Sequence[int],
    factors: Sequence[float],
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients of query, key and value, contiguous; see :func:`attend`."""
    program = ScorePolynomials.decoded(query.shape[0], numbers, factors)
    grad = grad.contiguous()
    out = empty_gradients(grad, query, key, value)
    operands, sizes, options = _launch(query, key, value, mask, coefficients, program)
    options["SLOPES"] = tuple(p.flat() for p in program.slopes)
    heads, inputs = query.shape[1] * query.shape[2], (*operands, _rows(grad), shift)
    queries = (triton.cdiv(query.shape[3], options["BN"]) * heads,)
    sensors = (triton.cdiv(key.shape[2], options["BM"]) * heads,)
    with torch.cuda.device_of(query):
        kernels.slope_queries[queries](*inputs, _rows(out[0]), *sizes, **options)
        kernels.slope_sensors[sensors](*inputs, out[1], out[2], *sizes, **options)
    return out[0], out[1], out[2]


register_gradient(attend, attend_backward)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    return x, x.stride(0)


def _launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    coefficients: Tensor | None,
    program: ScorePolynomials,
) -> tuple[tuple[Any, ...], tuple[int, ...], dict[str, Any]]:
    """Give what a kernel is called with, tensors and sizes, and what it is compiled for.

    Tensors come with their strides; where one is absent, another stands in and is not read.
    """
    absent = key if mask is None else mask, query if coefficients is None else coefficients
    inputs = tuple((x, *x.stride()) for x in (query, key, value, *absent))
    d, e = query.shape[-1], value.shape[-1]
    bd, be = (max(16, triton.next_power_of_2(size)) for size in (d, e))
    words = query.element_size() // 4 * program.count
    bn, bm = next(
        (pair for pair in BLOCKS if words * pair[0] * (bd + be + 2 * pair[1]) <= REGISTERS),
        BLOCKS[-1],
    )
    tensor_cores = query.is_cuda and torch.backends.cuda.matmul.allow_tf32
    options = {
        "S": program.count,
        "SLOTS": program.slots,
        "TERMS": tuple(p.flat() for p in program.terms),
        "MASKED": mask is not None,
        "BN": bn, "BM": bm, "BD": bd, "BE": be,
        "PRECISION": "tf32" if tensor_cores else "ieee",
        "num_warps": 4, "num_stages": 1,
    }  # fmt: skip
    return inputs, (query.shape[2], query.shape[3], key.shape[2], d, e), options
