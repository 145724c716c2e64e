"""The network of the IPOT paper, in its text's form and in its code's.

S. Lee, T. Oh, *Inducing Point Operator Transformer*, AAAI 2024 (arXiv:2312.10975),
eqs. 5-9 and Table 5; github.com/7tl7qns7ch/IPOT, revision 18c1778.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.attention import MASKED_SCORE
from piop.models.core.base import AxisSignature, Inputs, Signature, scalar_values, standardised
from piop.models.core.coordinates import take_columns
from piop.models.ipot.network import LatentBackbone, LatentModel, LatentRollout
from piop.models.ipot.paper_layers import (
    Attention,
    FourierFeatures,
    GatedFeedForward,
    KeysAndValues,
)

ENCODER_EXPANSION = 4
"""Hidden over outer width of the encoder's feed-forward, as in the code, against its setting."""

EXPANSION = 2
"""The same in the processor, and on the channels of the output."""


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
    """The same, with steps in time (eq. 9).

    Attributes:
        steps: Steps over the time axis, one pass of the processor each.
    """

    steps: int = 40


class PaperLatents(LatentModel):
    """The three maps of eq. 5: encoder, processor, decoder.

    What the paper has no example of: several functions have keys and values of their own, and one
    softmax runs over the sensors of all. Scalars are channels of every sensor, as the 42 numbers of
    the shape in Elasticity; without functions they shift the inducing points.

    Args:
        signature: The problem's shapes and scales.
        columns: Coordinates that the output depends on; a rollout leaves the time out.
        config: Sizes.
    """

    def __init__(self, signature: Signature, columns: range, config: PaperIPOTConfig) -> None:
        super().__init__()
        self.signature, self.config, self.columns = signature, config, columns
        self.count, self.depth = config.points, config.depth
        width, size = config.width, config.cross_size
        self.latents = nn.Parameter(0.02 * torch.randn(1, config.points, width))
        scalars = signature.scalar_channels
        alone = scalars > 0 and not signature.functions
        self.scalars = nn.Linear(scalars, width) if alone else None
        encodings = {e.name: self._encoding(signature.axes_of(e)) for e in signature.functions}
        self.places = nn.ModuleDict(encodings)
        self.sensors = nn.ModuleDict(
            {
                e.name: KeysAndValues(e.channels + scalars + encodings[e.name].features, size)
                for e in signature.functions
            }
        )
        self.encoder = Attention(width, width, config.cross_heads, size) if self.sensors else None
        self.encoder_feed_forward = GatedFeedForward(width, ENCODER_EXPANSION)
        self.processor = PaperProcessor(config)
        self.queries = self._encoding([signature.coordinates[i] for i in columns])
        self.meet = KeysAndValues(width, size)
        channels = signature.channels
        self.decoder = Attention(self.queries.features, channels, config.cross_heads, size)
        self.answer_feed_forward = (
            GatedFeedForward(channels, EXPANSION) if config.as_published else None
        )

    def encode(self, inputs: Inputs) -> Tensor:
        """See :meth:`LatentModel.encode`."""
        state: Any = self.latents
        if self.scalars is not None:
            state = state + self.scalars(torch.cat(scalar_values(self.signature, inputs), -1))
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
        keys, values, blocked = [], [], []
        scalars = scalar_values(self.signature, inputs)
        for entry in self.signature.functions:
            samples, encode = inputs[entry.name], self.places[entry.name]
            points, added = samples.points, torch.zeros_like(samples.values[..., 0])
            if samples.mask is not None:
                points = points.masked_fill(~samples.mask[..., None], 0.0)
                added = added.masked_fill(~samples.mask, MASKED_SCORE)
            alike = [v.expand(-1, points.shape[1], -1) for v in scalars]
            tokens = torch.cat([standardised(entry, samples), *alike, encode(points)], -1)
            key, value = self.sensors[entry.name](tokens)
            keys.append(key)
            values.append(value)
            blocked.append(added)
        masked = any(inputs[e.name].mask is not None for e in self.signature.functions)
        return torch.cat(keys, 1), torch.cat(values, 1), torch.cat(blocked, 1) if masked else None


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
    """The paper's IPOT for problems of one map; a time is a coordinate of the queries.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PaperIPOTConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.latents = PaperLatents(signature, range(len(signature.coordinates)), config)


@final
class PaperIPOTRollout(LatentRollout):
    """The paper's IPOT for trajectories: the latents advance, the decoder takes x (eq. 9).

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PaperIPOTRolloutConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.latents = PaperLatents(signature, range(1, len(signature.coordinates)), config)
