"""The network of the PIT paper, as in its text.

F. Dos Santos, T. Akhound-Sadegh, S. Ravanbakhsh, *Physics-Informed Transformer Networks*, NeurIPS
2023 workshop, sec. 3. Sizes, which the text omits, from the authors' code
(github.com/FabricioPerazzo/PIT-public, revision 5d96bd6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models.core.attention import joint_masked_scores, perceptron
from piop.models.core.base import (
    Backbone,
    Inputs,
    InputSignature,
    Signature,
    real_points,
    standardised,
)


@dataclass(frozen=True)
class PaperPITConfig:
    """Sizes of the paper's PIT, dimensionless.

    Attributes:
        width: Features of a query and of a token, and of keys.
        blocks: L, cross-attention blocks.
        encoding: Sines and cosines of a coordinate, together.
        embedding: Layers of φ and ψ.
        projection: Layers of Q, K, V, U and of the output projection.
        expansion: Hidden width of a block's perceptron over ``width``.
    """

    width: int = 100
    blocks: int = 4
    encoding: int = 12
    embedding: int = 4
    projection: int = 3
    expansion: int = 4

    def __post_init__(self) -> None:
        if self.encoding % 2:
            raise UsageError(f"encoding = {self.encoding}: give an even number")


class Sine(nn.Module):
    """sin as a layer."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return torch.sin(x)


def sinusoids(points: Tensor, width: int) -> Tensor:
    """Encode raw coordinates as the paper does.

    Dos Santos et al. 2023, eq. 5: α_j = 10000^(−2⌊j/2⌋/width), sine for even j and cosine for odd.

    Args:
        points: ``[B, N, D]``, units of the coordinates.
        width: Features per coordinate, even.

    Returns:
        ``[B, N, D · width]``: all sines of a coordinate, then all its cosines (the order within the
        encoding is immaterial to the layer that follows).
    """
    rates = [10000.0 ** (-2 * j / width) for j in range(width // 2)]
    scale = torch.tensor(rates, dtype=points.dtype, device=points.device)
    phases = [points[..., i : i + 1] * scale for i in range(points.shape[-1])]
    return torch.cat([wave(phase) for phase in phases for wave in (torch.sin, torch.cos)], -1)


@final
class PaperPIT(Backbone):
    """The paper's PIT.

    Coordinates enter raw (at one radian per unit at most), so periodicity must be
    learned. Sensors carry all coordinates of the problem, the time too, which is its start. Scalars
    are tokens without position. Several functions share the tokens, each with its own ψ.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.
    """

    periodic = False

    def __init__(self, signature: Signature, config: PaperPITConfig) -> None:
        super().__init__(signature, config)
        encoded = config.encoding * len(signature.coordinates)
        widths = [config.width] * config.embedding
        self.phi = perceptron(encoded, *widths, activation=Sine)
        psi = {
            e.name: perceptron(encoded + e.channels, *widths, activation=Sine)
            for e in signature.inputs
        }
        self.psi = nn.ModuleDict(psi)
        self.blocks = nn.ModuleList(PaperBlock(config) for _ in range(config.blocks))
        self.decoder = perceptron(*[config.width] * 3, signature.channels, activation=Sine)

    def unused_parameters(self) -> Mapping[str, str]:
        """Name the biases that cancel in a softmax: see :meth:`Backbone.unused_parameters`."""
        last = 2 * (self.config.projection - 1)
        found = {f"blocks.*.key.{last}.bias": "adds the same to all scores of a query"}
        if len(self.signature.inputs) < 2 and not self.signature.functions:
            alone = "one token gets all attention whatever its key is"
            found |= {"blocks.*.key.*": alone, "blocks.*.query.*": alone}
        if not self.signature.inputs:
            found["blocks.*.value.*"] = "there is no token"
        return found

    def forward(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Evaluate the network: see :meth:`Backbone.forward`."""
        self.check(inputs, queries)
        state = self.phi(sinusoids(queries, self.config.encoding))
        tokens, blocked = self._tokens(inputs) if self.psi else (None, None)
        for block in self.blocks:
            state = block(state, tokens, blocked)
        return self.decoder(state)

    def _tokens(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Embed the sensors of all inputs: ``[B, M, width]``, and scores that block masked ones."""
        tokens = []
        for entry in self.signature.inputs:
            samples = inputs[entry.name]
            encoded = sinusoids(self._sensor_points(entry, samples), self.config.encoding)
            features = torch.cat([encoded, standardised(entry, samples)], -1)
            tokens.append(self.psi[entry.name](features))
        samples = [inputs[entry.name] for entry in self.signature.inputs]
        return torch.cat(tokens, 1), joint_masked_scores(samples)

    def _sensor_points(self, entry: InputSignature, samples: FunctionSamples) -> Tensor:
        """Give sensors a column for each coordinate; those they lack are at their lower ends."""
        known = dict(zip(entry.of, real_points(samples).unbind(-1), strict=True))
        columns = [
            known.get(axis.name, torch.full_like(samples.values[..., 0], axis.low))
            for axis in self.signature.coordinates
        ]
        return torch.stack(columns, -1)


class PaperBlock(nn.Module):
    """Eq. 6: ẑ = norm(z), z + MLP(ẑ + cross-attention(ẑ, y)), with U of the text's last lines.

    The authors' code adds MLP(h) to h = ẑ + projection(attention + U ẑ), so its skip is the
    *normalised* state and not z; the text's skip, z, is kept here. The perceptron's ELU is theirs.

    Args:
        config: Sizes.
    """

    def __init__(self, config: PaperPITConfig) -> None:
        super().__init__()
        width = config.width
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.skip, self.out = (
            perceptron(*[width] * (config.projection + 1), activation=Sine) for _ in range(5)
        )
        self.perceptron = perceptron(width, config.expansion * width, width, activation=nn.ELU)
        self.scale = 1 / math.sqrt(width)

    def forward(self, state: Tensor, tokens: Tensor | None, blocked: Tensor | None) -> Tensor:
        """Update the state ``[B, N, width]``; without tokens, U alone remains."""
        normal = self.norm(state)
        found = self.skip(normal)
        if tokens is not None:
            scores = torch.matmul(self.query(normal) * self.scale, self.key(tokens).mT)
            scores = scores if blocked is None else scores + blocked[:, 0]
            found = found + torch.matmul(torch.softmax(scores, -1), self.value(tokens))
        return state + self.perceptron(normal + self.out(found))
