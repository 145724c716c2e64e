"""DeepONet: a branch encodes the input, a trunk the query, and their product is the output.

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
from piop.models.core.base import AxisSignature, Backbone, InputSignature, Signature, standardised
from piop.models.core.coordinates import angles
from piop.models.core.harmonic_fit import HarmonicFit
from piop.models.core.interpolation import nearest_values


class FixedSensors(nn.Module):
    """Reads every input on a lattice laid when the network is built: a branch has no other sensors.

    A DeepONet's first layer has one weight per sensor, so its sensors are fixed for good. Any given
    sensors are interpolated to them: a smooth input by its harmonic fit (:class:`HarmonicFit`), an
    input with jumps by the nearest sensor. Given sensors that resolve the input well, the values do
    not depend on where those are.

    Args:
        signature: The problem's shapes and scales.

    Attributes:
        features: Numbers read of one function: lattice points times channels, and the scalars.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature
        self.fits = nn.ModuleDict(
            {
                entry.name: HarmonicFit(
                    entry, [signature.coordinates[signature.axis(n)] for n in entry.of]
                )
                for entry in signature.functions
            }
        )
        counts = [self._lattice(e).shape[1] * e.channels for e in signature.functions]
        counts += [entry.channels for entry in signature.scalars]
        self.features = sum(counts) or 1

    def forward(self, inputs: Mapping[str, FunctionSamples], like: Tensor) -> Tensor:
        """Read the inputs.

        Args:
            inputs: Sensors of B functions.
            like: A tensor of the device and dtype wanted where there are no inputs.

        Returns:
            ``[B, features]``, standardised; a one ``[1, 1]`` for a problem without inputs.
        """
        columns = [self._read(e, inputs[e.name]).flatten(1) for e in self.signature.functions]
        columns += [standardised(e, inputs[e.name])[:, 0] for e in self.signature.scalars]
        if not columns:
            return torch.ones(1, 1, dtype=like.dtype, device=like.device)
        return torch.cat(columns, -1)

    def _read(self, entry: InputSignature, samples: FunctionSamples) -> Tensor:
        """Values on the lattice ``[B, L, c]``."""
        fit: HarmonicFit = self.fits[entry.name]  # type: ignore[assignment]
        lattice = fit.lattice(samples.points)
        if entry.smooth:
            return fit.basis(lattice) @ fit(samples)
        return nearest_values(standardised(entry, samples), samples, lattice, fit.axes)

    def _lattice(self, entry: InputSignature) -> Tensor:
        fit: HarmonicFit = self.fits[entry.name]  # type: ignore[assignment]
        return fit.lattice(torch.zeros(()))


class TrunkCoordinates(nn.Module):
    """Coordinates as a trunk reads them: harmonics round a period, from −1 to 1 along other axes.

    With harmonics the answer is periodic for any weights (Lu et al. 2021, SIAM J. Sci. Comput. 43,
    sec. on periodic conditions, doi:10.1137/21M1397908). Where periodicity is to be penalised
    instead, as in Wang et al. 2021, the axis is not declared periodic and enters as it is.

    Args:
        axes: The coordinates.
        frequencies: Harmonics of a periodic axis.

    Attributes:
        features: Numbers per query.
    """

    def __init__(self, axes: tuple[AxisSignature, ...], frequencies: int) -> None:
        super().__init__()
        self.axes, self.frequencies = axes, frequencies
        self.features = sum(2 * frequencies if axis.periodic else 1 for axis in axes)

    def forward(self, queries: Tensor) -> Tensor:
        """Encode ``queries [B, N, D]``: ``[B, N, features]``, dimensionless."""
        columns = []
        for i, axis in enumerate(self.axes):
            column = queries[..., i : i + 1]
            if not axis.periodic:
                columns.append((column - axis.low) * (2 / (axis.high - axis.low)) - 1)
                continue
            rates = range(1, self.frequencies + 1)
            turns = torch.tensor(list(rates), dtype=queries.dtype, device=queries.device)
            phase = angles(column, [axis]) * turns
            columns += [torch.cos(phase), torch.sin(phase)]
        return torch.cat(columns, -1)


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """Make a layer as both papers' codes do: Glorot's normal weights, no bias at the start."""
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
        self.branch = glorot_layers([self.sensors.features, *self.hidden, self.outputs])
        self.trunk = glorot_layers([self.coordinates.features, *self.hidden, self.outputs])
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
        return (
            branch_trunk_product(trunk, self.branch[-1](branch), self.signature.channels)
            + self.bias
        )


def glorot_layers(sizes: list[int]) -> nn.ModuleList:
    """Make linear layers between consecutive sizes."""
    return nn.ModuleList(glorot_linear(a, b) for a, b in pairwise(sizes))
