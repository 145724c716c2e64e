"""The default OFormer: queries in time and space, each answered by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from torch import Tensor

from piop.fields import FunctionSamples
from piop.models.base import Backbone, Signature
from piop.models.oformer.cross import QueryEncoder, Readout
from piop.models.oformer.functions import OFormerConfig


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

    def meets(self, sensors: Mapping[str, int]) -> int:
        """Count one: tokens are summed before queries read them (see :meth:`Backbone.meets`)."""
        return 1

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        return self.decoder(self.encoder(inputs, queries))
