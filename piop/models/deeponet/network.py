"""DeepONet: a branch encodes the input, a trunk the query, and their product is the output.

L. Lu, P. Jin, G. Pang, Z. Zhang, G. E. Karniadakis, *Learning nonlinear operators via DeepONet
based on the universal approximation theorem of operators*, Nature Machine Intelligence 3 (2021),
doi:10.1038/s42256-021-00302-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.models.core.base import AxisSignature, Backbone, Inputs, Signature, scalar_values
from piop.models.core.coordinates import angles
from piop.models.core.grid import InputInterpolator


class FixedSensors(InputInterpolator):
    """Interpolates every input to fixed sensors, since a branch has one weight per sensor.

    The sensors are the points of an even grid. Given sensors that resolve the input well, the
    values do not depend on where those are.

    Args:
        signature: The problem's shapes and scales.

    Attributes:
        features: Numbers per sample: fixed sensors times channels, and the scalars.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        counts = [self.fit(e).token_count * e.channels for e in signature.functions]
        self.features = sum(counts) + signature.scalar_channels or 1

    def forward(self, inputs: Inputs, like: Tensor) -> Tensor:
        """Interpolate the inputs.

        Args:
            inputs: Sensors of B samples.
            like: A tensor of the device and dtype wanted where there are no inputs.

        Returns:
            ``[B, features]``, standardised; a one ``[1, 1]`` for a problem without inputs.
        """
        columns = []
        for entry in self.signature.functions:
            samples = inputs[entry.name]
            points = self.fit(entry).token_grid(samples.points)
            columns.append(self.interpolate(entry, samples, points).flatten(1))
        columns += [values[:, 0] for values in scalar_values(self.signature, inputs)]
        if not columns:
            return torch.ones(1, 1, dtype=like.dtype, device=like.device)
        return torch.cat(columns, -1)


@dataclass(frozen=True)
class TrunkCoordinates:
    """Features of a trunk: harmonics along periodic axes, coordinates from −1 to 1 along others.

    With harmonics the output is periodic for any weights (Lu et al. 2021, SIAM J. Sci. Comput. 43,
    sec. on periodic conditions, doi:10.1137/21M1397908). Where periodicity is a soft constraint
    instead, as in Wang et al. 2021, the axis is not declared periodic and enters as it is.

    Attributes:
        axes: The coordinates.
        frequencies: Harmonics of a periodic axis.
    """

    axes: tuple[AxisSignature, ...]
    frequencies: int

    @property
    def features(self) -> int:
        """Numbers per query."""
        return sum(2 * self.frequencies if axis.periodic else 1 for axis in self.axes)

    def __call__(self, queries: Tensor) -> Tensor:
        """Encode ``queries [B, N, D]``: ``[B, N, features]``, dimensionless."""
        columns, count = [], self.frequencies
        rates = torch.arange(1, count + 1, dtype=queries.dtype, device=queries.device)
        for i, axis in enumerate(self.axes):
            column = queries[..., i : i + 1]
            if axis.periodic:
                phase = angles(column, [axis]) * rates
                columns += [torch.cos(phase), torch.sin(phase)]
            else:
                columns.append(centred(column, axis))
        return torch.cat(columns, -1)


def centred(column: Any, axis: AxisSignature) -> Any:
    """Scale a coordinate so that its axis runs from −1 to 1."""
    return (column - axis.low) * (2 / (axis.high - axis.low)) - 1


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """Make a layer with Glorot's normal weights and zero bias, as in both papers' code."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def branch_trunk_product(trunk: Tensor, branch: Tensor, channels: int) -> Tensor:
    """Sum trunk times branch over the latent of each channel.

    Args:
        trunk: ``[B, N, C p]``, or ``[1, N, C p]`` for queries that all functions share.
        branch: ``[B, C p]``, or ``[1, C p]`` where there are no inputs.
        channels: C; the latent is split among them.

    Returns:
        ``[B, N, C]``.
    """
    split = (channels, branch.shape[-1] // channels)
    t, b = trunk.unflatten(-1, split), branch.unflatten(-1, split)
    if t.shape[0] == 1:
        return torch.einsum("nck,bck->bnc", t.squeeze(0), b)
    return torch.einsum("bnck,bck->bnc", t, b.expand(t.shape[0], -1, -1))


@dataclass(frozen=True)
class DeepONetConfig:
    """Sizes of a DeepONet, all dimensionless.

    Attributes:
        width: Features of a hidden layer.
        layers: Linear layers of the branch, and of the trunk.
        latent: p, products summed for each channel of the output.
        frequencies: Harmonics of each periodic coordinate in the trunk.
    """

    width: int = 128
    layers: int = 4
    latent: int = 128
    frequencies: int = 4


PAPER = DeepONetConfig(width=100, layers=7, latent=100, frequencies=1)
"""Sizes of S. Wang, H. Wang, P. Perdikaris, *Learning the solution operator of parametric partial
differential equations with physics-informed DeepONets*, Science Advances 7 (2021),
arXiv:2103.10974, for Burgers' equation: branch and trunk of seven layers of 100, tanh, Glorot
(github.com/PredictiveIntelligenceLab/Physics-informed-DeepONets, revision 54a554b); the PIT paper
does not state those of its comparison. Theirs has 101 sensors; ours as many as resolve the inputs.
"""


class BranchAndTrunk(Backbone):
    """Inputs at fixed sensors and coordinates of a query, which all DeepONets share.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.outputs = config.latent * signature.channels
        self.hidden = [config.width] * (config.layers - 1)
        self.sensors = FixedSensors(signature)
        self.coordinates = TrunkCoordinates(signature.coordinates, config.frequencies)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Return one, as the branch encodes all sensors: :meth:`Backbone.context_length`."""
        return 1


@final
class DeepONet(BranchAndTrunk):
    """G[a](y) = Σ_k b_k(a) t_k(y) + b_0: unstacked, tanh, also after the trunk's last layer.

    Several inputs are concatenated in one branch, scalars as further sensors. Several channels
    share both networks up to the last layer, whose outputs are split among them. Queries shared by
    all samples pass the trunk once.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.branch = glorot_layers([self.sensors.features, *self.hidden, self.outputs])
        self.trunk = glorot_layers([self.coordinates.features, *self.hidden, self.outputs])
        self.bias = nn.Parameter(torch.zeros(signature.channels))

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        branch = apply_layers(self.branch, self.sensors(inputs, queries))
        trunk = torch.tanh(apply_layers(self.trunk, self.coordinates(queries)))
        return branch_trunk_product(trunk, branch, self.signature.channels) + self.bias


def glorot_layers(sizes: list[int]) -> nn.ModuleList:
    """Make linear layers between consecutive sizes."""
    return nn.ModuleList(glorot_linear(a, b) for a, b in pairwise(sizes))


def apply_layers(layers: nn.ModuleList, state: Any) -> Any:
    """Apply linear layers with tanh between them."""
    for layer in layers[:-1]:
        state = torch.tanh(layer(state))
    return layers[-1](state)
