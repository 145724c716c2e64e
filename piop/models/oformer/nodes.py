"""What the published networks read: all inputs at the sensors of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.models.core.base import InputSignature, Signature, standardised
from piop.models.core.coordinates import harmonics
from piop.models.core.interpolation import nearest_values
from piop.models.core.relative_attention import Harmonics
from piop.models.oformer.layers import scaled_to_unit

TIE_SHIFT = 1e-6
"""Share of an axis by which points are moved down before the nearest sensor is found, so that one
half-way between two takes the lower, whatever their order."""


@dataclass(frozen=True)
class SensorNodes:
    """Tokens before they are embedded.

    Attributes:
        values: All inputs at the sensors, standardised, ``[B, M, c]``; jumps apart.
        marks: Inputs with jumps there, such as kinds of nodes, ``[B, M, m]``.
        places: The sensors, axes from zero to one, ``[B, M, d]``.
        keep: One where a sensor is, zero where none is, ``[B, M, 1]``; None where all are.
    """

    values: Tensor
    marks: Tensor
    places: Tensor
    keep: Tensor | None


class NodeEncoder:
    """Reads inputs at the sensors of the one with the most coordinates.

    In the paper's benchmarks all inputs share their sensors, and a node has the values of all.
    Elsewhere the others are read at their nearest sensor. A scalar is a feature of every node.

    Args:
        signature: The problem's shapes and scales.
        apart: Whether inputs with jumps are marks, or values among the others.

    Attributes:
        anchor: The input whose sensors the nodes are.
        axes: Columns of the queries along which nodes are placed.
        space: Those of them that are no time, along which position turns queries and keys.
        values: Columns of ``Nodes.values``.
        marks: Columns of ``Nodes.marks``; where nothing jumps, one of ones.
    """

    def __init__(self, signature: Signature, apart: bool = False) -> None:
        self.signature = signature
        self.anchor = max(signature.functions, key=lambda e: len(e.of))
        self.axes = tuple(signature.axis(name) for name in self.anchor.of)
        self.space = tuple(i for i in self.axes if i != signature.time)
        self.jumps = [e for e in signature.functions if apart and not e.smooth]
        self.others = [e for e in signature.inputs if e not in self.jumps]
        self.values = sum(e.channels for e in self.others)
        self.marks = sum(e.channels for e in self.jumps) or 1

    @staticmethod
    def refusal(signature: Signature) -> str | None:
        """Say why nodes cannot be laid; None where they can."""
        functions = signature.functions
        if not functions:
            return "it encodes a function, and no input is one"
        anchor = max(functions, key=lambda e: len(e.of))
        if (
            set(anchor.of) <= {signature.coordinates[signature.time or 0].name}
            and signature.time == 0
        ):
            return f"input {anchor.name!r} does not depend on space"
        for entry in functions:
            if not set(entry.of) <= set(anchor.of):
                return (
                    f"inputs {anchor.name!r} and {entry.name!r} depend on different coordinates, "
                    "and a node has one place"
                )
        return None

    def __call__(self, inputs: Mapping[str, FunctionSamples]) -> SensorNodes:
        """Read the inputs."""
        samples = inputs[self.anchor.name]
        axes = [self.signature.coordinates[i] for i in self.axes]
        points, keep = samples.points, None
        if samples.mask is not None:
            low = torch.tensor([a.low for a in axes], dtype=points.dtype, device=points.device)
            points = torch.where(samples.mask[..., None], points, low)
            keep = samples.mask[..., None].to(points.dtype)
        values = [self._read(entry, inputs, points) for entry in self.others]
        return SensorNodes(
            torch.cat(values, -1) if values else points[..., :0],
            self._marks(inputs, points, self.anchor.of),
            scaled_to_unit(points, axes),
            keep,
        )

    def marks_at(self, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
        """Inputs with jumps at ``queries [B or 1, N, D]``, by the nearest sensor: ``[B, N, m]``."""
        return self._marks(inputs, queries, [a.name for a in self.signature.coordinates])

    def turns(self, queries: Any, waves: Tensor) -> Harmonics | None:
        """Cosines and sines of the phases at queries ``[B, N, D]``; None without space."""
        axes = [self.signature.coordinates[i] for i in self.space]
        columns = [queries[..., i : i + 1] for i in self.space]
        return harmonics(scaled_to_unit(torch.cat(columns, -1), axes), waves)

    def node_turns(self, nodes: SensorNodes, waves: Tensor) -> Harmonics:
        """Cosines and sines of the phases at the nodes."""
        columns = [nodes.places[..., self.axes.index(i)] for i in self.space]
        return harmonics(torch.stack(columns, -1), waves)

    def _read(
        self, entry: InputSignature, inputs: Mapping[str, FunctionSamples], points: Tensor
    ) -> Tensor:
        """Values of an input at the nodes."""
        samples = inputs[entry.name]
        values = standardised(entry, samples)
        if entry is self.anchor:
            return values
        if not entry.of:
            return values.expand(-1, points.shape[1], -1)
        return self._nearest(entry, samples, points, self.anchor.of)

    def _marks(self, inputs: Mapping[str, FunctionSamples], points: Tensor, names: Any) -> Tensor:
        """Inputs with jumps at points with columns ``names``."""
        if not self.jumps:
            return torch.ones_like(points[..., :1])
        found = [self._nearest(e, inputs[e.name], points, names) for e in self.jumps]
        return torch.cat(found, -1)

    def _nearest(
        self, entry: InputSignature, samples: FunctionSamples, points: Tensor, names: Any
    ) -> Tensor:
        axes = tuple(self.signature.coordinates[self.signature.axis(n)] for n in entry.of)
        columns = [
            points[..., list(names).index(n)] - TIE_SHIFT * (axis.high - axis.low)
            for n, axis in zip(entry.of, axes, strict=True)
        ]
        values = standardised(entry, samples)
        return nearest_values(values, samples, torch.stack(columns, -1), axes)
