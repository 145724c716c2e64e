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
from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, InputSignature, Signature, standardised
from piop.models.core.rollout import LatentRollout
from piop.models.ipot.attention import (
    MASKED_SCORE,
    Attention,
    FourierFeatures,
    GatedFeedForward,
    KeysAndValues,
)

ENCODER_EXPANSION = 4
"""Hidden over outer width of the encoder's feed-forward: the code's, whatever its setting says."""

EXPANSION = 2
"""The same in the processor, and on the answer's channels."""


@dataclass(frozen=True)
class PaperIPOTConfig:
    """Sizes of the paper's IPOT (Table 5), all dimensionless.

    Attributes:
        width: Latent channels d_z.
        points: n_z, inducing points.
        depth: L, how often the one processor block is applied.
        heads: Heads of the self-attention.
        cross_heads: Heads of both cross-attentions.
        cross_size: Features of their keys, all heads together.
        bands: Rates of the Fourier features of an axis.
        resolutions: Points per axis that the highest rate resolves.
        as_published: As the code has it, faults included: the encoder's feed-forward is allocated
            and never called; keys and values of the self-attention are not normalised; the answer
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
    """The same, stepping through time (eq. 9).

    Attributes:
        steps: Steps from the start to the end of the time, one pass of the processor each.
    """

    steps: int = 40


class PaperLatents(nn.Module):
    """The three maps of eq. 5: encoder, processor, decoder.

    What the paper has no example of: several functions have keys and values of their own, and one
    softmax runs over the sensors of all. Scalars are channels of every sensor, as the 42 numbers of
    the shape in Elasticity; without functions they shift the inducing points.

    Args:
        signature: The problem's shapes and scales.
        places: Indices of the coordinates that the decoder is asked at.
        config: Sizes.
    """

    def __init__(
        self, signature: Signature, places: Sequence[int], config: PaperIPOTConfig
    ) -> None:
        super().__init__()
        self.signature, self.config = signature, config
        width, size = config.width, config.cross_size
        self.latents = nn.Parameter(0.02 * torch.randn(1, config.points, width))
        scalars = sum(entry.channels for entry in signature.scalars)
        alone = scalars > 0 and not signature.functions
        self.scalars = nn.Linear(scalars, width) if alone else None
        self.places = nn.ModuleDict({e.name: self._features(e) for e in signature.functions})
        self.sensors = nn.ModuleDict(
            {
                e.name: KeysAndValues(e.channels + scalars + self.places[e.name].features, size)  # type: ignore[operator]
                for e in signature.functions
            }
        )
        self.encoder = Attention(width, width, config.cross_heads, size) if self.sensors else None
        self.encoder_feed_forward = GatedFeedForward(width, ENCODER_EXPANSION)
        self.processor = PaperProcessor(config)
        axes = [signature.coordinates[i] for i in places]
        self.queries = FourierFeatures(axes, config.bands, config.resolutions)
        self.meet = KeysAndValues(width, size)
        self.decoder = Attention(
            self.queries.features, signature.channels, config.cross_heads, size
        )
        self.answer_feed_forward = (
            GatedFeedForward(signature.channels, EXPANSION) if config.as_published else None
        )

    @property
    def count(self) -> int:
        """n_z, inducing points."""
        return self.config.points

    def encode(self, inputs: Mapping[str, FunctionSamples]) -> Tensor:
        """Eq. 6, the inducing points attend to the sensors: ``[B or 1, points, width]``."""
        state: Any = self.latents
        if self.scalars is not None:
            state = state + self.scalars(torch.cat(self._scalars(inputs), -1))
        if self.encoder is not None:
            state = state + self.encoder(state, *self._context(inputs))
        if self.config.as_published:
            return state
        return state + self.encoder_feed_forward(state)

    def process(self, state: Tensor) -> Tensor:
        """Eq. 7 for l = 0 … L - 1, one block L times ``[B, points, width]``."""
        for _ in range(self.config.depth):
            state = self.processor(state)
        return state

    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """Eq. 8, queries ``[B or 1, N, D]`` attend to the latents: ``[B, N, C]``.

        The result has the answer's channels and the query more, so eq. 12's skip cannot be there.
        """
        answer = self.decoder(self.queries(queries), *self.meet(state))
        if self.answer_feed_forward is None:
            return answer
        return 0.1 * (answer + self.answer_feed_forward(answer))

    def unused_parameters(self) -> dict[str, str]:
        """Name what no answer follows, and say why."""
        if not self.config.as_published:
            return {}
        found = {"latents.encoder_feed_forward.*": "allocated and never called, as published"}
        if self.signature.channels == 1:
            part = "latents.answer_feed_forward"
            found[f"{part}.norm.weight"] = "a layer norm over one channel gives its bias alone"
            found[f"{part}.into.weight"] = "reads that bias, which starts at zero"
        return found

    def _features(self, entry: InputSignature) -> FourierFeatures:
        axes = [self.signature.coordinates[self.signature.axis(name)] for name in entry.of]
        return FourierFeatures(axes, self.config.bands, self.config.resolutions)

    def _scalars(self, inputs: Mapping[str, FunctionSamples]) -> list[Tensor]:
        """Values of the scalars, ``[B, 1, c]`` each."""
        return [standardised(e, inputs[e.name])[:, :1] for e in self.signature.scalars]

    def _context(
        self, inputs: Mapping[str, FunctionSamples]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values of all sensors, and what blocks the masked ones."""
        keys, values, blocked, scalars = [], [], [], self._scalars(inputs)
        for entry in self.signature.functions:
            samples, features = inputs[entry.name], self.places[entry.name]
            points, gone = samples.points, torch.zeros_like(samples.values[..., 0])
            if samples.mask is not None:
                points = points.masked_fill(~samples.mask[..., None], 0.0)
                gone = gone.masked_fill(~samples.mask, MASKED_SCORE)
            alike = [v.expand(-1, points.shape[1], -1) for v in scalars]
            tokens = torch.cat([standardised(entry, samples), *alike, features(points)], -1)
            key, value = self.sensors[entry.name](tokens)
            keys.append(key)
            values.append(value)
            blocked.append(gone)
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
class PaperIPOT(Backbone):
    """The paper's IPOT for problems of one map: a time, where there is one, is asked at like x.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PaperIPOTConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.latents = PaperLatents(signature, range(len(signature.coordinates)), config)

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.latents.decode(self.latents.process(self.latents.encode(inputs)), queries)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the inducing points: see :meth:`Backbone.context_length`."""
        return self.latents.count

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the published dead weights: see :meth:`Backbone.unused_parameters`."""
        return self.latents.unused_parameters()


@final
class PaperIPOTRollout(LatentRollout):
    """The paper's IPOT for trajectories: the latents step, the decoder is asked at x (eq. 9).

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PaperIPOTRolloutConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.latents = PaperLatents(signature, range(1, len(signature.coordinates)), config)
