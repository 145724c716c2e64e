"""Attention of streams by the Triton kernels, as two operations that a trace keeps whole.

``make_fx`` and inductor see ``piop::attend`` and ``piop::attend_backward`` as calls like any other.
Only this file and ``fused_kernels.py`` need Triton; nothing loads them unless the kernel was asked
for.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
from torch import Tensor

from piop.residual.attention import fused_kernels as kernels
from piop.residual.attention.kernel import AttentionOperands, ScorePolynomials
from piop.residual.attention.online import attention_operation, empty_gradients, empty_totals

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
    totals, _ = attend(
        query.reshape(program.count, *lead, n, -1),
        operands.key.reshape(*lead, m, -1),
        operands.value.reshape(*lead, m, -1),
        None if mask is None else mask.expand(*batch, 1, m).reshape(*lead, m),
        None if coefficients is None else coefficients.expand(-1, *batch, n).reshape(-1, *lead, n),
        *program.encoded(),
        m,
    )
    return totals.reshape(program.count, *batch, n, -1)


def sum_on_device(
    operands: AttentionOperands, program: ScorePolynomials, _: int
) -> tuple[Tensor, Tensor]:
    """Sum over the sensors, in blocks of the kernel's own.

    Args:
        operands: ``[S, B, H, N, d]``, ``[B, H, M, d]``, ``[B, H, M, e]``, ``[B, H, M]`` or None,
            ``[K, B, H, N]`` or None.
        program: What the plan adds.

    Returns:
        ``[S, B, H, N, e + 1]``, and the largest score ``[B, H, N]``.
    """
    query = operands.query
    totals, shift = empty_totals(*operands)
    inputs, sizes, options = _launch(operands, program)
    grid = (triton.cdiv(query.shape[3], options["BN"]) * query.shape[1] * query.shape[2],)
    with torch.cuda.device_of(query):
        kernels.sum_sensors[grid](*inputs, _rows(totals), shift, *sizes, **options)
    return totals, shift


def slopes_on_device(
    grad: Tensor, operands: AttentionOperands, shift: Tensor, program: ScorePolynomials, _: int
) -> tuple[Tensor, ...]:
    """Give the gradients of query, key and value, contiguous; see :func:`sum_on_device`."""
    query, grad = operands.query, grad.contiguous()
    out = empty_gradients(grad, *operands)
    given, sizes, options = _launch(operands, program)
    options["SLOPES"] = tuple(p.flat() for p in program.slopes)
    heads, inputs = query.shape[1] * query.shape[2], (*given, _rows(grad), shift)
    queries = (triton.cdiv(query.shape[3], options["BN"]) * heads,)
    sensors = (triton.cdiv(operands.key.shape[2], options["BM"]) * heads,)
    with torch.cuda.device_of(query):
        kernels.slope_queries[queries](*inputs, _rows(out[0]), *sizes, **options)
        kernels.slope_sensors[sensors](*inputs, out[1], out[2], *sizes, **options)
    return out


attend = attention_operation("attend", sum_on_device, slopes_on_device)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    return x, x.stride(0)


def _launch(
    operands: AttentionOperands, program: ScorePolynomials
) -> tuple[tuple[Any, ...], tuple[int, ...], dict[str, Any]]:
    """Give what a kernel is called with, tensors and sizes, and what it is compiled for.

    Tensors come with their strides; where one is absent, another stands in and is not read.
    """
    query, key, value, mask, coefficients = operands
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
