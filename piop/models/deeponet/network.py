"""DeepONet: a branch reads the input, a trunk the query, and they meet in a product.

L. Lu, P. Jin, G. Pang, Z. Zhang, G. E. Karniadakis, *Learning nonlinear operators via DeepONet
based on the universal approximation theorem of operators*, Nature Machine Intelligence 3 (2021),
doi:10.1038/s42256-021-00302-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Backbone, Signature
from piop.models.core.sensors import FixedSensors, TrunkCoordinates, glorot, paired


@dataclass(frozen=True)
class DeepONetConfig:
    """Sizes of a DeepONet, all dimensionless.

    Attributes:
        width: Features of a hidden layer.
        layers: Linear layers of the branch, and of the trunk.
        latent: p, products summed for each channel of the answer.
        frequencies: Harmonics of each periodic coordinate that the trunk reads.
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
does not state those of its comparison. Theirs reads 101 sensors; ours as many as resolve the law.
"""


class BranchAndTrunk(Backbone):
    """What all DeepONets read: inputs at fixed sensors, and the coordinates of a query.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature)
        self.config = config
        self.outputs = config.latent * signature.channels
        self.hidden = [config.width] * (config.layers - 1)
        self.sensors = FixedSensors(signature)
        self.coordinates = TrunkCoordinates(signature.coordinates, config.frequencies)

    def context_length(self, sensors: Mapping[str, int]) -> int:
        """Count one: the branch has read all sensors (see :meth:`Backbone.context_length`)."""
        return 1


@final
class DeepONet(BranchAndTrunk):
    """G[a](y) = Σ_k b_k(a) t_k(y) + b_0: unstacked, tanh, also after the trunk's last layer.

    Several inputs are read side by side by one branch, scalars as further sensors. Several channels
    share both networks up to the last layer, whose outputs are split among them. Queries that all
    functions share pass the trunk once.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.branch = layers_of([self.sensors.features, *self.hidden, self.outputs])
        self.trunk = layers_of([self.coordinates.features, *self.hidden, self.outputs])
        self.bias = nn.Parameter(torch.zeros(signature.channels))

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        branch = self.sensors(inputs, queries)
        for layer in self.branch[:-1]:
            branch = torch.tanh(layer(branch))
        trunk = self.coordinates(queries)
        for layer in self.trunk:
            trunk = torch.tanh(layer(trunk))
        return paired(trunk, self.branch[-1](branch), self.signature.channels) + self.bias


def layers_of(sizes: list[int]) -> nn.ModuleList:
    """Make linear layers between consecutive sizes."""
    return nn.ModuleList(glorot(a, b) for a, b in pairwise(sizes))
