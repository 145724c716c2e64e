"""OFormer with point queries in time and space, and with its latent propagator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Signature
from piop.models.core.rollout import TimeStepper, no_rollout
from piop.models.oformer.attention import FeedForward
from piop.models.oformer.cross_attention import QueryEncoder, Readout
from piop.models.oformer.input_encoder import OFormerConfig


@final
class OFormer(Backbone):
    """The default OFormer.

    Time is a coordinate of the queries. Where it leaves the paper, and why (measured results are in
    ``docs/backbones.md``):

    - Position is relative along homogeneous axes, and all frequencies of periodic axes are integer,
      of the rotary embedding too: exactly periodic, and one function teaches all its shifts.
    - Smooth inputs are read off a lattice, so that the attention's sum is that of an even grid.
    - Several layers of cross-attention in place of one. They are cheap: tokens are summed once per
      function, and streams meet matrices of the size of a head.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature)
        self.config = config
        width = config.width
        self.encoder = QueryEncoder(signature, config)
        self.decoder = Readout(width, signature.channels)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.decoder(self.encoder(inputs, queries))


@final
class OFormerMarch(TimeStepper):
    """The default OFormer with the latent propagator z ← z + N(z) of the paper's sec. 3.2.

    The propagator is the gated feed-forward network after a layer norm. It is told no coordinates,
    since the state has read all that count.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: OFormerConfig) -> None:
        super().__init__(signature)
        self.config = config
        width = config.width
        self.encoder = QueryEncoder(signature, config, timeless=True)
        self.norm = nn.LayerNorm(width)
        self.propagator = FeedForward(width, width)
        self.decoder = Readout(width, signature.channels)

    @classmethod
    def refusal(cls, signature: Signature, config: OFormerConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return no_rollout(signature)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one: tokens are summed beforehand (:meth:`Backbone.context_length`)."""
        return 1

    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`Marching.begin`."""
        self.check(inputs, places)
        return self.encoder(inputs, places), None

    def advance(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.advance`."""
        return state + self.propagator(self.norm(state))

    def decode(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.decode`."""
        return self.decoder(state)
