"""Layers of Fourier neural operators, and the choices among their published forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from piop.errors import UsageError
from piop.models.core.spectral import SpectralConvolution, Transform

ACTIVATIONS = {"gelu": functional.gelu, "relu": functional.relu, "tanh": torch.tanh}

FORMS = ("plain", "inner", "outer")


@dataclass(frozen=True)
class FNOConfig:
    """Sizes and choices of a Fourier neural operator, all dimensionless.

    Attributes:
        width: Channels of the hidden functions.
        blocks: Fourier layers.
        modes: Wave numbers kept along each axis of space, −modes … modes − 1, on the last axis
            0 … modes − 1; 0 for 12, 6, 4 in one, two, three dimensions.
        time_modes: The same along the time.
        form: ``plain``, layers of the paper: activation of convolution plus linear map. ``inner``:
            a perceptron after each convolution, as in the authors' code of 2022. ``outer``: a
            perceptron of half the width around each layer, beside a gated skip; lifting by a
            perceptron; and the wave number ``modes`` itself on the last axis: ``neuraloperator``.
        projection: Hidden features of the last perceptron.
        padding: Length added to axes that are not periodic, as a share of theirs, where hidden
            functions are zero. With 0 all points are taken for those of a period, as published:
            quicker, but another operator on every grid.
        raw: Coordinates from 0 to 1 along all axes, as published, in place of harmonics round a
            period, and of none along axes where position does not matter.
        activation: ``gelu``, ``relu`` or ``tanh``.
        unused_norms: Keep the scale and shift of the batch norms that published code allocates and
            never applies, for its count of parameters.
    """

    width: int = 16
    blocks: int = 3
    modes: int = 0
    time_modes: int = 4
    form: str = "outer"
    projection: int = 64
    padding: float = 0.25
    raw: bool = False
    activation: str = "gelu"
    unused_norms: bool = False

    def __post_init__(self) -> None:
        for key, allowed in (("form", FORMS), ("activation", tuple(ACTIVATIONS))):
            if getattr(self, key) not in allowed:
                raise UsageError(f"{key} = {getattr(self, key)!r}: one of {', '.join(allowed)}")
        if self.padding < 0:
            raise UsageError(f"padding = {self.padding}: give a share of the axis, 0 or more")


class FourierBlock(nn.Module):
    """One layer: convolution plus linear map (eq. 2 of the paper), and the perceptron of its form.

    Args:
        modes: Kept along each axis, as :class:`Transform` counts them.
        config: Width, form and activation.
        last: Whether it is the last layer, which has no activation but that of its perceptron.
    """

    def __init__(self, modes: Sequence[int], config: FNOConfig, last: bool) -> None:
        super().__init__()
        width, self.form, self.last = config.width, config.form, last
        self.activate = ACTIVATIONS[config.activation]
        self.convolution = SpectralConvolution(width, width, modes)
        self.skip = nn.Linear(width, width)
        if self.form == "inner":
            self.mixing = Perceptron([width, width, width], config.activation)
        if self.form == "outer":
            self.mixing = Perceptron([width, round(width / 2), width], config.activation)
            self.gate = nn.Parameter(torch.ones(width))

    def forward(self, state: Tensor, transform: Transform) -> Tensor:
        """Apply it to ``[B, n_1, …, n_D, width]``."""
        found = self.convolution(state, transform)
        if self.form == "inner":
            found = self.mixing(found)
        found = self._active(found + self.skip(state))
        if self.form == "outer":
            found = self._active(self.mixing(found) + self.gate * state)
        return found

    def _active(self, state: Tensor) -> Tensor:
        return state if self.last else self.activate(state)


class Perceptron(nn.Module):
    """Linear layers with an activation between them, applied at every point.

    Args:
        sizes: Features in, between, and out.
        activation: A key of ``ACTIVATIONS``.
    """

    def __init__(self, sizes: Sequence[int], activation: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.activate = ACTIVATIONS[activation]

    def forward(self, state: Tensor) -> Tensor:
        """Apply it to ``[…, features]``."""
        for layer in self.layers[:-1]:
            state = self.activate(layer(state))
        return self.layers[-1](state)


class ChannelScale(nn.Module):
    """Scale and shift of a batch norm that is allocated and never applied.

    Args:
        width: Channels.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))


def keep_variance(module: nn.Module) -> None:
    """Draw a linear map by Glorot & Bengio 2010, so that layers neither damp nor amplify.

    Published networks keep torch's usual draw. With that of He et al. 2015, made for one layer
    after the other, what skips and gates add makes a network of four blocks grow.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_normal_(module.weight)
        nn.init.zeros_(module.bias)
