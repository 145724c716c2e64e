"""Nodes of the published networks: all inputs at the sensors of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.models.core.attention import RotaryEmbeddings, Rotation
from piop.models.core.base import Inputs, InputSignature, Signature, real_points, standardised
from piop.models.core.coordinates import scaled_to_unit, take_columns
from piop.models.core.interpolation import nearest_values

TIE_SHIFT = 1e-6
"""Fraction of an axis by which points are moved down before the nearest sensor is searched, so that
one half-way between two takes the lower, whatever their order."""


@dataclass(frozen=True)
class SensorNodes:
    """Inputs at the sensors of one of them, before they are embedded as tokens.

    Attributes:
        values: All inputs at the sensors, standardised, ``[B, M, c]``; without the labels.
        labels: Inputs with jumps there, such as kinds of nodes, ``[B, M, m]``.
        points: The sensors, axes from zero to one, ``[B, M, d]``.
        keep: One where a sensor is real, else zero, ``[B, M, 1]``; None where all are.
    """

    values: Tensor
    labels: Tensor
    points: Tensor
    keep: Tensor | None


class NodeEncoder:
    """Evaluates inputs at the sensors of the one with the most coordinates.

    In the paper's benchmarks all inputs share their sensors, and a node has the values of all.
    Elsewhere the others are taken from their nearest sensor. A scalar is a feature of every node.

    Args:
        signature: The problem's shapes and scales.
        labelled: Whether inputs with jumps are labels of the nodes, or values among the others.

    Attributes:
        anchor: The input whose sensors are the nodes.
        axes: Columns of the queries along which nodes are placed.
        space: Those of them that are not the time, along which queries and keys are rotated.
        values: Columns of ``SensorNodes.values``.
        labels: Columns of ``SensorNodes.labels``; a column of ones where no input has jumps.
    """

    def __init__(self, signature: Signature, labelled: bool = False) -> None:
        self.signature = signature
        self.anchor = max(signature.functions, key=lambda e: len(e.of))
        self.axes = tuple(signature.axis(name) for name in self.anchor.of)
        self.space = tuple(i for i in self.axes if i != signature.time)
        self.jumps = [e for e in signature.functions if labelled and not e.smooth]
        self.others = [e for e in signature.inputs if e not in self.jumps]
        self.values = sum(e.channels for e in self.others)
        self.labels = sum(e.channels for e in self.jumps) or 1

    @staticmethod
    def refusal(signature: Signature) -> str | None:
        """Return the reason why there are no nodes for a problem; None where there are."""
        functions = signature.functions
        if not functions:
            return "it encodes a function, and no input is one"
        anchor = max(functions, key=lambda e: len(e.of))
        if signature.time == 0 and set(anchor.of) <= {signature.coordinates[0].name}:
            return f"input {anchor.name!r} does not depend on space"
        for entry in functions:
            if not set(entry.of) <= set(anchor.of):
                return (
                    f"inputs {anchor.name!r} and {entry.name!r} depend on different coordinates, "
                    "and a node has one position"
                )
        return None

    def __call__(self, inputs: Inputs) -> SensorNodes:
        """Evaluate the inputs at the nodes."""
        samples = inputs[self.anchor.name]
        axes = self.signature.axes_of(self.anchor)
        points, keep = real_points(samples), None
        if samples.mask is not None:
            keep = samples.mask[..., None].to(points.dtype)
        values = []
        for entry in self.others:
            given = inputs[entry.name]
            if entry.of and entry is not self.anchor:
                values.append(self._nearest(entry, given, points, self.anchor.of))
            else:
                values.append(standardised(entry, given).expand(-1, points.shape[1], -1))
        return SensorNodes(
            torch.cat(values, -1) if values else points[..., :0],
            self._labels(inputs, points, self.anchor.of),
            scaled_to_unit(points, axes),
            keep,
        )

    def labels_at(self, inputs: Inputs, queries: Tensor) -> Tensor:
        """Labels at ``queries [B or 1, N, D]``, from the nearest sensor: ``[B, N, m]``."""
        return self._labels(inputs, queries, [a.name for a in self.signature.coordinates])

    def at_queries(self, queries: Any, rotary: RotaryEmbeddings) -> list[Rotation]:
        """Rotations at queries ``[B, N, D]``."""
        axes = [self.signature.coordinates[i] for i in self.space]
        return rotary(scaled_to_unit(take_columns(queries, self.space), axes))

    def at_nodes(self, nodes: SensorNodes, rotary: RotaryEmbeddings) -> list[Rotation]:
        """Rotations at the nodes."""
        columns = [self.axes.index(i) for i in self.space]
        return rotary(take_columns(nodes.points, columns))

    def _labels(self, inputs: Inputs, points: Tensor, names: Sequence[str]) -> Tensor:
        """Inputs with jumps at points with columns ``names``."""
        if not self.jumps:
            return torch.ones_like(points[..., :1])
        found = [self._nearest(e, inputs[e.name], points, names) for e in self.jumps]
        return torch.cat(found, -1)

    def _nearest(
        self, entry: InputSignature, samples: FunctionSamples, points: Tensor, names: Sequence[str]
    ) -> Tensor:
        axes = self.signature.axes_of(entry)
        columns = [
            points[..., names.index(axis.name)] - TIE_SHIFT * (axis.high - axis.low)
            for axis in axes
        ]
        return nearest_values(entry, samples, torch.stack(columns, -1), axes)
