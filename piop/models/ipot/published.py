"""The network of the IPOT paper, in its text's form and in its code's.

S. Lee, T. Oh, *Inducing Point Operator Transformer*, AAAI 2024 (arXiv:2312.10975),
eqs. 5-9, Table 5 and appendix "Attention blocks"; what the text omits, sizes among it, is that of
the authors' code (github.com/7tl7qns7ch/IPOT, revision 18c1778).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.attention import joint_masked_scores, softmax_attention, split_heads
from piop.models.core.base import (
    AxisSignature,
    Inputs,
    Signature,
    encode_scalars,
    real_points,
    scalar_values,
    standardised,
)
from piop.models.core.coordinates import scaled_to_unit, take_columns
from piop.models.ipot.network import GatedFeedForward, LatentBackbone, LatentModel, LatentRollout

ENCODER_EXPANSION = 4
"""Hidden over outer width of the encoder's feed-forward, as in the code, against its setting."""

EXPANSION = 2
"""Hidden over outer width in the processor, and on the channels of the output."""


@dataclass(frozen=True)
class PaperIPOTConfig:
    """Sizes of the paper's IPOT (Table 5), all dimensionless.

    Attributes:
        width: Latent channels d_z.
        points: n_z, inducing points.
        depth: L, applications of the one processor block.
        heads: Heads of the self-attention.
        cross_heads: Heads of both cross-attentions.
        cross_size: Features of their keys, all heads together.
        bands: Rates of the Fourier features of an axis.
        resolutions: Points per axis that the highest rate resolves.
        as_published: As in the code, faults included: the encoder's feed-forward is allocated and
            never called; keys and values of the self-attention are not normalised; the output
            passes a feed-forward of its own channels (with one channel a layer norm makes that a
            learned constant) and is multiplied by 0.1.
    """

    width: int = 64
    points: int = 256
    depth: int = 4
    heads: int = 8
    cross_heads: int = 1
    cross_size: int = 64
    bands: int = 32
    resolutions: tuple[int, ...] = (32,)
    as_published: bool = False

    def __post_init__(self) -> None:
        if self.width % self.heads or self.cross_size % self.cross_heads:
            raise UsageError(
                f"width = {self.width} and cross_size = {self.cross_size}: give multiples of "
                f"heads = {self.heads} and cross_heads = {self.cross_heads}"
            )


@dataclass(frozen=True)
class PaperIPOTRolloutConfig(PaperIPOTConfig):
    """Sizes of the paper's IPOT as a rollout (eq. 9), all dimensionless.

    Attributes:
        steps: Steps over the time axis, one pass of the processor each.
    """

    steps: int = 40


class FourierFeatures(nn.Module):
    """Coordinates as sines and cosines of rates from the coarsest to Nyquist's.

    Along an axis with ends, x from 0 to 1: x itself and the sines and cosines of πfx with f evenly
    from 1 to resolution / 2. These are not periodic; along a periodic axis they are the harmonics
    2πkx up to the same highest rate, without x, so that outputs are exactly periodic.

    Args:
        axes: The d coordinates.
        bands: Rates of an axis.
        resolutions: Points along each axis that the highest rate resolves; the last one holds for
            all axes beyond.

    Attributes:
        features: Numbers per point.
    """

    def __init__(
        self, axes: Sequence[AxisSignature], bands: int, resolutions: Sequence[int]
    ) -> None:
        super().__init__()
        self.axes = tuple(axes)
        self.rates = tuple(
            _rates(axis, bands, resolutions[min(i, len(resolutions) - 1)])
            for i, axis in enumerate(self.axes)
        )
        ends = sum(not axis.periodic for axis in self.axes)
        self.features = ends + sum(2 * len(rates) for rates in self.rates)

    def forward(self, points: Tensor) -> Tensor:
        """Encode ``points [B, N, d]`` in units of the axes: ``[B, N, features]``."""
        columns = []
        for i, (axis, rates) in enumerate(zip(self.axes, self.rates, strict=True)):
            x = scaled_to_unit(points[..., i : i + 1], [axis])
            phase = x * torch.tensor(rates, dtype=points.dtype, device=points.device)
            columns += [] if axis.periodic else [x]
            columns += [torch.sin(phase), torch.cos(phase)]
        return torch.cat(columns, -1)


def _rates(axis: AxisSignature, bands: int, resolution: int) -> tuple[float, ...]:
    """Radians per length of the axis.

    Example:
        >>> walled, ring = AxisSignature("x", 0.0, 1.0), AxisSignature("x", 0.0, 1.0, True)
        >>> [round(rate / math.pi, 9) for rate in _rates(walled, 3, 8)]
        [1.0, 2.5, 4.0]
        >>> [round(rate / math.pi, 9) for rate in _rates(ring, 3, 8)]
        [2.0, 4.0]
    """
    if axis.periodic:
        waves = max(1, min(bands, resolution // 4))
        return tuple(2 * math.pi * k for k in range(1, waves + 1))
    step = (resolution / 2 - 1) / max(bands - 1, 1)
    return tuple(math.pi * (1 + k * step) for k in range(bands))


class KeysAndValues(nn.Module):
    """Keys and values of tokens: layer norm, then linear maps without bias.

    Args:
        width: Features of a token.
        size: Features of keys and of values, all heads together.
        norm: Whether tokens are normalised here.
    """

    def __init__(self, width: int, size: int, norm: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.key = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[B, M, size]`` of ``tokens [B, M, width]``."""
        normal = self.norm(tokens)
        return self.key(normal), self.value(normal)


class Attention(nn.Module):
    """Multi-head attention softmax(Q Kᵀ / √d) V (eq. 13).

    Args:
        width: Features of a query.
        out: Features of the result.
        heads: H.
        size: Features of keys and of values, all heads together.
    """

    def __init__(self, width: int, out: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (size // heads) ** -0.5
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, size, bias=False)
        self.out = nn.Linear(size, out)

    def forward(
        self, state: Tensor, keys: Tensor, values: Tensor, blocked: Tensor | None = None
    ) -> Tensor:
        """Attend.

        Args:
            state: Queries, normalised here ``[B or 1, N, width]``.
            keys: ``[B, M, size]``.
            values: ``[B, M, size]``.
            blocked: Added to the scores ``[B, 1, 1, M]``, or None.

        Returns:
            ``[B, N, out]``.
        """
        query = split_heads(self.query(self.norm(state)) * self.scale, self.heads)
        key, value = split_heads(keys, self.heads), split_heads(values, self.heads)
        found = softmax_attention(query, key, value, blocked)
        return self.out(found.reshape(*found.shape[:2], -1))


class PaperLatents(LatentModel):
    """The three maps of eq. 5: encoder, processor, decoder.

    What the paper has no example of: several functions have keys and values of their own, and one
    softmax runs over the sensors of all. Scalars are channels of every sensor, as the 42 numbers of
    the shape in Elasticity; without functions they shift the inducing points.
    """

    def __init__(self, signature: Signature, columns: range, config: PaperIPOTConfig) -> None:
        super().__init__(signature, columns, config)
        self.count, width, size = config.points, config.width, config.cross_size
        self.latents = nn.Parameter(0.02 * torch.randn(1, config.points, width))
        scalars = signature.scalar_channels
        alone = scalars > 0 and not signature.functions
        self.scalars = nn.Linear(scalars, width) if alone else None
        places = {e.name: self._encoding(signature.axes_of(e)) for e in signature.functions}
        self.places = nn.ModuleDict(places)
        features = {e.name: e.channels + places[e.name].features for e in signature.functions}
        sensors = {name: KeysAndValues(scalars + own, size) for name, own in features.items()}
        self.sensors = nn.ModuleDict(sensors)
        self.encoder = Attention(width, width, config.cross_heads, size) if self.sensors else None
        self.encoder_feed_forward = GatedFeedForward(width, ENCODER_EXPANSION)
        self.processor = PaperProcessor(config)
        self.queries = self._encoding([signature.coordinates[i] for i in columns])
        self.meet = KeysAndValues(width, size)
        channels = signature.channels
        self.decoder = Attention(self.queries.features, channels, config.cross_heads, size)
        self.answer_feed_forward = None
        if config.as_published:
            self.answer_feed_forward = GatedFeedForward(channels, EXPANSION)

    def encode(self, inputs: Inputs) -> Tensor:
        """See :meth:`LatentModel.encode`."""
        shift = encode_scalars(self.scalars, self.signature, inputs)
        state: Any = self.latents if shift is None else self.latents + shift
        if self.encoder is not None:
            state = state + self.encoder(state, *self._context(inputs))
        if self.config.as_published:
            return state
        return state + self.encoder_feed_forward(state)

    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """Decode at queries: see :meth:`LatentModel.decode`.

        The result has the channels of the output and the query more, so that the skip connection of
        eq. 12 is not possible.
        """
        features = self.queries(take_columns(queries, self.columns))
        answer = self.decoder(features, *self.meet(state))
        if self.answer_feed_forward is None:
            return answer
        return 0.1 * (answer + self.answer_feed_forward(answer))

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the parameters that published code allocates without effect."""
        if not self.config.as_published:
            return {}
        found = {"latents.encoder_feed_forward.*": "allocated and never called, as published"}
        if self.signature.channels == 1:
            part = "latents.answer_feed_forward"
            found[f"{part}.norm.weight"] = "a layer norm over one channel gives its bias alone"
            found[f"{part}.into.weight"] = "multiplies that bias, which starts at zero"
        return found

    def _encoding(self, axes: Sequence[AxisSignature]) -> FourierFeatures:
        return FourierFeatures(axes, self.config.bands, self.config.resolutions)

    def _context(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values of all sensors, and what is added to the scores of masked ones."""
        found = []
        scalars = scalar_values(self.signature, inputs)
        for entry in self.signature.functions:
            samples = inputs[entry.name]
            alike = [v.expand(-1, samples.points.shape[1], -1) for v in scalars]
            places = self.places[entry.name](real_points(samples))
            tokens = torch.cat([standardised(entry, samples), *alike, places], -1)
            found.append(self.sensors[entry.name](tokens))
        keys, values = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        blocked = joint_masked_scores([inputs[e.name] for e in self.signature.functions])
        return keys, values, blocked


class PaperProcessor(nn.Module):
    """One self-attention block on the latents (eq. 12).

    Args:
        config: Sizes.
    """

    def __init__(self, config: PaperIPOTConfig) -> None:
        super().__init__()
        width = config.width
        self.raw = config.as_published
        self.attend = Attention(width, width, config.heads, width)
        self.tokens = KeysAndValues(width, width, norm=False)
        self.feed_forward = GatedFeedForward(width, EXPANSION)

    def forward(self, state: Tensor) -> Tensor:
        """Update the latents ``[B, points, width]``; one layer norm serves Q, K and V."""
        tokens = state if self.raw else self.attend.norm(state)
        state = state + self.attend(state, *self.tokens(tokens))
        return state + self.feed_forward(state)


@final
class PaperIPOT(LatentBackbone):
    """The paper's IPOT for problems of one map; a time is a coordinate of the queries."""

    model = PaperLatents


@final
class PaperIPOTRollout(LatentRollout):
    """The paper's IPOT for trajectories: the latents advance, the decoder takes x (eq. 9)."""

    model = PaperLatents
