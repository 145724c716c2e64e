"""Attention without a softmax: Galerkin's Q (KᵀV) and Fourier's (Q Kᵀ) V."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.errors import UsageError
from piop.models.core.relative_attention import Harmonics
from piop.models.oformer.rotary import turned

Kind = Literal["galerkin", "fourier", "plain"]
"""What is normalised: keys and values, queries and keys, or nothing.

The text writes a norm of each feature over the points (eq. 4, "instance normalization"). The
authors' code normalises each point over its features, since its axes are swapped, and so does this.
"""

Gate = Literal["gelu", "tanh", "relu"]
"""What lies between the layers of a feed-forward network: gated by the first two, or by nothing."""

NORMALISED = {"galerkin": ("key", "value"), "fourier": ("query", "key"), "plain": ()}


class LinearAttention(nn.Module):
    """z_i = 1/M Σ_j (q_i·k_j) v_j, computed as q_i (Σ_j k_j v_jᵀ)/M.

    The sum over tokens is done once and is of the size of a head, so the cost is linear in tokens
    and in queries, and what queries carry, such as streams, never meets a token. A head's width is
    free: in the authors' code every head is as wide as all the features.

    Args:
        width: Features of queries and of the answer.
        source: Features of tokens.
        heads: H.
        size: Entries of a head.
        kind: What is normalised.
        parts: Coordinates of the rotary position (see :func:`~piop.models.oformer.rotary.turned`).
        affine: Whether the norms have weights, as in the authors' code for meshes.

    Source: eq. 2 to 5 of the paper. No biases, and no map of the answer where one head is as wide
        as the features, as in its code.
    """

    def __init__(
        self,
        width: int,
        source: int,
        heads: int,
        size: int,
        kind: Kind,
        parts: int = 1,
        affine: bool = False,
    ) -> None:
        super().__init__()
        if kind not in NORMALISED:
            raise UsageError(f"attention = {kind!r}: one of {', '.join(NORMALISED)}")
        self.heads, self.size, self.kind, self.parts = heads, size, kind, parts
        self.query = nn.Linear(width, heads * size, bias=False)
        self.key = nn.Linear(source, heads * size, bias=False)
        self.value = nn.Linear(source, heads * size, bias=False)
        self.norms = nn.ModuleDict(
            {n: nn.LayerNorm(size, elementwise_affine=affine) for n in NORMALISED[kind]}
        )
        self.out = None
        if heads > 1 or size != width:
            self.out = nn.Linear(heads * size, width)

    def start_near_identity(self, *names: str) -> None:
        """Start maps as (orthogonal + 1)/size in each head, as appendix A of the paper and eq. 17.

        Args:
            *names: Which of query, key and value; by default the one that is not normalised.
        """
        for name in names or [n for n in ("query", "value") if n not in self.norms]:
            weight = getattr(self, name).weight
            with torch.no_grad():
                for head in weight.split(self.size):
                    nn.init.orthogonal_(head, gain=1 / self.size)
                    head += torch.eye(*head.shape) / self.size

    def forward(
        self,
        state: Any,
        tokens: Tensor,
        at_queries: Harmonics | None = None,
        at_tokens: Harmonics | None = None,
        keep: Tensor | None = None,
    ) -> Any:
        """Attend.

        Args:
            state: Queries ``[B or 1, N, width]``.
            tokens: ``[B, M, source]``.
            at_queries: Cosines and sines of the phases at the queries, ``[B, N, P]`` each.
            at_tokens: The same at the tokens, ``[B, M, P]`` each.
            keep: One where a token is, zero where none is, ``[B, M, 1]``; None where all are.

        Returns:
            ``[B, N, width]``.
        """
        query = self._split("query", state)
        query = turned(query, at_queries, self.parts).transpose(1, 2)
        found = torch.matmul(query, self.summed(tokens, at_tokens, keep)).transpose(1, 2)
        found = found.reshape(found.shape[0], found.shape[1], self.heads * self.size)
        return found if self.out is None else self.out(found)

    def summed(
        self, tokens: Tensor, at_tokens: Harmonics | None, keep: Tensor | None = None
    ) -> Tensor:
        """Sum k vᵀ over the tokens, over their number: ``[B, H, size, size]``."""
        key = turned(self._split("key", tokens), at_tokens, self.parts)
        value = self._split("value", tokens)
        count: Any = tokens.shape[1]
        if keep is not None:
            value = value * keep[..., None]
            count = keep.sum(1)[:, :, None, None]
        return torch.matmul(key.permute(0, 2, 3, 1), value.transpose(1, 2)) / count

    def _split(self, name: str, features: Any) -> Any:
        """Map features, split them into heads ``[B, ·, H, size]``, and normalise."""
        found = getattr(self, name)(features)
        found = found.reshape(found.shape[0], found.shape[1], self.heads, self.size)
        return self.norms[name](found) if name in self.norms else found


class FeedForward(nn.Module):
    """Two layers with gelu(a) ⊙ b between them, tanh(a) ⊙ b, or relu(a).

    The first is the paper's, the last that of its code for meshes. With a bounded gate the answer
    grows as the state does, and not as its square.

    Args:
        width: Features in and out.
        hidden: Features between.
        gate: Which of them.
    """

    def __init__(self, width: int, hidden: int, gate: Gate = "gelu") -> None:
        super().__init__()
        self.hidden, self.gate = hidden, gate
        self.first = nn.Linear(width, hidden if gate == "relu" else 2 * hidden)
        self.last = nn.Linear(hidden, width)

    def forward(self, state: Any) -> Any:
        """Apply it to ``[..., width]``."""
        found = self.first(state)
        if self.gate == "relu":
            return self.last(torch.relu(found))
        bounded = torch.tanh if self.gate == "tanh" else functional.gelu
        return self.last(bounded(found[..., : self.hidden]) * found[..., self.hidden :])


class SelfAttention(nn.Module):
    """A layer of the encoder: f + attention, then f + feed-forward.

    With layer norm the *normalised* state is what is added to, as in the authors' code:
    f ← norm(f), f ← f + attention(f), f ← norm(f), f ← f + feed-forward(f). Eq. 6 puts norms last.

    Args:
        attention: The attention of tokens to tokens.
        feed: The feed-forward network.
        width: Features of a token.
        normed: Whether with layer norm.
    """

    def __init__(
        self, attention: LinearAttention, feed: FeedForward, width: int, normed: bool
    ) -> None:
        super().__init__()
        self.attention, self.feed = attention, feed
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * normed))

    def forward(self, tokens: Any, at: Harmonics | None, keep: Tensor | None = None) -> Any:
        """Update ``tokens [B, M, width]``."""
        if self.norms:
            tokens = self.norms[0](tokens)
        tokens = tokens + self.attention(tokens, tokens, at, at, keep)
        if self.norms:
            tokens = self.norms[1](tokens)
        return tokens + self.feed(tokens)
