"""OFormer with its latent propagator: encode once, then step every point's state by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.base import Signature
from piop.models.march import Marching, no_march
from piop.models.oformer.attention import FeedForward
from piop.models.oformer.cross import QueryEncoder, Readout
from piop.models.oformer.functions import OFormerConfig


@final
class OFormerMarch(Marching):
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
        return no_march(signature)

    def meets(self, sensors: Mapping[str, int]) -> int:
        """Count one: tokens are summed before points read them (see :meth:`Backbone.meets`)."""
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
