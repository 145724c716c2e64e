"""IPOT: inducing points encode the input, exchange information, and are decoded at any query.

After S. Lee, T. Oh, *Inducing Point Operator Transformer*, AAAI 2024 (arXiv:2312.10975). Their
network is in ``published.py``; in this one each inducing point has a position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from piop.models.core.base import Backbone, Inputs, Signature
from piop.models.core.rollout import RolloutBackbone
from piop.models.ipot.layers import (
    InducingDecoder,
    InducingEncoder,
    InducingGrid,
    InducingProcessor,
    IPOTConfig,
)


class LatentModel(nn.Module, ABC):
    """Encoder, processor and decoder (eq. 5).

    Args:
        signature: The problem's shapes and scales.
        columns: Coordinates that the output depends on; a rollout leaves the time out.
        config: Sizes.

    Attributes:
        count: P, inducing points.
        depth: L, applications of the processor.
        processor: One block of self-attention among the inducing points.
    """

    count: int
    depth: int
    processor: nn.Module

    @abstractmethod
    def __init__(self, signature: Signature, columns: range, config: Any) -> None:
        super().__init__()

    @abstractmethod
    def encode(self, inputs: Inputs) -> Tensor:
        """Encode the inputs: ``[B or 1, P, width]`` (eq. 6)."""

    def process(self, state: Tensor) -> Tensor:
        """Exchange information among the inducing points, L times by one block (eq. 7)."""
        for _ in range(self.depth):
            state = self.processor(state)
        return state

    @abstractmethod
    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """Decode at ``queries [B or 1, N, D]``: ``[B, N, C]`` (eq. 8)."""

    def unused_parameters(self) -> Mapping[str, str]:
        """See :meth:`Backbone.unused_parameters`."""
        return {}


class LatentBackbone(Backbone):
    """A backbone that encodes, processes and decodes inducing points.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.

    Attributes:
        model: The class of encoder, processor and decoder.
        latents: Encoder, processor and decoder.
    """

    model: ClassVar[type[LatentModel]]

    def __init__(self, signature: Signature, config: Any) -> None:
        super().__init__(signature, config)
        columns = range(1 if self.field.rollout else 0, len(signature.coordinates))
        self.latents = self.model(signature, columns, config)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.latents.decode(self.latents.process(self.latents.encode(inputs)), queries)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count the inducing points: see :meth:`Backbone.context_length`."""
        return self.latents.count

    def unused_parameters(self) -> Mapping[str, str]:
        """See :meth:`LatentModel.unused_parameters`."""
        return self.latents.unused_parameters()


class LatentRollout(RolloutBackbone, LatentBackbone):
    """Inducing points that advance in time; a step is one pass of the processor (eqs. 5 and 9)."""

    def begin(self, inputs: Inputs, queries: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`RolloutBackbone.begin`."""
        self.check(inputs, queries)
        return self.latents.encode(inputs), queries

    def advance(self, state: Tensor, context: Tensor) -> Tensor:
        """See :meth:`RolloutBackbone.advance`."""
        return self.latents.process(state)

    def decode(self, state: Tensor, context: Tensor) -> Tensor:
        """See :meth:`RolloutBackbone.decode`."""
        return self.latents.decode(state, context)


class InducingPoints(LatentModel):
    """Encoder, processor and decoder of inducing points that have positions."""

    def __init__(self, signature: Signature, columns: range, config: IPOTConfig) -> None:
        super().__init__(signature, columns, config)
        self.grid = InducingGrid(signature, config)
        self.count, self.depth = self.grid.count, config.depth
        self.encoder = InducingEncoder(signature, self.grid, config)
        self.processor = InducingProcessor(self.grid, config)
        self.decoder = InducingDecoder(signature, self.grid, columns, config)

    def encode(self, inputs: Inputs) -> Tensor:
        """See :meth:`LatentModel.encode`."""
        return self.encoder(inputs)

    def decode(self, state: Tensor, queries: Tensor) -> Tensor:
        """See :meth:`LatentModel.decode`."""
        return self.decoder(state, queries)

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the biases that cancel in a softmax where keys have no position."""
        if self.grid.columns:
            return {}
        reason = "adds the same to all scores of a query"
        parts = ("processor.attention", "decoder.blocks.*.attention")
        return {f"latents.{part}.key.bias": reason for part in parts}


@final
class IPOT(LatentBackbone):
    """The default IPOT; the time is a coordinate of the queries.

    Where it leaves the paper:

    - An inducing point has a position, and nothing else distinguishes it from its neighbours;
      attention depends on differences of positions (:class:`RelativeAttention`). So one function
      teaches its shifts by whole steps of the grid.
    - Its state starts from harmonic cross-attention to the input (:class:`HarmonicCrossAttention`),
      and it attends to gradients and antiderivatives besides values (:class:`SensorEncoder`).
    - A query attends to the inducing points by softmax attention and by harmonics as well
      (:class:`HarmonicLatentAttention`).
    - The decoder has a width of its own and residual blocks, where the paper's maps directly to the
      output; without layer norm, which would cost every stream two sums.
    """

    model = InducingPoints


@dataclass(frozen=True)
class IPOTRolloutConfig(IPOTConfig):
    """The same, with steps in time.

    Attributes:
        steps: Steps over the time axis, one pass of the processor each.
    """

    steps: int = 32


@final
class IPOTRollout(LatentRollout):
    """The default IPOT as a rollout (eq. 9): one step is one pass of the processor."""

    model = InducingPoints
