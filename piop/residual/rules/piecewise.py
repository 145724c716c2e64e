"""Functions with kinks: their streams follow the branch that is taken, as reverse mode does."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from piop.residual.rules.composition import compose
from piop.residual.rules.elementwise_derivatives import exp
from piop.residual.stream_tensor import (
    NoRuleError,
    StreamTensor,
    align,
    constant_stream,
    require_constant,
    rule,
    streamed,
    value_of,
)


@rule("where")
def where(condition: Tensor, a: Any, b: Any) -> StreamTensor:
    """Choose elementwise between tensors that carry streams and constants."""
    require_constant("where() with a condition that is no comparison", condition)
    operands = [a, b]
    positions = streamed(operands)
    like = operands[positions[0]]
    for i in {0, 1} - set(positions):
        constant = torch.as_tensor(operands[i], dtype=like.dtype, device=like.device)
        operands[i] = constant_stream(constant, like)
    aligned = [x.aligned(condition.ndim) for x in align(*operands)]
    data = torch.where(condition, aligned[0].data, aligned[1].data)
    return max((aligned[i] for i in positions), key=StreamTensor.numel).replace(data)


@rule("masked_fill")
def masked_fill(x: StreamTensor, mask: Tensor, value: Any) -> StreamTensor:
    """Replace by a constant where the mask is true."""
    return where(mask, value, x)


@rule("abs", "absolute", "__abs__")
def absolute(x: StreamTensor) -> StreamTensor:
    """Absolute value, slope sign(x)."""
    return _piecewise_linear(x, torch.abs, torch.sign(x.value))


@rule("relu")
def relu(x: StreamTensor, inplace: bool = False) -> StreamTensor:
    """Rectify, slope 0 at the kink as in torch."""
    return _piecewise_linear(x, torch.relu, (x.value > 0).to(x.dtype))


@rule("leaky_relu")
def leaky_relu(
    x: StreamTensor, negative_slope: float = 0.01, inplace: bool = False
) -> StreamTensor:
    """Leaky rectifier."""
    slope = torch.where(x.value > 0, 1.0, negative_slope).to(x.dtype)
    return _piecewise_linear(x, lambda v: F.leaky_relu(v, negative_slope), slope)


@rule("elu")
def elu(x: StreamTensor, alpha: float = 1.0, inplace: bool = False) -> StreamTensor:
    """ELU: identity above zero, α(eˣ − 1) below."""
    below = where(x.value > 0, 0.0, x)
    return where(x.value > 0, x, (compose(below, exp) - 1.0) * alpha)


@rule("sign", "floor", "ceil", "round", "trunc", "heaviside", "sgn")
def step(x: StreamTensor, *args: Any) -> Tensor:
    """Refuse: a function constant almost everywhere stops all derivatives silently."""
    raise NoRuleError("a step function")


@rule("remainder", "__mod__")
def remainder(x: StreamTensor, divisor: Any) -> StreamTensor:
    """Wrap a coordinate into a period: the streams do not change."""
    require_constant("remainder with a divisor that depends on the queries", divisor)
    return x + (torch.remainder(x.value, divisor) - x.value).detach()


@rule("fmod")
def fmod(x: StreamTensor, divisor: Any) -> StreamTensor:
    """The same with the sign of the dividend."""
    require_constant("fmod with a divisor that depends on the queries", divisor)
    return x + (torch.fmod(x.value, divisor) - x.value).detach()


@rule("clamp", "clip")
def clamp(x: StreamTensor, min: Any = None, max: Any = None) -> StreamTensor:
    """Clamp between constants."""
    if min is not None:
        x = where(x.value < min, min, x)
    return x if max is None else where(x.value > max, max, x)


@rule("maximum")
def maximum(a: Any, b: Any) -> StreamTensor:
    """The larger of two."""
    return where(value_of(a) >= value_of(b), a, b)


@rule("minimum")
def minimum(a: Any, b: Any) -> StreamTensor:
    """The smaller of two."""
    return where(value_of(a) <= value_of(b), a, b)


def _of_values(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*map(value_of, args), **kwargs)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    rule(_name, f"__{_name}__")(partial(_of_values, getattr(torch, _name)))
for _name in ("isnan", "isfinite", "isinf", "zeros_like", "ones_like", "full_like", "empty_like"):
    rule(_name)(partial(_of_values, getattr(torch, _name)))
for _name in ("new_zeros", "new_ones", "new_full", "new_tensor", "new_empty", "detach"):
    rule(_name)(partial(_of_values, getattr(Tensor, _name)))


def _piecewise_linear(x: StreamTensor, function: Any, slope: Tensor) -> StreamTensor:
    """Apply a function whose second derivative vanishes almost everywhere."""
    value, rest = x.data.split([1, x.layout.count - 1])
    return x.replace(torch.cat([function(value), slope.detach() * rest]))
