"""Arithmetic and smooth elementwise functions of streams."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules import elementwise_derivatives as derivatives
from piop.residual.rules.composition import compose, divide, larger, multiply
from piop.residual.stream_tensor import (
    NoRuleError,
    OperandRule,
    StreamTensor,
    align,
    reflected,
    rule,
    streamed,
)

SMOOTH = ("exp", "sin", "cos", "sinh", "cosh", "tanh", "tan", "sigmoid", "erf", "log", "log1p")
SMOOTH += ("expm1", "atan", "reciprocal", "sqrt", "rsqrt", "silu")
ALIASES = {"expit": "sigmoid", "arctan": "atan"}


def _apply(x: StreamTensor, inplace: bool = False, *, table: Any) -> StreamTensor:
    return compose(x, table)


for _name, _table in ({name: name for name in SMOOTH} | ALIASES).items():
    rule(_name)(partial(_apply, table=getattr(derivatives, _table)))


@rule("gelu")
def gelu(x: StreamTensor, approximate: str = "none") -> StreamTensor:
    """GELU, exact or in its tanh form."""
    return compose(x, derivatives.gelu if approximate == "none" else derivatives.gelu_tanh)


@rule("softplus")
def softplus(x: StreamTensor, beta: float = 1.0, threshold: float = 20.0) -> StreamTensor:
    """Softplus; above the threshold torch's is linear to rounding, this one exact."""
    return compose(x * beta, derivatives.softplus) * (1.0 / beta)


def _add_streams(a: StreamTensor, b: StreamTensor) -> StreamTensor:
    a, b = align(a, b)
    return larger(a, b).replace(a.data + b.data)


_sum = OperandRule(_add_streams, lambda a, b: a.plus(b), lambda a, b: b.plus(a))


@rule("add", "__add__", "__radd__")
def add(a: Any, b: Any, *, alpha: float = 1) -> StreamTensor:
    """Return a + alpha·b."""
    return _sum(a, b if alpha == 1 else b * alpha)


@rule("sub", "subtract", "__sub__")
def subtract(a: Any, b: Any, *, alpha: float = 1) -> StreamTensor:
    """Return a − alpha·b."""
    if alpha == 1 and len(streamed((a, b))) == 2 and a.shape == b.shape:
        return a.replace(a.data - b.data)
    return add(a, b * -alpha)


rule("rsub", "__rsub__")(reflected(subtract))


def _scale(x: StreamTensor, constant: Any) -> StreamTensor:
    """Multiply by a constant: every stream alike."""
    if isinstance(constant, Tensor):
        x = x.aligned(constant.ndim)
    return x.replace(x.data * constant)


product = OperandRule(multiply, _scale, reflected(_scale))
rule("mul", "multiply", "__mul__", "__rmul__")(product)

quotient = OperandRule(
    divide,
    lambda a, b: _scale(a, 1.0 / b),
    lambda a, b: _scale(compose(b, derivatives.reciprocal), a),
)


@rule("div", "divide", "true_divide", "__truediv__")
def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> StreamTensor:
    """Divide; a mode of rounding is refused."""
    if rounding_mode is not None:
        raise NoRuleError(f"div(rounding_mode={rounding_mode!r})")
    return quotient(a, b)


rule("__rtruediv__", "__rdiv__")(reflected(quotient))


@rule("neg", "negative", "__neg__")
def neg(x: StreamTensor) -> StreamTensor:
    """Change the sign."""
    return StreamTensor(-x.data, x.layout, x.coefficients)


rule("positive", "__pos__")(lambda x: x)


def _exponential(a: Any, b: Any) -> StreamTensor:
    """Return aᵇ as exp(b·log a)."""
    logarithm = math.log(a) if isinstance(a, int | float) else torch.log(a)
    return compose(product(b, logarithm), derivatives.exp)


def _constant_power(a: StreamTensor, b: Any) -> StreamTensor:
    if isinstance(b, Tensor) and (b.numel() != 1 or b.requires_grad):
        return _exponential(a, b)
    return compose(a, derivatives.power(float(b)))


power = OperandRule(_exponential, _constant_power, _exponential)
rule("pow", "float_power", "__pow__")(power)
rule("__rpow__")(reflected(power))
rule("square")(lambda x: power(x, 2))


@rule("addcmul")
def addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> StreamTensor:
    """Return x + value·a·b."""
    return add(x, a * b, alpha=value)


@rule("lerp")
def lerp(a: Any, b: Any, weight: Any) -> StreamTensor:
    """Return a + weight·(b − a)."""
    return a + weight * (b - a)
