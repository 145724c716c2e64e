"""IPOT: a few inducing points read the input, exchange what they know, and answer any query.

After S. Lee, T. Oh, *Inducing Point Operator Transformer*, AAAI 2024 (arXiv:2312.10975). Their
network is in ``ipot_paper.py``; this one gives each inducing point a place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Signature
from piop.models.core.rollout import LatentRollout
from piop.models.ipot.layers import (
    InducingDecoder,
    InducingEncoder,
    InducingGrid,
    InducingProcessor,
    IPOTConfig,
)


@dataclass(frozen=True)
class IPOTRolloutConfig(IPOTConfig):
    """The same, stepping through time.

    Attributes:
        steps: Steps from the start to the end of the time, one pass of the processor each.
    """

    steps: int = 32


class InducingPoints(nn.Module):
    """Encoder, processor and decoder (eq. 5) of inducing points that have places.

    Args:
        signature: The problem's shapes and scales.
        asked: Columns of the queries that the decoder is given.
        config: Sizes.
    """

    def __init__(self, signature: Signature, asked: Sequence[int], config: IPOTConfig) -> None:
        super().__init__()
        self.lattice = InducingGrid(signature, config)
        self.encoder = InducingEncoder(signature, self.lattice, config)
        self.processor = InducingProcessor(self.lattice, config)
        self.decoder = InducingDecoder(signature, self.lattice, asked, config)
        self.depth = config.depth

    @property
    def count(self) -> int:
        """P, inducing points."""
        return self.lattice.count

    def encode(self, inputs: Mapping[str, FunctionSamples]) -> Tensor:
        """Read the inputs: ``[B or 1, P, width]``."""
        return self.encoder(inputs)

    def process(self, state: Tensor) -> Tensor:
        """Let the inducing points tell each other what they know, by one block ``depth`` times."""
        for _ in range(self.depth):
            state = self.processor(state)
        return state

    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """Answer ``queries [B or 1, N, asked]``: ``[B, N, C]``."""
        return self.decoder(state, queries)

    def unused_parameters(self) -> dict[str, str]:
        """Name what softmax takes out where keys have no position."""
        if self.lattice.columns:
            return {}
        reason = "adds the same to all scores of a query"
        parts = ("processor.attention", "decoder.blocks.*.attention")
        return {f"latents.{part}.key.bias": reason for part in parts}


@final
class IPOT(Backbone):
    """The default IPOT, asked at the time as at any coordinate.

    Where it leaves the paper:

    - An inducing point has a place, and nothing else tells it from its neighbours; attention knows
      position by differences (:class:`RelativeAttention`). So one function teaches its shifts by
      whole steps of the lattice.
    - It starts from the input as seen from there (:class:`HarmonicView`), and attends to slopes and
      antiderivatives besides values (:class:`Sensors`).
    - A query looks at the inducing points by softmax attention and by harmonics as well
      (:class:`LatentView`).
    - The decoder has a width of its own and residual blocks, where the paper's projects straight
      to the answer; without layer norm, which would cost every stream two sums.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: IPOTConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.latents = InducingPoints(signature, range(len(signature.coordinates)), config)

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.latents.decode(self.latents.process(self.latents.encode(inputs)), queries)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the inducing points: see :meth:`Backbone.context_length`."""
        return self.latents.count

    def unused_parameters(self) -> Mapping[str, str]:
        """Name what softmax takes out: see :meth:`Backbone.unused_parameters`."""
        return self.latents.unused_parameters()


@final
class IPOTRollout(LatentRollout):
    """The default IPOT stepping through time (eq. 9): one pass of the processor is one step.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: IPOTRolloutConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.latents = InducingPoints(signature, range(1, len(signature.coordinates)), config)
