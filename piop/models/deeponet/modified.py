"""The modified DeepONets: two encoders U and V gate every hidden layer.

Two networks go by this name. In S. Wang, H. Wang, P. Perdikaris, *Improved architectures and
training algorithms for deep operator networks*, Journal of Scientific Computing 92 (2022),
arXiv:2110.01654, branch and trunk share the encoders: :class:`ModifiedDeepONet`. In their Science
Advances paper of 2021 (arXiv:2103.10974) each of the two has encoders of its own, the layer of S.
Wang, Y. Teng, P. Perdikaris, SIAM J. Sci. Comput. 43 (2021), doi:10.1137/20M1318043:
:class:`GatedDeepONet`. The PIT paper cites the last for its comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import Signature
from piop.models.core.sensors import glorot, paired
from piop.models.deeponet.network import BranchAndTrunk, DeepONetConfig, layers_of


@final
class ModifiedDeepONet(BranchAndTrunk):
    """Branch and trunk that see each other through U = σ(W_u a), V = σ(W_y y) in every layer.

    After each hidden layer the branch goes on with (1 − B)⊙V + B⊙U and the trunk with
    (1 − T)⊙V + T⊙U, where B and T are what the layer gives; the last layers are linear, and their
    products are summed (the authors' code: github.com/PredictiveIntelligenceLab/ImprovedDeepONets,
    revision 12d7b61). From the second layer on the branch depends on the query too and carries
    streams, and nothing but the first layer is shared by functions: this network is dear.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes, as of a DeepONet.
    """

    def __init__(self, signature: Signature, config: DeepONetConfig) -> None:
        super().__init__(signature, config)
        self.input_gate = glorot(self.sensors.features, config.width)
        self.query_gate = glorot(self.coordinates.features, config.width)
        self.branch = layers_of([self.sensors.features, *self.hidden, self.outputs])
        self.trunk = layers_of([self.coordinates.features, *self.hidden, self.outputs])

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
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

    def forward(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        branch = self.branch(self.sensors(inputs, queries))
        return paired(self.trunk(self.coordinates(queries)), branch, self.signature.channels)


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
        self.first_gate = glorot(features, config.width)
        self.second_gate = glorot(features, config.width)
        self.layers = layers_of([features, *[config.width] * (config.layers - 1), outputs])

    def forward(self, state: Any) -> Any:
        """Apply it to ``[..., features]``, giving ``[..., outputs]``."""
        base = torch.tanh(self.second_gate(state))
        across = torch.tanh(self.first_gate(state)) - base
        for layer in self.layers[:-1]:
            state = base + torch.tanh(layer(state)) * across
        return self.layers[-1](state)
