"""Arithmetic and smooth elementwise functions of streams."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules import tables
from piop.residual.rules.kernels import compose, divide, multiply, shifted
from piop.residual.rules.scores import Scores
from piop.residual.streams import NoRuleError, Stream, rule

SMOOTH = ("exp", "sin", "cos", "sinh", "cosh", "tanh", "tan", "sigmoid", "erf", "log", "log1p")
SMOOTH += ("expm1", "atan", "reciprocal", "sqrt", "rsqrt", "silu")
ALIASES = {"expit": "sigmoid", "arctan": "atan"}


def _apply(x: Stream, inplace: bool = False, *, table: Any) -> Stream:
    return compose(x, table)


for _name in SMOOTH:
    rule(_name)(partial(_apply, table=getattr(tables, _name)))
for _name, _table in ALIASES.items():
    rule(_name)(partial(_apply, table=getattr(tables, _table)))


@rule("gelu")
def gelu(x: Stream, approximate: str = "none") -> Stream:
    """GELU, exact or in its tanh form."""
    return compose(x, tables.gelu if approximate == "none" else tables.gelu_tanh)


@rule("softplus")
def softplus(x: Stream, beta: float = 1.0, threshold: float = 20.0) -> Stream:
    """Softplus; above the threshold torch's is linear to rounding, and ours simply exact."""
    return compose(x * beta, tables.softplus) * (1.0 / beta)


@rule("add", "__add__", "__radd__")
def add(a: Any, b: Any, *, alpha: float = 1) -> Stream:
    """Add streams, tensors or numbers."""
    if alpha != 1:
        b = b * alpha
    if isinstance(a, Stream) and isinstance(b, Stream):
        ndim = max(a.ndim, b.ndim)
        a, b = a.aligned(ndim), b.aligned(ndim)
        if a.layout is not b.layout:
            raise NoRuleError("a sum of streams of different residuals")
        anchor = a if b.weights is None or a.numel() >= b.numel() else b
        data = a.data + b.data
        weights = anchor.weights
        if weights is not None:
            weights = weights.expand(-1, *data.shape[1:])
        return Stream(data, a.layout, weights)
    stream, constant = (a, b) if isinstance(a, Stream) else (b, a)
    return stream.plus(constant) if isinstance(stream, Scores) else shifted(stream, constant)


@rule("sub", "subtract", "__sub__")
def subtract(a: Any, b: Any, *, alpha: float = 1) -> Stream:
    """Subtract streams, tensors or numbers."""
    if isinstance(a, Stream) and isinstance(b, Stream) and a.shape == b.shape and alpha == 1:
        return Stream(a.data - b.data, a.layout, a.weights)
    return add(a, b * -alpha)


@rule("rsub", "__rsub__")
def reflected_subtract(a: Any, b: Any, *, alpha: float = 1) -> Stream:
    """Give b − a."""
    return subtract(b, a, alpha=alpha)


@rule("mul", "multiply", "__mul__", "__rmul__")
def mul(a: Any, b: Any) -> Stream:
    """Multiply streams, tensors or numbers."""
    if isinstance(a, Stream) and isinstance(b, Stream):
        return multiply(a, b)
    stream, constant = (a, b) if isinstance(a, Stream) else (b, a)
    return _scaled(stream, constant)


@rule("div", "divide", "true_divide", "__truediv__")
def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Stream:
    """Divide streams, tensors or numbers."""
    if rounding_mode is not None:
        raise NoRuleError(f"div(rounding_mode={rounding_mode!r})")
    if isinstance(a, Stream) and isinstance(b, Stream):
        return divide(a, b)
    if isinstance(b, Stream):
        return _scaled(compose(b, tables.reciprocal), a)
    return _scaled(a, 1.0 / b)


@rule("__rtruediv__", "__rdiv__")
def reflected_div(a: Any, b: Any) -> Stream:
    """Give b / a."""
    return div(b, a)


@rule("neg", "negative", "__neg__")
def neg(x: Stream) -> Stream:
    """Change the sign."""
    return Stream(-x.data, x.layout, x.weights)


@rule("positive", "__pos__")
def positive(x: Stream) -> Stream:
    """Change nothing."""
    return x


@rule("square")
def square(x: Stream) -> Stream:
    """Square."""
    return power(x, 2)


@rule("pow", "float_power", "__pow__")
def power(a: Any, b: Any) -> Stream:
    """Raise to a power; of two streams, through exp and log."""
    if not isinstance(b, Stream):
        if isinstance(b, Tensor):
            if b.numel() != 1 or b.requires_grad:
                return compose(compose(a, tables.log) * b, tables.exp)
            b = b.item()
        return compose(a, tables.power(float(b)))
    if isinstance(a, Stream):
        logarithm: Any = compose(a, tables.log)
    else:
        logarithm = torch.log(a) if isinstance(a, Tensor) else math.log(a)
    return compose(mul(b, logarithm), tables.exp)


@rule("__rpow__")
def reflected_power(a: Any, b: Any) -> Stream:
    """Give b ** a."""
    return power(b, a)


@rule("addcmul")
def addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> Stream:
    """Give x + value·a·b."""
    return add(x, a * b, alpha=value)


@rule("lerp")
def lerp(a: Any, b: Any, weight: Any) -> Stream:
    """Give a + weight·(b − a)."""
    return a + weight * (b - a)


def _scaled(x: Stream, constant: Any) -> Stream:
    """Multiply by a constant: every row alike."""
    if isinstance(constant, Tensor):
        x = x.aligned(constant.ndim)
        shape = torch.broadcast_shapes(x.shape, constant.shape)
        weights = x.weights if x.weights is None else x.weights.expand(-1, *shape)
        return Stream(x.data * constant, x.layout, weights)
    return Stream(x.data * constant, x.layout, x.weights)
