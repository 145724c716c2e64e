"""Softmax, by itself and followed by a product with values.

Softmax is y = exp ζ, ζ = z − log Σ exp z. With w_r = z_r + (products of lower rows of ζ) every
row is y·(w_r − Σ y w_r), since the rows of a constant sum vanish (``docs/math.md``, 6).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from piop.residual.rules.reduce import logsumexp
from piop.residual.rules.weighted import exponent_row
from piop.residual.streams import Stream, rule


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


def _normalised_rows(x: Stream, dim: int) -> Tensor:
    rows = x.data.unbind(0)
    y = torch.softmax(rows[0], dim)
    centred: list[Tensor] = [y]
    out = [y]
    for row, groups in zip(rows[1:], x.layout.compositions[1:], strict=True):
        w = exponent_row(row, groups, centred, x.weights)
        average = (y * w).sum(dim, keepdim=True)
        centred.append(row - average)
        out.append(y * (w - average))
    return torch.stack(out)
