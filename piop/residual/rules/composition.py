"""The two rules all others are made of: composition and product.

With rows r, f⁽ᵏ⁾ at the value, and the groups of a plan (``docs/math.md``, equations 3 and 4):

    row r of f(u):  f′ u_r + Σ factor · coefficient · f⁽ᵏ⁾ · u_i u_j …
    row r of ab:    a b_r + a_r b + Σ factor · coefficient · a_i b_j
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.residual.rules.derivatives import Elementwise
from piop.residual.streams import NoRuleError, ProductGroup, StreamLayout, StreamTensor

Bilinear = Callable[[Tensor, Tensor], Tensor]


def compose(x: StreamTensor, table: Elementwise) -> StreamTensor:
    """Apply an elementwise function.

    Args:
        x: The stream u.
        table: The function and its derivatives.
    """
    weights = x.weights
    if weights is None or not weights.requires_grad:
        data = _Compose.apply(x.data, weights, x.layout, table)
    else:
        data = torch.stack(_composed(x.data.unbind(0), weights, x.layout, table, None))
    return StreamTensor(data, x.layout, weights)  # type: ignore[arg-type]


class _Compose(torch.autograd.Function):
    """The rule of compositions with its gradient written out, which keeps and moves less memory."""

    @staticmethod
    def forward(
        ctx: Any, data: Tensor, weights: Tensor | None, layout: StreamLayout, table: Elementwise
    ) -> Any:
        rows = data.unbind(0)
        basis = table.basis(rows[0])
        ctx.save_for_backward(data, weights, *basis)
        ctx.layout, ctx.table = layout, table
        return torch.stack(_composed(rows, weights, layout, table, basis))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        data, weights, *basis = ctx.saved_tensors
        u, g = data.unbind(0), grads[0].unbind(0)
        f = ctx.table.derivatives(u[0], tuple(basis), ctx.layout.order + 1)
        out = [f[1] * row for row in g]
        inner: dict[int, Tensor] = {}  # what multiplies f⁽ᵏ⁾ in the gradient of the value

        def gather(order: int, a: Tensor, b: Tensor, factor: float) -> None:
            if order < len(f):
                held = inner.get(order)
                inner[order] = (
                    torch.mul(a, b) * factor if held is None else held.addcmul_(a, b, value=factor)
                )

        for r, groups in enumerate(ctx.layout.compositions[1:], start=1):
            gather(2, g[r], u[r], 1.0)
            for group in groups:
                gr = g[r] if group.slot is None else g[r] * weights[group.slot]
                slope = f[group.order] * gr if group.order < len(f) else None
                for key in group.rows:
                    gather(group.order + 1, gr, _product(u, key), group.factor)
                    if slope is None:
                        continue
                    for i in set(key):
                        others = list(key)
                        others.remove(i)
                        factor = group.factor * key.count(i)
                        out[i] = _accumulated(out[i], slope, _product(u, others), factor)
        for order, total in inner.items():
            out[0] = _accumulated(out[0], f[order], total, 1.0)
        return torch.stack(out), None, None, None


def _composed(
    rows: Sequence[Tensor],
    weights: Tensor | None,
    layout: StreamLayout,
    table: Elementwise,
    basis: tuple[Tensor, ...] | None,
) -> list[Tensor]:
    basis = table.basis(rows[0]) if basis is None else basis
    f = table.derivatives(rows[0], basis, layout.order)
    out: list[Any] = [f[0]]
    for row, groups in zip(rows[1:], layout.compositions[1:], strict=True):
        total = f[1] * row
        for group in groups:
            if group.order < len(f):
                product = reduce(torch.add, (_product(rows, key) for key in group.rows))
                if group.slot is not None:
                    product = product * weights[group.slot]  # type: ignore[index]
                total = _accumulated(total, f[group.order], product, group.factor)
        out.append(total)
    return out


def _product(rows: Sequence[Tensor], key: Sequence[int]) -> Tensor:
    return reduce(mul, (rows[i] for i in key))


def multiply(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    """Multiply two streams elementwise, with broadcasting."""
    a, b = align(a, b)
    left, right = a.data.unbind(0), b.data.unbind(0)
    out = [left[0] * right[0]]
    anchor = larger(a, b)
    for r, groups in enumerate(a.layout.products[1:], start=1):
        total = torch.addcmul(left[0] * right[r], left[r], right[0])
        for group in groups:
            for i, j in group.rows:
                factor = _weight(left[i], group, anchor)
                total = torch.addcmul(total, factor, right[j], value=group.factor)
        out.append(total)
    return _like(anchor, torch.stack(out))


def bilinear(a: StreamTensor, b: StreamTensor, product: Bilinear) -> Tensor:
    """Give the rows of a bilinear map of two streams, such as ``matmul``.

    Args:
        a: Left argument.
        b: Right argument.
        product: The map; it must take a further leading axis in either argument.
    """
    if a.layout is not b.layout:
        raise NoRuleError("a product of streams of different residuals")
    left, right = a.data.unbind(0), b.data.unbind(0)
    lows = product(a.data[:1], b.data).unbind(0)
    highs = product(a.data[1:], b.data[:1]).unbind(0) if len(left) > 1 else ()
    out = [lows[0]]
    for r, groups in enumerate(a.layout.products[1:], start=1):
        total = lows[r] + highs[r - 1]
        for group in groups:
            for i, j in group.rows:
                term = product(_weight(left[i], group, a)[None], right[j][None])[0]
                total = torch.add(total, term, alpha=group.factor)
        out.append(total)
    return torch.stack(out)


def divide(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    """Divide two streams: the rule of the product y·b = a, solved for the rows of y."""
    a, b = align(a, b)
    top, bottom = a.data.unbind(0), b.data.unbind(0)
    inverse = bottom[0].reciprocal()
    anchor = larger(a, b)
    out = [top[0] * inverse]
    for r, groups in enumerate(a.layout.products[1:], start=1):
        total = torch.addcmul(top[r], out[0], bottom[r], value=-1)
        for group in groups:
            for i, j in group.rows:
                factor = _weight(out[i], group, anchor)
                total = torch.addcmul(total, factor, bottom[j], value=-group.factor)
        out.append(total * inverse)
    return _like(anchor, torch.stack(out))


def add_constant(x: StreamTensor, constant: Tensor | float) -> StreamTensor:
    """Add a constant: it has a value but no rows."""
    if isinstance(constant, Tensor):
        ndim = max(x.ndim, constant.ndim)
        x = x.aligned(ndim)
        shape = torch.broadcast_shapes(x.shape, constant.shape)
        x = x if shape == x.shape else expand(x, shape)
        if 8 * constant.numel() <= x.numel() and constant.dtype == x.dtype:
            return StreamTensor(_Shift.apply(x.data, constant), x.layout, x.weights)  # type: ignore[arg-type]
    value, rest = x.data.split([1, x.layout.count - 1])
    return StreamTensor(torch.cat([value + constant, rest]), x.layout, x.weights)


class _Shift(torch.autograd.Function):
    """Adds a small constant to the value; its gradient is summed over the value alone."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, constant: Tensor) -> Any:
        ctx.shape = constant.shape
        ndim = data.ndim - 1
        block = constant.reshape(1, *(1,) * (ndim - constant.ndim), *constant.shape)
        pad = (0, 0) * ndim + (0, data.shape[0] - 1)
        return data + torch.nn.functional.pad(block, pad)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        slope = grads[0][0].sum_to_size(ctx.shape) if ctx.needs_input_grad[1] else None
        return grads[0], slope


def expand(x: StreamTensor, shape: Sequence[int]) -> StreamTensor:
    """Broadcast every row to a shape."""
    return x.aligned(len(shape)).map(lambda rows: rows.expand(-1, *shape))


def align(a: StreamTensor, b: StreamTensor) -> tuple[StreamTensor, StreamTensor]:
    """Align two streams of the same residual for broadcasting."""
    if a.layout is not b.layout:
        raise NoRuleError("a product of streams of different residuals")
    ndim = max(a.ndim, b.ndim)
    return a.aligned(ndim), b.aligned(ndim)


def larger(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    """Give whichever stream carries the coefficients of more points."""
    return b if a.weights is None or (b.weights is not None and b.numel() > a.numel()) else a


def constant_stream(x: Tensor, like: StreamTensor) -> StreamTensor:
    """Make a stream of a constant: its value, and rows of zeros."""
    pad = (0, 0) * x.ndim + (0, like.layout.count - 1)
    rows = torch.nn.functional.pad(x[None], pad)
    weights = like.weights
    if weights is not None:
        weights = weights.new_zeros(()).expand(weights.shape[0], *x.shape)
    return StreamTensor(rows, like.layout, weights)


def _like(anchor: StreamTensor, data: Tensor) -> StreamTensor:
    weights = anchor.weights
    if weights is not None:
        weights = weights.expand(-1, *data.shape[1:])
    return StreamTensor(data, anchor.layout, weights)


def _weight(row: Tensor, group: ProductGroup, x: StreamTensor) -> Tensor:
    if group.slot is None:
        return row
    if x.weights is None:
        raise NoRuleError("a stream that lost its coefficients")
    return row * x.weights[group.slot]


def _accumulated(total: Tensor, slope: Tensor | float, product: Tensor, factor: float) -> Tensor:
    if isinstance(slope, Tensor):
        return torch.addcmul(total, slope, product, value=factor)
    return torch.add(total, product, alpha=slope * factor)
