"""Normalisations: layer norm, RMS norm, group norm; dropout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from piop.residual.rules.kernels import compose, multiply
from piop.residual.rules.reduce import mean, mean_square
from piop.residual.rules.tables import rsqrt
from piop.residual.streams import NoRuleError, Stream, rule


@rule("layer_norm")
def layer_norm(
    x: Stream,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Stream:
    """As ``F.layer_norm``."""
    dims = tuple(range(-len(normalized_shape), 0))
    centred = x - mean(x, dims, keepdim=True)
    return _affine(_unit(centred, dims, eps), weight, bias)


@rule("rms_norm")
def rms_norm(
    x: Stream,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Stream:
    """As ``F.rms_norm``."""
    dims = tuple(range(-len(normalized_shape), 0))
    return _affine(_unit(x, dims, torch.finfo(x.dtype).eps if eps is None else eps), weight, None)


@rule("group_norm")
def group_norm(
    x: Stream,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Stream:
    """As ``F.group_norm`` on ``[N, C]``; with further axes it would mix queries."""
    if x.ndim != 2:
        raise NoRuleError("group_norm that mixes further axes")
    grouped = x.unflatten(1, (num_groups, x.shape[1] // num_groups))
    centred = grouped - mean(grouped, -1, keepdim=True)
    return _affine(_unit(centred, (-1,), eps).flatten(1), weight, bias)


@rule("normalize")
def normalize(
    x: Stream, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Stream:
    """As ``F.normalize`` for the Euclidean norm."""
    if p != 2.0:
        raise NoRuleError(f"normalize(p={p})")
    return x / torch.clamp(torch.norm(x, dim=dim, keepdim=True), min=eps)  # type: ignore[arg-type]


@rule("dropout", "alpha_dropout", "feature_dropout")
def dropout(x: Stream, p: float = 0.5, training: bool = True, inplace: bool = False) -> Stream:
    """Do nothing in evaluation; one random mask for all rows in training."""
    if not training or p == 0:
        return x
    mask = torch.nn.functional.dropout(torch.ones_like(x.data[0]), p)
    return Stream(x.data * mask, x.layout, x.weights)


def _unit(x: Stream, dims: tuple[int, ...], eps: float) -> Stream:
    return multiply(x, compose(mean_square(x, dims) + eps, rsqrt))


def _affine(x: Stream, weight: Tensor | None, bias: Tensor | None) -> Stream:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias
