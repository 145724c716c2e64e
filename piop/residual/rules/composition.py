"""Composition and product: the two rules that all others are made of.

With the streams u_r, f⁽ᵏ⁾ at the value, and the groups of a plan (``docs/math.md``, 3 and 4):

    stream r of f(u):  f′ u_r + Σ factor · coefficient · f⁽ᵏ⁾ · u_i u_j …
    stream r of ab:    a b_r + a_r b + Σ factor · coefficient · a_i b_j
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.forms.stream_plan import ProductGroup
from piop.residual.rules.elementwise_derivatives import Elementwise
from piop.residual.stream_tensor import (
    NoRuleError,
    StreamLayout,
    StreamTensor,
    align,
    times_coefficient,
)

Bilinear = Callable[[Tensor, Tensor], Tensor]


def compose(x: StreamTensor, table: Elementwise) -> StreamTensor:
    """Apply an elementwise function.

    Args:
        x: u.
        table: The function and its derivatives.
    """
    coefficients = x.coefficients
    if coefficients is None or not coefficients.requires_grad:
        data: Any = _Compose.apply(x.data, coefficients, x.layout, table)
    else:
        basis = table.basis(x.value)
        data = torch.stack(_composed(x.data.unbind(0), coefficients, x.layout, table, basis))
    return StreamTensor(data, x.layout, coefficients)


@once_differentiable
def _composition_gradients(ctx: Any, grad: Tensor) -> Any:
    data, coefficients, *basis = ctx.saved_tensors
    u, g = data.unbind(0), grad.unbind(0)
    f = ctx.table.derivatives(u[0], tuple(basis), ctx.layout.order + 1)
    out = [f[1] * stream for stream in g]
    inner: dict[int, Tensor] = {}  # what multiplies f⁽ᵏ⁾ in the gradient of the value

    def gather(order: int, a: Tensor, b: Tensor, factor: float) -> None:
        if order in inner:
            inner[order] = torch.addcmul(inner[order], a, b, value=factor)
        elif order < len(f):
            inner[order] = torch.mul(a, b) * factor

    for r, groups in enumerate(ctx.layout.compositions[1:], start=1):
        gather(2, g[r], u[r], 1.0)
        for group in groups:
            gr = times_coefficient(g[r], group.slot, coefficients)
            for key in group.products:
                gather(group.order + 1, gr, product_of(u, key), group.factor)
            if group.order < len(f):
                slope = f[group.order] * gr
                for i, others, factor in group.slopes:
                    out[i] = _accumulated(out[i], slope, product_of(u, others), factor)
    for order, total in inner.items():
        out[0] = _accumulated(out[0], f[order], total, 1.0)
    return torch.stack(out), None, None, None


class _Compose(torch.autograd.Function):
    """The rule of compositions with an explicit gradient, which keeps and moves less memory."""

    @staticmethod
    def forward(
        ctx: Any,
        data: Tensor,
        coefficients: Tensor | None,
        layout: StreamLayout,
        table: Elementwise,
    ) -> Any:
        streams = data.unbind(0)
        basis = table.basis(streams[0])
        ctx.save_for_backward(data, coefficients, *basis)
        ctx.layout, ctx.table = layout, table
        return torch.stack(_composed(streams, coefficients, layout, table, basis))

    backward: Any = staticmethod(_composition_gradients)


def _composed(
    streams: Sequence[Tensor],
    coefficients: Tensor | None,
    layout: StreamLayout,
    table: Elementwise,
    basis: tuple[Tensor, ...],
) -> list[Tensor]:
    f = table.derivatives(streams[0], basis, layout.order)
    out: list[Any] = [f[0]]
    for stream, groups in zip(streams[1:], layout.compositions[1:], strict=True):
        total = f[1] * stream
        for group in groups:
            if group.order < len(f):
                product = reduce(torch.add, (product_of(streams, key) for key in group.products))
                product = times_coefficient(product, group.slot, coefficients)
                total = _accumulated(total, f[group.order], product, group.factor)
        out.append(total)
    return out


def product_of(streams: Sequence[Tensor], key: Sequence[int]) -> Tensor:
    """Multiply the streams of these numbers."""
    return reduce(mul, (streams[i] for i in key))


def multiply(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    """Multiply elementwise, with broadcasting."""
    a, b = align(a, b)
    anchor = larger(a, b)
    coefficients = anchor.coefficients
    if coefficients is None or not coefficients.requires_grad:
        data: Any = _Multiply.apply(a.data, b.data, coefficients, a.layout)
    else:
        data = torch.stack(_multiplied(a.data.unbind(0), b.data.unbind(0), coefficients, a.layout))
    return anchor.replace(data)


@once_differentiable
def _product_gradients(ctx: Any, grad: Tensor) -> Any:
    left, right, coefficients = ctx.saved_tensors
    g, a, b = grad.unbind(0), left.unbind(0), right.unbind(0)
    at_left = at_right = None
    if ctx.needs_input_grad[0]:
        at_left = _factor_gradients(g, b, coefficients, ctx.layout).sum_to_size(left.shape)
    if ctx.needs_input_grad[1]:
        at_right = _factor_gradients(g, a, coefficients, ctx.layout).sum_to_size(right.shape)
    return at_left, at_right, None, None


class _Multiply(torch.autograd.Function):
    """The rule of products with an explicit gradient, of fewer operations than torch's own."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, coefficients: Tensor | None, layout: StreamLayout
    ) -> Any:
        ctx.save_for_backward(a, b, coefficients)
        ctx.layout = layout
        return torch.stack(_multiplied(a.unbind(0), b.unbind(0), coefficients, layout))

    backward: Any = staticmethod(_product_gradients)


def _multiplied(
    a: Sequence[Tensor], b: Sequence[Tensor], coefficients: Tensor | None, layout: StreamLayout
) -> list[Tensor]:
    out = [a[0] * b[0]]
    for r, groups in enumerate(layout.products[1:], start=1):
        total = torch.addcmul(a[0] * b[r], a[r], b[0])
        for group, i, j in pairs(groups):
            factor = times_coefficient(a[i], group.slot, coefficients)
            total = torch.addcmul(total, factor, b[j], value=group.factor)
        out.append(total)
    return out


def _factor_gradients(
    g: Sequence[Tensor], other: Sequence[Tensor], coefficients: Tensor | None, layout: StreamLayout
) -> Tensor:
    """Give the gradient of one factor, not yet summed; the rule is symmetric in the factors."""
    out = [stream * other[0] for stream in g]
    for r, groups in enumerate(layout.products[1:], start=1):
        out[0] = torch.addcmul(out[0], g[r], other[r])
        for group, i, j in pairs(groups):
            slope = times_coefficient(g[r], group.slot, coefficients)
            out[i] = torch.addcmul(out[i], slope, other[j], value=group.factor)
    return torch.stack(out)


def bilinear(a: StreamTensor, b: StreamTensor, product: Bilinear) -> Tensor:
    """Return the streams of a bilinear map, such as ``matmul``.

    Args:
        a: Left argument.
        b: Right argument.
        product: The map; it must take a further leading axis in either argument.

    Raises:
        NoRuleError: If they are of different residuals.
    """
    if a.layout is not b.layout:
        raise NoRuleError("a product of streams of different residuals")
    left, right = a.data.unbind(0), b.data.unbind(0)
    lows = product(a.data[:1], b.data).unbind(0)
    highs = product(a.data[1:], b.data[:1]).unbind(0) if len(left) > 1 else ()
    out = [lows[0]]
    for r, groups in enumerate(a.layout.products[1:], start=1):
        total = lows[r] + highs[r - 1]
        for group, i, j in pairs(groups):
            factor = times_coefficient(left[i], group.slot, a.coefficients)
            term = product(factor[None], right[j][None])[0]
            total = torch.add(total, term, alpha=group.factor)
        out.append(total)
    return torch.stack(out)


def divide(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    """Divide elementwise: the rule of the product y·b = a, solved for the streams of y."""
    a, b = align(a, b)
    anchor = larger(a, b)
    streams = a.data.unbind(0), b.data.unbind(0)
    return anchor.replace(torch.stack(quotients(*streams, a.layout, anchor.coefficients)))


def quotients(
    top: Sequence[Tensor],
    bottom: Sequence[Tensor],
    layout: StreamLayout,
    coefficients: Tensor | None,
) -> list[Tensor]:
    """Return the streams y of y·b = a, given those of a and of b."""
    inverse = bottom[0].reciprocal()
    out = [top[0] * inverse]
    for r, groups in enumerate(layout.products[1:], start=1):
        total = torch.addcmul(top[r], out[0], bottom[r], value=-1)
        for group, i, j in pairs(groups):
            factor = times_coefficient(out[i], group.slot, coefficients)
            total = torch.addcmul(total, factor, bottom[j], value=-group.factor)
        out.append(total * inverse)
    return out


def larger(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    """Return whichever carries the coefficients of more points."""
    if a.coefficients is None or (b.coefficients is not None and b.numel() > a.numel()):
        return b
    return a


def pairs(groups: Sequence[ProductGroup]) -> Iterator[tuple[ProductGroup, int, int]]:
    """Yield the products of two streams, each with its group."""
    return ((group, i, j) for group in groups for i, j in group.products)


def _accumulated(total: Tensor, slope: Tensor | float, product: Tensor, factor: float) -> Tensor:
    if isinstance(slope, Tensor):
        return torch.addcmul(total, slope, product, value=factor)
    return torch.add(total, product, alpha=slope * factor)
