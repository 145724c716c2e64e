"""Cross-attention from queries to sensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from piop.models.core.coordinates import shortest_waves

Harmonics = tuple[Tensor, Tensor]
"""Cosines and sines of the wave vectors at some points, ``[B, P, K]`` each."""


class RelativeAttention(nn.Module):
    """Softmax attention in which position enters through differences alone.

    Pairs of a key turn by k·θ of its sensor, pairs of a query by k·θ of the query, so that a score
    is a sum of cos(k·(θ_i − θ_j) + phase), exactly periodic, with amplitudes that depend on the
    state of the query and on the content of the sensor: a learned Green's function. Some values
    turn too and are turned back at the query, which hands it directions, not places.

    Rotary embedding (Su et al. 2021, eq. 34, doi:10.1016/j.neucom.2023.127063) with integer
    frequencies, hence exactly periodic, in place of its geometric ladder.

    Args:
        width: Features of queries and tokens.
        dimension: d, coordinates of the input.
        heads: H.
        content: Entries of a key that do not turn.
        harmonics: P, pairs of a key that turn, by the P shortest wave vectors.
    """

    def __init__(
        self, width: int, dimension: int, heads: int, content: int, harmonics: int
    ) -> None:
        super().__init__()
        self.heads, self.content, self.pairs = heads, content, harmonics
        self.size = content + 2 * harmonics
        self.depth = max(width // heads, 2 * ROTATED_VALUES)
        self.query = nn.Linear(width, heads * self.size)
        self.key = nn.Linear(width, heads * self.size)
        self.value = nn.Linear(width, heads * self.depth)
        self.out = nn.Linear(heads * self.depth, width)
        self._sharpen(dimension)

    @staticmethod
    def wave_vectors(dimension: int, harmonics: int) -> Tensor:
        """Wave vectors by which the pairs of a key turn: ``[P, d]``."""
        return torch.tensor(shortest_waves(dimension, harmonics), dtype=torch.get_default_dtype())

    def _sharpen(self, dimension: int) -> None:
        """Start as kernels β(cos Δ − 1), β = 2·3^h in head h, so that all widths are at hand."""
        with torch.no_grad():
            for layer in (self.query, self.key):
                layer.weight *= 0.5
                layer.bias.zero_()
                bias = layer.bias.view(self.heads, self.size)
                for head in range(self.heads):
                    slots = slice(self.content, self.content + dimension)
                    bias[head, slots] = math.sqrt(INITIAL_SHARPNESS * 3.0**head)

    def forward(
        self,
        state: Tensor,
        tokens: Tensor,
        at_queries: Harmonics,
        at_sensors: Harmonics,
        blocked: Tensor | None,
    ) -> Tensor:
        """Attend.

        Args:
            state: ``[B, N, width]``.
            tokens: ``[B, M, width]``.
            at_queries: Harmonics of ``wave_vectors`` at the queries, ``[B, N, P]`` each.
            at_sensors: The same at the sensors, ``[B, M, P]`` each.
            blocked: A large negative number where there is no sensor, else 0, ``[B, 1, 1, M]``.

        Returns:
            ``[B, N, width]``.
        """
        query = self._turned(self._split(self.query(state), self.size), at_queries)
        key = self._turned(self._split(self.key(tokens), self.size), at_sensors)
        scores = torch.matmul(query.transpose(1, 2), key.permute(0, 2, 3, 1))
        if blocked is not None:
            scores = scores + blocked
        values = self._swung(self._split(self.value(tokens), self.depth), at_sensors, 1.0)
        found = torch.matmul(torch.softmax(scores, -1), values.transpose(1, 2)).transpose(1, 2)
        found = self._swung(found, at_queries, -1.0)
        return self.out(found.reshape(*found.shape[:2], self.heads * self.depth))

    def _split(self, features: Tensor, size: int) -> Tensor:
        return features.reshape(*features.shape[:2], self.heads, size)

    def _turned(self, entries: Tensor, at: Harmonics) -> Tensor:
        """Turn the last 2P entries of each head, real parts first: ``[B, ·, H, size]``."""
        first = self.content
        a = entries[..., first : first + self.pairs]
        b = entries[..., first + self.pairs :]
        cos, sin = at[0][:, :, None], at[1][:, :, None]
        still = [entries[..., :first]] if first else []
        return torch.cat([*still, a * cos - b * sin, a * sin + b * cos], -1)

    def _swung(self, values: Tensor, at: Harmonics, way: float) -> Tensor:
        """Turn the first 2·TURNING values of each head there, or back: ``[B, ·, H, depth]``."""
        a, b = values[..., :ROTATED_VALUES], values[..., ROTATED_VALUES : 2 * ROTATED_VALUES]
        cos, sin = at[0][:, :, None, :ROTATED_VALUES], at[1][:, :, None, :ROTATED_VALUES] * way
        return torch.cat(
            [a * cos - b * sin, a * sin + b * cos, values[..., 2 * ROTATED_VALUES :]], -1
        )


ROTATED_VALUES = 3
"""Values of a head that turn, in pairs, by the shortest wave vectors."""

INITIAL_SHARPNESS = 2.0
"""Score of head 0 at the sensor itself over that a radian away, at the start."""
