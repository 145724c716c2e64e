"""DeepONet: a branch encodes the input, a trunk the query, and their product is the output.

L. Lu, P. Jin, G. Pang, Z. Zhang, G. E. Karniadakis, *Learning nonlinear operators via DeepONet
based on the universal approximation theorem of operators*, Nature Machine Intelligence 3 (2021),
doi:10.1038/s42256-021-00302-5.

Its variants: the modified ones, whose encoders gate every layer, and shift-DeepONet.

Two networks are called modified. In S. Wang, H. Wang, P. Perdikaris, *Improved architectures and
training algorithms for deep operator networks*, Journal of Scientific Computing 92 (2022),
arXiv:2110.01654, branch and trunk share the encoders: :class:`ModifiedDeepONet`. In their Science
Advances paper of 2021 (arXiv:2103.10974) each of the two has encoders of its own, the layer of S.
Wang, Y. Teng, P. Perdikaris, SIAM J. Sci. Comput. 43 (2021), doi:10.1137/20M1318043:
:class:`GatedDeepONet`. The PIT paper cites the last for its comparison.

Shift-DeepONet: S. Lanthaler, R. Molinaro, P. Hadorn, S. Mishra, *Nonlinear reconstruction for
operator learning of PDEs with discontinuities*, ICLR 2023, arXiv:2210.01074, sec. 2:
G[a](y) = Σ_k β_k(a) τ_k(A_k(a) y + γ_k(a)). Fixed basis functions need ever more terms for a front
that moves; these follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
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

    context_points = 1  # the branch encodes all sensors

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.outputs = config.latent * signature.channels
        self.hidden = [config.width] * (config.layers - 1)
        self.sensors = FixedSensors(signature)
        self.coordinates = TrunkCoordinates(signature.coordinates, config.frequencies)


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


@final
class ModifiedDeepONet(BranchAndTrunk):
    """Branch and trunk coupled in every layer by the gates U = σ(W_u a), V = σ(W_y y).

    After each hidden layer the branch goes on with (1 − B)⊙V + B⊙U and the trunk with
    (1 − T)⊙V + T⊙U, where B and T are what the layer gives; the last layers are linear, and their
    products are summed (the authors' code: github.com/PredictiveIntelligenceLab/ImprovedDeepONets,
    revision 12d7b61). From the second layer on the branch depends on the query too and carries
    streams, and only the first layer is shared by functions: this network is expensive.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes, as of a DeepONet.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.input_gate = glorot_linear(self.sensors.features, config.width)
        self.query_gate = glorot_linear(self.coordinates.features, config.width)
        self.branch = glorot_layers([self.sensors.features, *self.hidden, self.outputs])
        self.trunk = glorot_layers([self.coordinates.features, *self.hidden, self.outputs])

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        branch = self.sensors(inputs, queries)[:, None]
        trunk = self.coordinates(queries)
        base = torch.tanh(self.query_gate(trunk))
        across = torch.tanh(self.input_gate(branch)) - base
        for along_branch, along_trunk in zip(self.branch[:-1], self.trunk[:-1], strict=True):
            branch = base + torch.tanh(along_branch(branch)) * across
            trunk = base + torch.tanh(along_trunk(trunk)) * across
        product = self.branch[-1](branch) * self.trunk[-1](trunk)
        return product.unflatten(-1, (self.signature.channels, self.config.latent)).sum(-1)


@final
class GatedDeepONet(BranchAndTrunk):
    """A DeepONet whose branch and trunk are :class:`GatedPerceptron` each, so functions share it.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes, as of a DeepONet.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.branch = GatedPerceptron(self.sensors.features, config, self.outputs)
        self.trunk = GatedPerceptron(self.coordinates.features, config, self.outputs)

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        branch, trunk = self.branch(self.sensors(inputs, queries)), self.coordinates(queries)
        return branch_trunk_product(self.trunk(trunk), branch, self.signature.channels)


class GatedPerceptron(nn.Module):
    """Layers H = σ(W h + b), each followed by h = (1 − H)⊙V + H⊙U; the last is linear.

    U = σ(W_U x) and V = σ(W_V x) encode the perceptron's own input.

    Args:
        features: Numbers in.
        config: Width and layers.
        outputs: Numbers out.
    """

    def __init__(self, features: int, config: DeepONetConfig, outputs: int) -> None:
        super().__init__()
        self.first_gate = glorot_linear(features, config.width)
        self.second_gate = glorot_linear(features, config.width)
        self.layers = glorot_layers([features, *[config.width] * (config.layers - 1), outputs])

    def forward(self, state: Any) -> Any:
        """Apply it to ``[..., features]``, giving ``[..., outputs]``."""
        base = torch.tanh(self.second_gate(state))
        across = torch.tanh(self.first_gate(state)) - base
        for layer in self.layers[:-1]:
            state = base + torch.tanh(layer(state)) * across
        return self.layers[-1](state)


@dataclass(frozen=True)
class ShiftDeepONetConfig(DeepONetConfig):
    """Sizes of a shift-DeepONet, all dimensionless.

    Attributes:
        width: Features of a hidden layer.
        layers: Linear layers of each of the four networks.
        latent: p, products summed for each channel of the output.
        frequencies: Harmonics of each periodic coordinate in the trunk.
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
    scale multiplies its harmonics instead.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    def __init__(self, signature: Signature, config: ShiftDeepONetConfig) -> None:
        super().__init__(signature, config)
        self.frames = config.frames
        axes = signature.coordinates
        self.open = [i for i, axis in enumerate(axes) if not axis.periodic]
        self.closed = [i for i, axis in enumerate(axes) if axis.periodic]
        features, hidden = self.sensors.features, self.hidden
        self.branch = glorot_layers([features, *hidden, self.outputs])
        self.trunk = glorot_layers([self.coordinates.features, *hidden, self.outputs])
        self.bias = nn.Parameter(torch.zeros(signature.channels))
        mixed = len(axes) * len(self.open)
        self.scale = glorot_layers([features, *hidden, self.frames * (mixed + len(self.closed))])
        self.shift = glorot_layers([features, *hidden, self.frames * len(axes)])

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        values = self.sensors(inputs, queries)
        scale, shift = apply_layers(self.scale, values), apply_layers(self.shift, values)
        trunk = self._moved(queries, scale, shift)
        for layer in self.trunk[:-1]:
            trunk = torch.tanh(layer(trunk))
        # Each frame gives its own part of the products.
        split = (self.signature.channels, self.frames, -1)
        last = cast(nn.Linear, self.trunk[-1])
        products = torch.einsum("bnfw,cfkw->bncfk", trunk, last.weight.unflatten(0, split))
        products = torch.tanh(products + last.bias.unflatten(0, split))
        branch = apply_layers(self.branch, values).unflatten(-1, split)
        return (products * branch[:, None]).sum(-1).sum(-1) + self.bias

    def _moved(self, queries: Any, scale: Tensor, shift: Tensor) -> Any:
        """Features of the trunk in each frame.

        Args:
            queries: ``[B, N, D]``.
            scale: What is added to the identity: A of the D coordinates by those that are not
                periodic, then the steepness of periodic ones ``[B, F (D n + D − n)]``.
            shift: s ``[B, F D]``.

        Returns:
            ``[B, N, F, features]``.
        """
        axes, count, frames = self.signature.coordinates, len(self.open), self.frames
        mixing, steepness = scale.split([frames * len(axes) * count, frames * len(self.closed)], -1)
        steepness = steepness.unflatten(-1, (frames, len(self.closed)))[:, None]
        moved = shift.unflatten(-1, (len(axes), frames))[:, None]
        if count:
            columns = torch.cat([centred(queries[..., i : i + 1], axes[i]) for i in self.open], -1)
            matrix = mixing.unflatten(-1, (count, len(axes) * frames))
            moved = (columns @ matrix).unflatten(-1, (len(axes), frames)) + moved
        columns = []
        for i, axis in enumerate(axes):
            position, query = moved[..., i, :], queries[..., i : i + 1]  # [B, N, F], [B, N, 1]
            if not axis.periodic:
                columns.append((position + centred(query, axis))[..., None])
                continue
            phase = (position + angles(query, [axis]))[..., None]
            rates = torch.arange(1, self.config.frequencies + 1).to(shift)
            steep = 1 + steepness[..., self.closed.index(i), None]
            columns += [steep * torch.cos(phase * rates), steep * torch.sin(phase * rates)]
        return torch.cat(columns, -1)
