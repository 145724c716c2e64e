"""Decoders of the Galerkin transformer: by spectral convolutions, or at every point alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.models.core.spectral import SpectralConvolution, Transform

LAYERS = 2
"""Spectral convolutions of a decoder, in all examples of the paper."""


class SpectralLayer(nn.Module):
    """SiLU of a spectral convolution plus a linear map: a layer of an FNO without batch norm.

    Args:
        inputs: Channels in.
        outputs: Channels out.
        modes: Wave numbers along each axis, as :class:`Transform` counts them.
    """

    def __init__(self, inputs: int, outputs: int, modes: tuple[int, ...]) -> None:
        super().__init__()
        self.convolution = SpectralConvolution(inputs, outputs, modes)
        self.skip = nn.Linear(inputs, outputs)

    def forward(self, state: Tensor, transform: Transform | None) -> Tensor:
        """Apply it to ``[B, n_1, …, n_D, inputs]``."""
        return functional.silu(self.convolution(state, transform) + self.skip(state))


class SpectralDecoder(nn.Module):
    """Smooths on its way to the answer, for smooth solutions (paper, sec. 4 and Table 5).

    Args:
        width: d, channels in.
        latent: Channels of the convolutions.
        places: Coordinates that join the channels before a linear map to ``latent``; with 0 the
            first convolution maps from d.
        modes: Wave numbers along each axis, as :class:`Transform` counts them.
        projection: Hidden features of the last perceptron.
        channels: C.
    """

    def __init__(
        self,
        width: int,
        latent: int,
        places: int,
        modes: tuple[int, ...],
        projection: int,
        channels: int,
    ) -> None:
        super().__init__()
        self.entry = nn.Linear(width + places, latent) if places else None
        first = latent if places else width
        self.layers = nn.ModuleList(
            SpectralLayer(latent if i else first, latent, modes) for i in range(LAYERS)
        )
        self.hidden, self.out = nn.Linear(latent, projection), nn.Linear(projection, channels)

    def forward(self, state: Tensor, places: Tensor, transform: Transform | None = None) -> Tensor:
        """Decode.

        Args:
            state: ``[B, n_1, …, n_D, width]``.
            places: Coordinates as features ``[1 or B, n_1, …, n_D, p]``.
            transform: That of the grid; by default of a period along every axis.

        Returns:
            ``[B, n_1, …, n_D, channels]``.
        """
        if self.entry is not None:
            state = self.entry(joined(state, places))
        for layer in self.layers:
            state = layer(state, transform)
        return self.out(functional.silu(self.hidden(state)))


class PointDecoder(nn.Module):
    """A perceptron at every point, for solutions with jumps (paper, sec. 4 and ex. 5.3).

    Args:
        width: d.
        places: Coordinates that join the channels before a linear map; 0 for neither.
        channels: C.
    """

    def __init__(self, width: int, places: int, channels: int) -> None:
        super().__init__()
        self.entry = nn.Linear(width + places, width) if places else None
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, channels)

    def forward(self, state: Tensor, places: Tensor, transform: Transform | None = None) -> Tensor:
        """Decode: arguments as of :meth:`SpectralDecoder.forward`."""
        if self.entry is not None:
            state = self.entry(joined(state, places))
        return self.out(functional.silu(self.hidden(state)))


def joined(state: Tensor, places: Tensor) -> Tensor:
    """Put coordinates beside features: ``[B, …, p + c]``."""
    return torch.cat([places.expand(len(state), *places.shape[1:]), state], -1)
