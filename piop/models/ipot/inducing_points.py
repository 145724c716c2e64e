"""Sizes of the default IPOT, and where its inducing points are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.base import Signature
from piop.models.core.coordinates import angles, harmonics
from piop.models.core.relative_attention import TURNING, Harmonics, RelativeAttention


@dataclass(frozen=True)
class IPOTConfig:
    """Sizes of the default IPOT, all dimensionless.

    Attributes:
        width: Features of an inducing point and of a query.
        points: Inducing points along an axis where they lie along one, two, three axes.
        depth: L, how often the one processor block is applied; in a march, per step.
        blocks: Blocks of the decoder, each a cross-attention to the inducing points.
        heads: H, attention heads.
        content: Entries of a key that carry content alone.
        harmonics: Pairs of entries of a key that carry position, by the shortest wave vectors.
        expansion: Hidden width of a block's perceptron over ``width``.
        frequencies: Sines and cosines of the time, and of axes that are not homogeneous.
    """

    width: int = 64
    points: tuple[int, int, int] = (24, 10, 6)
    depth: int = 2
    blocks: int = 2
    heads: int = 4
    content: int = 8
    harmonics: int = 6
    expansion: int = 2
    frequencies: int = 4

    def __post_init__(self) -> None:
        if self.harmonics < TURNING:
            raise UsageError(f"harmonics = {self.harmonics}: give at least {TURNING}")


def relative(dimension: int, config: IPOTConfig) -> RelativeAttention:
    """Make an attention of the config's sizes."""
    return RelativeAttention(
        config.width, dimension, config.heads, config.content, config.harmonics
    )


class InducingLattice(nn.Module):
    """Where the inducing points are: on an even lattice over the space that the inputs live in.

    Without functions there is no such space, and they are nowhere in particular.

    Args:
        signature: The problem's shapes and scales.
        config: Sizes.

    Attributes:
        columns: Indices of the coordinates that it lies over.
        count: P, inducing points.
    """

    waves: Tensor

    def __init__(self, signature: Signature, config: IPOTConfig) -> None:
        super().__init__()
        named = {signature.axis(name) for entry in signature.functions for name in entry.of}
        space = sorted(named - {signature.time})
        self.columns = tuple(space or sorted(named))
        self.signature = signature
        self.axes = [signature.coordinates[i] for i in self.columns]
        self.dimension = max(len(self.axes), 1)
        self.per_axis = config.points[self.dimension - 1]
        self.count = self.per_axis**self.dimension
        self.harmonics = config.harmonics
        waves = RelativeAttention.wave_vectors(self.dimension, config.harmonics)
        self.register_buffer("waves", waves, persistent=False)

    def places(self, like: Tensor) -> Tensor:
        """Rows of coordinates ``[1, P, D]``; those it does not lie over are at their lower ends."""
        ticks = []
        for axis in self.axes:
            steps = torch.arange(self.per_axis, dtype=like.dtype, device=like.device)
            first = 0.0 if axis.periodic else 0.5  # cell centres between walls
            ticks.append(axis.low + (steps + first) * ((axis.high - axis.low) / self.per_axis))
        mesh = torch.cartesian_prod(*ticks).reshape(self.count, -1) if ticks else None
        rows = [
            mesh[:, self.columns.index(i)]
            if mesh is not None and i in self.columns
            else torch.full((self.count,), axis.low, dtype=like.dtype, device=like.device)
            for i, axis in enumerate(self.signature.coordinates)
        ]
        return torch.stack(rows, -1)[None]

    def turned(self, columns: Mapping[int, Tensor], like: Tensor) -> Harmonics:
        """Cosines and sines of the attention's wave vectors at some points ``[B, N, harmonics]``.

        Args:
            columns: Coordinates by their index ``[B, N, 1]`` each.
            like: A tensor of the device and dtype wanted.
        """
        if not self.columns:
            still = torch.ones(1, 1, self.harmonics, dtype=like.dtype, device=like.device)
            return still, still - 1
        return harmonics(self.angles(columns), self.waves)

    def angles(self, columns: Mapping[int, Tensor]) -> Tensor:
        """Angles of points along the lattice's axes, ``[B, N, d]``."""
        return angles(torch.cat([columns[i] for i in self.columns], -1), self.axes)

    def own(self, like: Tensor) -> Harmonics:
        """Give the same at the inducing points."""
        return self.turned(self.own_columns(like), like)

    def own_columns(self, like: Tensor) -> dict[int, Tensor]:
        """Coordinates of the inducing points by their index ``[1, P, 1]`` each."""
        places = self.places(like)
        return {i: places[..., i : i + 1] for i in self.columns}
