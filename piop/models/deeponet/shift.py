"""Shift-DeepONet: a DeepONet whose trunk moves and stretches with the input.

S. Lanthaler, R. Molinaro, P. Hadorn, S. Mishra, *Nonlinear reconstruction for operator learning of
PDEs with discontinuities*, ICLR 2023, arXiv:2210.01074, sec. 2:
G[a](y) = Σ_k β_k(a) τ_k(A_k(a) y + γ_k(a)). Fixed basis functions need ever more terms for a front
that moves; these follow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.base import Signature
from piop.models.core.coordinates import angles
from piop.models.deeponet.network import BranchAndTrunk, DeepONetConfig, layers_of


@dataclass(frozen=True)
class ShiftDeepONetConfig(DeepONetConfig):
    """Sizes of a shift-DeepONet, all dimensionless.

    Attributes:
        width: Features of a hidden layer.
        layers: Linear layers of each of the four networks.
        latent: p, products summed for each channel of the answer.
        frequencies: Harmonics of each periodic coordinate that the trunk reads.
        frames: Coordinate systems, each with a scale and a shift of its own, among which the
            products are split evenly. In the paper each product has its own: ``latent`` of them,
            and the trunk is evaluated in every one.
    """

    width: int = 64
    latent: int = 64
    frames: int = 4

    def __post_init__(self) -> None:
        if self.latent % self.frames:
            raise UsageError(f"frames = {self.frames}: give a divisor of latent = {self.latent}")


@final
class ShiftDeepONet(BranchAndTrunk):
    """G[a](y) = Σ_k b_k(a) t_k(A_f(a) y + s_f(a)) + b_0, f being the frame of product k.

    A is the identity plus what a network of the input gives. Coordinates that are not periodic run
    from −1 to 1 and are mixed by A. A periodic one is an angle: it is shifted, also in proportion
    to the others, as a travelling wave is, but never stretched, which would break the period; its
    scale goes to its harmonics, so that the trunk sees them steeper.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: ShiftDeepONetConfig) -> None:
        super().__init__(signature, config)
        self.frames = config.frames
        axes = signature.coordinates
        self.straight = [i for i, axis in enumerate(axes) if not axis.periodic]
        self.round = [i for i, axis in enumerate(axes) if axis.periodic]
        read, hidden = self.sensors.features, self.hidden
        self.branch = layers_of([read, *hidden, self.outputs])
        self.trunk = layers_of([self.coordinates.features, *hidden, self.outputs])
        self.bias = nn.Parameter(torch.zeros(signature.channels))
        mixed = len(axes) * len(self.straight)
        self.scale = layers_of([read, *hidden, self.frames * (mixed + len(self.round))])
        self.shift = layers_of([read, *hidden, self.frames * len(axes)])

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        read = self.sensors(inputs, queries)
        trunk = self._moved(queries, applied(self.scale, read), applied(self.shift, read))
        for layer in self.trunk[:-1]:
            trunk = torch.tanh(layer(trunk))
        # Each frame gives its own share of the products.
        split = (self.signature.channels, self.frames, -1)
        last: nn.Linear = self.trunk[-1]  # type: ignore[assignment]
        products = torch.einsum("bnfw,cfkw->bncfk", trunk, last.weight.unflatten(0, split))
        products = torch.tanh(products + last.bias.unflatten(0, split))
        branch = applied(self.branch, read).unflatten(-1, split)
        return (products * branch[:, None]).sum(-1).sum(-1) + self.bias

    def _moved(self, queries: Any, scale: Tensor, shift: Tensor) -> Any:
        """Coordinates as the trunk reads them, in each frame.

        Args:
            queries: ``[B, N, D]``.
            scale: What is added to the identity: A of the D coordinates by those that are not
                periodic, then the steepness of periodic ones ``[B, F (D n + D − n)]``.
            shift: s ``[B, F D]``.

        Returns:
            ``[B, N, F, features]``.
        """
        axes, count, frames = self.signature.coordinates, len(self.straight), self.frames
        mixing, steepness = scale.split([frames * len(axes) * count, frames * len(self.round)], -1)
        moved = shift.unflatten(-1, (len(axes), frames))[:, None]
        if count:
            straight = torch.cat([self._straightened(queries, i) for i in self.straight], -1)
            matrix = mixing.unflatten(-1, (count, len(axes) * frames))
            moved = (straight @ matrix).unflatten(-1, (len(axes), frames)) + moved
        columns = []
        for i, axis in enumerate(axes):
            place = moved[..., i, :]  # [B, N, F]
            if not axis.periodic:
                columns.append((place + self._straightened(queries, i))[..., None])
                continue
            phase = (place + angles(queries[..., i : i + 1], [axis]))[..., None]
            rates = torch.arange(1, self.config.frequencies + 1).to(shift)
            steep = 1 + steepness.unflatten(-1, (frames, -1))[:, None, :, self.round.index(i), None]
            columns += [steep * torch.cos(phase * rates), steep * torch.sin(phase * rates)]
        return torch.cat(columns, -1)

    def _straightened(self, queries: Any, column: int) -> Any:
        """Let a coordinate run from −1 to 1 ``[B, N, 1]``."""
        axis = self.signature.coordinates[column]
        place = queries[..., column : column + 1] - axis.low
        return place * (2 / (axis.high - axis.low)) - 1


def applied(layers: nn.ModuleList, state: Tensor) -> Tensor:
    """Apply linear layers with tanh between them."""
    for layer in layers[:-1]:
        state = torch.tanh(layer(state))
    return layers[-1](state)
