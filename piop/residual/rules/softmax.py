"""Softmax, by itself and followed by a product with values.

Softmax is y = exp ζ, ζ = z − log Σ exp z. With w_r = z_r + (products of lower rows of ζ) every
row is y·(w_r − Σ y w_r), since the rows of a constant sum vanish (``docs/math.md``, 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules.kernels import divide
from piop.residual.rules.reduce import logsumexp
from piop.residual.streams import Group, Stream, rule


class Softmax(Stream):
    """A softmax along the last dimension, written out only if no product with values follows.

    Args:
        scores: What it is the softmax of.
    """

    __slots__ = ("_data", "scores")

    def __init__(self, scores: Stream) -> None:
        self.scores, self.layout, self.weights = scores, scores.layout, scores.weights
        self._data: Tensor | None = None

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The rows, normalised."""
        if self._data is None:
            self._data = _normalised_rows(self.scores, -1)
        return self._data

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        return self.scores.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the value."""
        return self.scores.ndim


@rule("softmax")
def softmax(x: Stream, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Stream:
    """As ``F.softmax``."""
    x = x if dtype is None else x.to(dtype)
    if dim % x.ndim == x.ndim - 1:
        return Softmax(x)
    return Stream(_normalised_rows(x, dim), x.layout, x.weights)


@rule("log_softmax")
def log_softmax(x: Stream, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Stream:
    """As ``F.log_softmax``."""
    x = x if dtype is None else x.to(dtype)
    return x - logsumexp(x, dim, keepdim=True)


def weighted_sum(scores: Stream, values: Tensor) -> Stream:
    """Give softmax(scores) @ values for values ``[*, M, c]`` that carry no rows.

    The rows of e^z are multiplied by ``[v | 1]``, which gives numerators and normalisers in one
    product each; a quotient of small streams remains.
    """
    rows = scores.data.unbind(0)
    e = torch.exp(rows[0] - rows[0].detach().amax(-1, keepdim=True))
    extended = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    totals = [torch.matmul(e, extended)]
    for row, groups in zip(rows[1:], scores.layout.compositions[1:], strict=True):
        totals.append(torch.matmul(e * _exponent_row(row, groups, rows, scores), extended))
    out = scores.replace(torch.stack(totals))
    numerator, normaliser = out.split([values.shape[-1], 1], -1)
    return divide(numerator, normaliser)


def _normalised_rows(x: Stream, dim: int) -> Tensor:
    rows = x.data.unbind(0)
    y = torch.softmax(rows[0], dim)
    centred: list[Tensor] = [y]
    out = [y]
    for row, groups in zip(rows[1:], x.layout.compositions[1:], strict=True):
        w = _exponent_row(row, groups, centred, x)
        average = (y * w).sum(dim, keepdim=True)
        centred.append(row - average)
        out.append(y * (w - average))
    return torch.stack(out)


def _exponent_row(
    row: Tensor, groups: Sequence[Group], rows: Sequence[Tensor], x: Stream
) -> Tensor:
    """Give (row r of exp z) / exp z."""
    for group in groups:
        for key in group.rows:
            product = reduce(mul, (rows[i] for i in key))
            if group.slot is not None:
                product = product * x.weights[group.slot]  # type: ignore[index]
            row = torch.add(row, product, alpha=group.factor)
    return row
