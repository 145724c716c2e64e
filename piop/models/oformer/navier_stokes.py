"""The network of the paper's Navier–Stokes benchmark: the latent marches in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.base import Signature
from piop.models.march import Marching, no_march
from piop.models.oformer.nodes import Nodes
from piop.models.oformer.published import Published, PublishedConfig, dense, space_of
from piop.models.oformer.rotary import unit


@final
class NavierStokesOFormer(Published, Marching):
    """The network for the Navier–Stokes equations: past frames are channels of the input.

    Args:
        signature: The problem's shapes and scales, time first.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: PublishedConfig) -> None:
        super().__init__(signature, config, space_of(signature))
        width, latent = config.width, config.latent
        wide = 2 * latent
        self.embed = nn.Linear(self.reader.values + len(self.reader.axes), width, bias=False)
        self.out = nn.Linear(width, latent, bias=False)
        self.place = nn.Sequential(self.random(latent), *dense(wide, wide, latent))
        self.expand = nn.Linear(latent, wide)
        self.norm = nn.LayerNorm(wide)
        self.first = nn.Linear(wide, wide, bias=False)
        self.here = nn.Linear(len(self.columns), wide, bias=False)
        self.rest = nn.Sequential(nn.GELU(), *dense(wide, wide, wide))
        self.decoder = nn.Sequential(
            nn.LayerNorm(wide), *dense(wide, latent, latent, signature.channels, bias=True)
        )

    @classmethod
    def refusal(cls, signature: Signature, config: PublishedConfig) -> str | None:
        """See :meth:`Backbone.refusal`."""
        return no_march(signature) or super().refusal(signature, config)

    def tokens(self, nodes: Nodes) -> Tensor:
        """See :meth:`Published.tokens`."""
        return self.embed(torch.cat([nodes.values, nodes.places], -1))

    def project(self, tokens: Tensor, embedded: Tensor) -> Tensor:
        """See :meth:`Published.project`."""
        return self.out(tokens)

    def starts(self, inputs: Mapping[str, FunctionSamples], queries: Any) -> Any:
        """See :meth:`Published.starts`."""
        return self.place(self.read(queries))

    def begin(self, inputs: Mapping[str, FunctionSamples], places: Tensor) -> tuple[Tensor, Any]:
        """See :meth:`Marching.begin`; the coordinates' share of each step is computed once."""
        axes = [self.signature.coordinates[i] for i in self.columns]
        return self.expand(self.encode(inputs, places)), self.here(unit(self.read(places), axes))

    def advance(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.advance`."""
        return state + self.rest(self.first(self.norm(state)) + known)

    def decode(self, state: Tensor, known: Any) -> Tensor:
        """See :meth:`Marching.decode`."""
        return self.decoder(state)
