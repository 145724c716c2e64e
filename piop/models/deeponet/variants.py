"""Variants of DeepONet: the modified ones, whose encoders gate every layer, and shift-DeepONet.

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
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.base import Inputs, Signature
from piop.models.core.coordinates import angles
from piop.models.deeponet.network import (
    BranchAndTrunk,
    DeepONetConfig,
    apply_layers,
    branch_trunk_product,
    centred,
    glorot_layers,
    glorot_linear,
)


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
        branch = self.branch(self.sensors(inputs, queries))
        return branch_trunk_product(
            self.trunk(self.coordinates(queries)), branch, self.signature.channels
        )


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
        trunk = self._moved(
            queries, apply_layers(self.scale, values), apply_layers(self.shift, values)
        )
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
        moved = shift.unflatten(-1, (len(axes), frames))[:, None]
        if count:
            columns = torch.cat([self._centred(queries, i) for i in self.open], -1)
            matrix = mixing.unflatten(-1, (count, len(axes) * frames))
            moved = (columns @ matrix).unflatten(-1, (len(axes), frames)) + moved
        columns = []
        for i, axis in enumerate(axes):
            position = moved[..., i, :]  # [B, N, F]
            if not axis.periodic:
                columns.append((position + self._centred(queries, i))[..., None])
                continue
            phase = (position + angles(queries[..., i : i + 1], [axis]))[..., None]
            rates = torch.arange(1, self.config.frequencies + 1).to(shift)
            steep = (
                1 + steepness.unflatten(-1, (frames, -1))[:, None, :, self.closed.index(i), None]
            )
            columns += [steep * torch.cos(phase * rates), steep * torch.sin(phase * rates)]
        return torch.cat(columns, -1)

    def _centred(self, queries: Any, column: int) -> Any:
        return centred(queries[..., column : column + 1], self.signature.coordinates[column])
