"""Arithmetic and smooth elementwise functions of streams."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules import elementwise_derivatives as derivatives
from piop.residual.rules.composition import compose, divide, multiply
from piop.residual.stream_tensor import (
    NoRuleError,
    OperandRule,
    StreamTensor,
    align,
    reflected,
    rule,
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


def _add_both(a: StreamTensor, b: StreamTensor, *, alpha: float = 1) -> StreamTensor:
    a, b = align(a, b if alpha == 1 else b * alpha)
    anchor = a if b.coefficients is None or a.numel() >= b.numel() else b
    return anchor.replace(a.data + b.data)


def _add_constant(a: StreamTensor, b: Any, *, alpha: float = 1) -> StreamTensor:
    return a.plus(b if alpha == 1 else b * alpha)


def _add_to_constant(a: Any, b: StreamTensor, *, alpha: float = 1) -> StreamTensor:
    return (b if alpha == 1 else b * alpha).plus(a)


add = rule("add", "__add__", "__radd__")(OperandRule(_add_both, _add_constant, _add_to_constant))


def _subtract_both(a: StreamTensor, b: StreamTensor, *, alpha: float = 1) -> StreamTensor:
    if a.shape == b.shape and alpha == 1:
        return StreamTensor(a.data - b.data, a.layout, a.coefficients)
    return _add_both(a, b * -alpha)


def _add_negative(a: Any, b: Any, *, alpha: float = 1) -> StreamTensor:
    return add(a, b * -alpha)


subtract = OperandRule(_subtract_both, _add_negative, _add_negative)
rule("sub", "subtract", "__sub__")(subtract)
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


def _exponential_of_log(logarithm: Any, b: Any) -> StreamTensor:
    return compose(product(b, logarithm), derivatives.exp)


def _constant_power(a: StreamTensor, b: Any) -> StreamTensor:
    if isinstance(b, Tensor) and (b.numel() != 1 or b.requires_grad):
        return compose(compose(a, derivatives.log) * b, derivatives.exp)
    return compose(a, derivatives.power(float(b)))


def _power_of_constant(a: Any, b: StreamTensor) -> StreamTensor:
    return _exponential_of_log(torch.log(a) if isinstance(a, Tensor) else math.log(a), b)


power = OperandRule(
    lambda a, b: _exponential_of_log(compose(a, derivatives.log), b),
    _constant_power,
    _power_of_constant,
)
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
