"""Arithmetic and smooth elementwise functions of streams."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules import derivatives as tables
from piop.residual.rules.attention import LazyScores
from piop.residual.rules.composition import add_constant, compose, divide, multiply
from piop.residual.streams import NoRuleError, StreamTensor, rule

SMOOTH = ("exp", "sin", "cos", "sinh", "cosh", "tanh", "tan", "sigmoid", "erf", "log", "log1p")
SMOOTH += ("expm1", "atan", "reciprocal", "sqrt", "rsqrt", "silu")
ALIASES = {"expit": "sigmoid", "arctan": "atan"}


def _apply(x: StreamTensor, inplace: bool = False, *, table: Any) -> StreamTensor:
    return compose(x, table)


for _name in SMOOTH:
    rule(_name)(partial(_apply, table=getattr(tables, _name)))
for _name, _table in ALIASES.items():
    rule(_name)(partial(_apply, table=getattr(tables, _table)))


@rule("gelu")
def gelu(x: StreamTensor, approximate: str = "none") -> StreamTensor:
    """GELU, exact or in its tanh form."""
    return compose(x, tables.gelu if approximate == "none" else tables.gelu_tanh)


@rule("softplus")
def softplus(x: StreamTensor, beta: float = 1.0, threshold: float = 20.0) -> StreamTensor:
    """Softplus; above the threshold torch's is linear to rounding, and ours simply exact."""
    return compose(x * beta, tables.softplus) * (1.0 / beta)


@rule("add", "__add__", "__radd__")
def add(a: Any, b: Any, *, alpha: float = 1) -> StreamTensor:
    """Add streams, tensors or numbers."""
    if alpha != 1:
        b = b * alpha
    if isinstance(a, StreamTensor) and isinstance(b, StreamTensor):
        ndim = max(a.ndim, b.ndim)
        a, b = a.aligned(ndim), b.aligned(ndim)
        if a.layout is not b.layout:
            raise NoRuleError("a sum of streams of different residuals")
        anchor = a if b.weights is None or a.numel() >= b.numel() else b
        data = a.data + b.data
        weights = anchor.weights
        if weights is not None:
            weights = weights.expand(-1, *data.shape[1:])
        return StreamTensor(data, a.layout, weights)
    stream, constant = (a, b) if isinstance(a, StreamTensor) else (b, a)
    return (
        stream.plus(constant) if isinstance(stream, LazyScores) else add_constant(stream, constant)
    )


@rule("sub", "subtract", "__sub__")
def subtract(a: Any, b: Any, *, alpha: float = 1) -> StreamTensor:
    """Subtract streams, tensors or numbers."""
    if (
        isinstance(a, StreamTensor)
        and isinstance(b, StreamTensor)
        and a.shape == b.shape
        and alpha == 1
    ):
        return StreamTensor(a.data - b.data, a.layout, a.weights)
    return add(a, b * -alpha)


@rule("rsub", "__rsub__")
def reflected_subtract(a: Any, b: Any, *, alpha: float = 1) -> StreamTensor:
    """Give b − a."""
    return subtract(b, a, alpha=alpha)


@rule("mul", "multiply", "__mul__", "__rmul__")
def mul(a: Any, b: Any) -> StreamTensor:
    """Multiply streams, tensors or numbers."""
    if isinstance(a, StreamTensor) and isinstance(b, StreamTensor):
        return multiply(a, b)
    stream, constant = (a, b) if isinstance(a, StreamTensor) else (b, a)
    return _scaled(stream, constant)


@rule("div", "divide", "true_divide", "__truediv__")
def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> StreamTensor:
    """Divide streams, tensors or numbers."""
    if rounding_mode is not None:
        raise NoRuleError(f"div(rounding_mode={rounding_mode!r})")
    if isinstance(a, StreamTensor) and isinstance(b, StreamTensor):
        return divide(a, b)
    if isinstance(b, StreamTensor):
        return _scaled(compose(b, tables.reciprocal), a)
    return _scaled(a, 1.0 / b)


@rule("__rtruediv__", "__rdiv__")
def reflected_div(a: Any, b: Any) -> StreamTensor:
    """Give b / a."""
    return div(b, a)


@rule("neg", "negative", "__neg__")
def neg(x: StreamTensor) -> StreamTensor:
    """Change the sign."""
    return StreamTensor(-x.data, x.layout, x.weights)


@rule("positive", "__pos__")
def positive(x: StreamTensor) -> StreamTensor:
    """Change nothing."""
    return x


@rule("square")
def square(x: StreamTensor) -> StreamTensor:
    """Square."""
    return power(x, 2)


@rule("pow", "float_power", "__pow__")
def power(a: Any, b: Any) -> StreamTensor:
    """Raise to a power; of two streams, through exp and log."""
    if not isinstance(b, StreamTensor):
        if isinstance(b, Tensor):
            if b.numel() != 1 or b.requires_grad:
                return compose(compose(a, tables.log) * b, tables.exp)
            b = b.item()
        return compose(a, tables.power(float(b)))
    if isinstance(a, StreamTensor):
        logarithm: Any = compose(a, tables.log)
    else:
        logarithm = torch.log(a) if isinstance(a, Tensor) else math.log(a)
    return compose(mul(b, logarithm), tables.exp)


@rule("__rpow__")
def reflected_power(a: Any, b: Any) -> StreamTensor:
    """Give b ** a."""
    return power(b, a)


@rule("addcmul")
def addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> StreamTensor:
    """Give x + value·a·b."""
    return add(x, a * b, alpha=value)


@rule("lerp")
def lerp(a: Any, b: Any, weight: Any) -> StreamTensor:
    """Give a + weight·(b − a)."""
    return a + weight * (b - a)


def _scaled(x: StreamTensor, constant: Any) -> StreamTensor:
    """Multiply by a constant: every row alike."""
    if isinstance(constant, Tensor):
        x = x.aligned(constant.ndim)
        shape = torch.broadcast_shapes(x.shape, constant.shape)
        weights = x.weights if x.weights is None else x.weights.expand(-1, *shape)
        return StreamTensor(x.data * constant, x.layout, weights)
    return StreamTensor(x.data * constant, x.layout, x.weights)
