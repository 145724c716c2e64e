"""Triton kernels of attention with streams: streams of scores live in registers, block by block.

Three kernels: the sums over sensors, and backward one over queries and one over sensors, each of
which computes the scores again. Nothing is added atomically, so the numbers repeat. Tuples hold the
S streams; loops over them and over the products of a plan are unrolled when a kernel is compiled.
The plain twin is ``online.py``; the mathematics is in ``docs/math.md``, 11.

Source: T. Dao, FlashAttention-2 (2023), arXiv:2307.08691, algorithms 1 and 2, with a polynomial of
streams of scores in place of the one weight; P. Tillet et al., Triton (2019),
doi:10.1145/3315508.3329973.
"""

from __future__ import annotations

import triton
import triton.language as tl

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# Arguments in capitals are known when a kernel is compiled. A tuple in TERMS or SLOPES is (target,
# lead, slot, factor, members …), as ``Product.flat`` gives it. A tensor comes as the tuple of its
# pointer and its strides over (streams,) batch, head, point and feature.


@triton.jit
def add_products(start, target: tl.constexpr, leads, z, coefficients, PRODUCTS: tl.constexpr):
    """Add to a stream what the plan adds to it."""
    total = start
    for i in tl.static_range(len(PRODUCTS)):
        if PRODUCTS[i][0] == target:
            product = leads[PRODUCTS[i][1]] * PRODUCTS[i][3]
            if PRODUCTS[i][2] >= 0:
                product = product * coefficients[PRODUCTS[i][2]][:, None]
            for member in tl.static_range(4, len(PRODUCTS[i])):
                product = product * z[PRODUCTS[i][member]]
            total = total + product
    return total


@triton.jit
def locate_block(count, heads, SIZE: tl.constexpr):
    """Give the head of all, its batch, its number there, and the points of this program's block."""
    blocks = tl.cdiv(count, SIZE)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    point = (tl.program_id(0) % blocks).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    return head, head // heads, head % heads, point


@triton.jit
def load_streams(x, b, h, offsets, keep, COUNT: tl.constexpr):
    """Load the streams of ``[COUNT, B, H, …]`` at offsets within a head."""
    pointer = x[0] + b * x[2] + h * x[3]
    found = ()
    for _ in tl.static_range(COUNT):
        found = found + (tl.load(pointer + offsets, mask=keep, other=0.0),)
        pointer += x[1]  # step by step, lest a product of 32 bits overflow
    return found


@triton.jit
def load_queries(query, weights, b, h, n, d, here, in_d, S: tl.constexpr, SLOTS: tl.constexpr):
    """Load the streams of queries ``[S, B, H, N, d]`` and their coefficients ``[K, B, H, N]``."""
    offsets = n[:, None] * query[4] + d[None] * query[5]
    streams = load_streams(query, b, h, offsets, here[:, None] & in_d[None], S)
    return streams, load_streams(weights, b, h, n * weights[4], here, SLOTS)


@triton.jit
def load_block(x, b, h, point, feature, keep):
    """Load ``[B, H, M, d]`` at points and features."""
    return tl.load(x[0] + b * x[1] + h * x[2] + point * x[3] + feature * x[4], mask=keep, other=0.0)


@triton.jit
def score_streams(
    streams, key, bias, b, h, m, there, MASKED: tl.constexpr, PRECISION: tl.constexpr
):
    """Multiply queries by keys ``[BD, BM]``; mask the value, also past the last sensor."""
    z = ()
    for r in tl.static_range(len(streams)):
        z = z + (tl.dot(streams[r], key, input_precision=PRECISION, out_dtype=key.dtype),)
    first = z[0]
    if MASKED:
        pointer = bias[0] + b * bias[1] + h * bias[2]
        first = first + tl.load(pointer + m * bias[3], mask=there, other=0.0)[None]
    return tl.where(there[None], first, float("-inf")), z


@triton.jit
def sum_sensors(
    query, key, value, bias, coefficients, totals, shift, heads, n_count, m_count, d_count, e_count,
    S: tl.constexpr, SLOTS: tl.constexpr, TERMS: tl.constexpr, MASKED: tl.constexpr,
    BN: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum e^{z − m} w_r [v | 1] over the sensors, for one block of queries."""
    head, b, h, n = locate_block(n_count, heads, BN)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    here, in_d, in_e = n < n_count, d < d_count, e < e_count
    streams, c = load_queries(query, coefficients, b, h, n, d, here, in_d, S, SLOTS)
    kind = streams[0].dtype
    top = tl.full([BN], float("-inf"), kind)
    sums, norms = (), ()
    for _ in tl.static_range(S):
        sums = sums + (tl.zeros([BN, BE], kind),)
        norms = norms + (tl.zeros([BN], kind),)
    for first in range(0, m_count, BM):
        m = first + tl.arange(0, BM).to(tl.int64)
        there = m < m_count
        k = load_block(key, b, h, m[None], d[:, None], there[None] & in_d[:, None])
        v = load_block(value, b, h, m[:, None], e[None], there[:, None] & in_e[None])
        level, z = score_streams(streams, k, bias, b, h, m, there, MASKED, PRECISION)
        higher = tl.maximum(top, tl.max(level, 1))
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        fade, p = tl.exp(top - finite), tl.exp(level - finite[:, None])
        new_sums, new_norms = (), ()
        for r in tl.static_range(S):
            w = p
            if r > 0:
                w = p * add_products(z[r], r, z, z, c, TERMS)
            part = tl.dot(w, v, input_precision=PRECISION, out_dtype=kind)
            new_sums = new_sums + (sums[r] * fade[:, None] + part,)
            new_norms = new_norms + (norms[r] * fade + tl.sum(w, 1),)
        sums, norms, top = new_sums, new_norms, higher
    place = (head * n_count + n) * (e_count + 1)
    pointer = totals[0]
    for r in tl.static_range(S):
        keep = here[:, None] & in_e[None]
        tl.store(pointer + place[:, None] + e[None], sums[r], mask=keep)
        tl.store(pointer + place + e_count, norms[r], mask=here)
        pointer += totals[1]
    top = tl.where(top == float("-inf"), 0.0, top)
    tl.store(shift + head * n_count + n, top, mask=here)


@triton.jit
def slope_streams(
    level, z, grads, norms, v, c, lowest,
    TERMS: tl.constexpr, SLOPES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Give the streams e·w_r, and the gradients of the streams of scores, of one block of pairs."""
    p = tl.exp(level - lowest[:, None])
    a, parts = (), (p,)
    for r in tl.static_range(len(z)):
        product = tl.dot(grads[r], tl.trans(v), input_precision=PRECISION, out_dtype=v.dtype)
        a = a + (product + norms[r][:, None],)
    first = a[0]
    for r in tl.static_range(1, len(z)):
        w = add_products(z[r], r, z, z, c, TERMS)
        first += w * a[r]
        parts = parts + (p * w,)
    slopes = (p * first,)
    for r in tl.static_range(1, len(z)):
        slopes = slopes + (p * add_products(a[r], r, a, z, c, SLOPES),)
    return parts, slopes


@triton.jit
def load_grads(totals, head, n, e, here, in_e, n_count, e_count, S: tl.constexpr):
    """Load the gradients of numerators and normalisers."""
    place = (head * n_count + n) * (e_count + 1)
    keep = here[:, None] & in_e[None]
    pointer = totals[0]
    grads, norms = (), ()
    for _ in tl.static_range(S):
        found = tl.load(pointer + place[:, None] + e[None], mask=keep, other=0.0)
        grads = grads + (found,)
        norms = norms + (tl.load(pointer + place + e_count, mask=here, other=0.0),)
        pointer += totals[1]
    return grads, norms


@triton.jit
def slope_queries(
    query, key, value, bias, coefficients, totals, shift, out,
    heads, n_count, m_count, d_count, e_count,
    S: tl.constexpr, SLOTS: tl.constexpr, TERMS: tl.constexpr, SLOPES: tl.constexpr,
    MASKED: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Give the gradients of the streams of one block of queries: the sum of slope · key."""
    head, b, h, n = locate_block(n_count, heads, BN)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    here, in_d, in_e = n < n_count, d < d_count, e < e_count
    streams, c = load_queries(query, coefficients, b, h, n, d, here, in_d, S, SLOTS)
    kind = streams[0].dtype
    grads, norms = load_grads(totals, head, n, e, here, in_e, n_count, e_count, S)
    lowest = tl.load(shift + head * n_count + n, mask=here, other=0.0)
    sums = ()
    for _ in tl.static_range(S):
        sums = sums + (tl.zeros([BN, BD], kind),)
    for first in range(0, m_count, BM):
        m = first + tl.arange(0, BM).to(tl.int64)
        there = m < m_count
        k = load_block(key, b, h, m[None], d[:, None], there[None] & in_d[:, None])
        v = load_block(value, b, h, m[:, None], e[None], there[:, None] & in_e[None])
        level, z = score_streams(streams, k, bias, b, h, m, there, MASKED, PRECISION)
        _parts, slopes = slope_streams(
            level, z, grads, norms, v, c, lowest, TERMS, SLOPES, PRECISION
        )
        more = ()
        for r in tl.static_range(S):
            part = tl.dot(slopes[r], tl.trans(k), input_precision=PRECISION, out_dtype=kind)
            more = more + (sums[r] + part,)
        sums = more
    pointer = out[0] + (head * n_count + n)[:, None] * d_count + d[None]
    for r in tl.static_range(S):
        tl.store(pointer, sums[r], mask=here[:, None] & in_d[None])
        pointer += out[1]


@triton.jit
def slope_sensors(
    query, key, value, bias, coefficients, totals, shift, key_out, value_out,
    heads, n_count, m_count, d_count, e_count,
    S: tl.constexpr, SLOTS: tl.constexpr, TERMS: tl.constexpr, SLOPES: tl.constexpr,
    MASKED: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Give the gradients of one block of keys and values: sums over all streams of all queries."""
    head, b, h, m = locate_block(m_count, heads, BM)
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    there, in_d, in_e = m < m_count, d < d_count, e < e_count
    k = load_block(key, b, h, m[None], d[:, None], there[None] & in_d[:, None])
    v = load_block(value, b, h, m[:, None], e[None], there[:, None] & in_e[None])
    kind = k.dtype
    key_sum, value_sum = tl.zeros([BM, BD], kind), tl.zeros([BM, BE], kind)
    for first in range(0, n_count, BN):
        n = first + tl.arange(0, BN).to(tl.int64)
        here = n < n_count
        streams, c = load_queries(query, coefficients, b, h, n, d, here, in_d, S, SLOTS)
        grads, norms = load_grads(totals, head, n, e, here, in_e, n_count, e_count, S)
        lowest = tl.load(shift + head * n_count + n, mask=here, other=0.0)
        level, z = score_streams(streams, k, bias, b, h, m, there, MASKED, PRECISION)
        parts, slopes = slope_streams(
            level, z, grads, norms, v, c, lowest, TERMS, SLOPES, PRECISION
        )
        for r in tl.static_range(S):
            key_sum += tl.dot(
                tl.trans(slopes[r]), streams[r], input_precision=PRECISION, out_dtype=kind
            )
            value_sum += tl.dot(
                tl.trans(parts[r]), grads[r], input_precision=PRECISION, out_dtype=kind
            )
    keep = there[:, None]
    place = (head * m_count + m)[:, None]
    tl.store(key_out + place * d_count + d[None], key_sum, mask=keep & in_d[None])
    tl.store(value_out + place * e_count + e[None], value_sum, mask=keep & in_e[None])
