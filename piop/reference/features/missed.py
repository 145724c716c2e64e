"""What a grid misses of data, added to a problem: how far its solution moves tells what it counts.

A grid may miss a small part of its data and yet most of a solution: where the rest of the data has
little effect, where an unknown follows from that part alone, or where the solution grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self, final

import torch
from sympy import Expr, Function
from torch import Tensor

from piop.fields import Device, InputFunction
from piop.forms.differentiate import differentiate
from piop.forms.pde import Input
from piop.problem import Coordinate
from piop.reference.features.between_nodes import look
from piop.reference.features.boxes import Boxes, KnownValues
from piop.reference.input_values import Sources
from piop.spec.model import SensorPlacement


@dataclass(frozen=True)
class InEquation:
    """Where a coefficient stands: in the equation of this number, before this; 1 for sources."""

    number: int
    before: Expr


@dataclass(frozen=True)
class AtStart:
    """Initial data of an unknown, of its time derivative of this order."""

    unknown: str
    order: int


def content_at_nodes(
    values: KnownValues, boxes: Boxes, nodes: Mapping[str, Tensor], space: Sequence[Coordinate]
) -> Tensor:
    """Give what a grid does not see of some data to its nodes, by hat functions: a mean over time.

    That keeps integrals, and first moments. All of it counts as positive: what a grid sees too much
    of beside a narrow part does not make up for that part, whose nodes have other weights.

    Args:
        values: The data.
        boxes: Theirs.
        nodes: Of the grid, ascending, by the name of their coordinate.
        space: The axes.

    Returns:
        Densities ``[B or 1, *sizes]``, of size 1 along axes that the data do not depend on.
    """
    found = look(values, boxes, nodes)
    sizes = [len(nodes[c.name]) if c in values.axes else 1 for c in space]
    out = found.part.new_zeros(values.batch * math.prod(sizes))
    along = [
        _hats(found.points[:, values.axes.index(c)], nodes[c.name], c) if c in values.axes else None
        for c in space
    ]
    for corner in product(*([0, 1] if own else [0] for own in along)):
        flat, content = boxes.sample, found.part * found.hidden.abs()
        for own, end, size in zip(along, corner, sizes, strict=True):
            flat = flat * size
            if own is not None:
                flat, content = flat + own.node[end], content * own.weight[end]
        out.index_add_(0, flat, content)
    return out.reshape(values.batch, *sizes)


@dataclass(frozen=True)
class _Hats:
    """Two nodes beside each of some points, ``[2, n]``.

    Attributes:
        node: Their numbers.
        weight: Their hat functions at the point, over the part of the axis that the node is for.
    """

    node: Tensor
    weight: Tensor


def _hats(points: Tensor, nodes: Tensor, axis: Coordinate) -> _Hats:
    count, length = len(nodes), float(axis.length)
    if axis.periodic:
        edges = torch.cat([nodes[-1:] - length, nodes, nodes[:1] + length])
    else:
        edges = torch.cat([nodes[:1], nodes, nodes[-1:]])
    own = 0.5 * (edges[2:] - edges[:-2]) / length
    # Cell j is from edge j to the next; without cells of no length at walls.
    first, last = (0, count) if axis.periodic else (1, count - 1)
    cell = (torch.searchsorted(edges, points.contiguous(), right=True) - 1).clamp(first, last)
    part = (points - edges[cell]) / (edges[cell + 1] - edges[cell])
    node = torch.stack([cell - 1, cell]) % count
    return _Hats(node, torch.stack([1 - part, part]) / own[node])


@final
@dataclass(frozen=True)
class NodalFunction(InputFunction):
    """Values at the nodes of a grid, linear between them.

    Attributes:
        values: ``[B, n1, …, nd]``.
        nodes: Ascending, along each axis.
        lengths: Period of each axis; 0 for one with walls.
    """

    values: Tensor
    nodes: tuple[Tensor, ...]
    lengths: tuple[float, ...]

    @property
    def batch(self) -> int:
        """See the base class."""
        return len(self.values)

    @property
    def dimension(self) -> int:
        """See the base class."""
        return len(self.nodes)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """See the base class."""
        if any(order):
            raise NotImplementedError("slopes of values at nodes")
        points = points.expand(self.batch, -1, -1)
        sample = torch.arange(self.batch, device=points.device)[:, None]
        ends = []
        for x, nodes, length in zip(points.unbind(-1), self.nodes, self.lengths, strict=True):
            own = torch.cat([nodes, nodes[:1] + length]) if length else nodes
            low = (torch.searchsorted(own, x.contiguous(), right=True) - 1).clamp(0, len(own) - 2)
            part = (x - own[low]) / (own[low + 1] - own[low])
            ends.append(((low, 1 - part), ((low + 1) % len(nodes), part)))
        out = torch.zeros_like(points[..., 0])
        for corner in product(*ends):
            weight = math.prod((w for _, w in corner), start=torch.ones_like(out))
            out = out + weight * self.values[(sample, *(i for i, _ in corner))]
        return out

    def take(self, index: Tensor) -> Self:
        """See the base class."""
        return replace(self, values=self.values[index])

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """See the base class."""
        nodes = tuple(own.to(device=device, dtype=dtype) for own in self.nodes)
        return replace(self, values=self.values.to(device=device, dtype=dtype), nodes=nodes)


def with_missed(
    sources: Sources, missed: Mapping[InEquation | AtStart, Tensor], nodes: Mapping[str, Tensor]
) -> Sources:
    """Add what a grid does not see to the equations and the initial data of a problem.

    Args:
        sources: The problem with its inputs.
        missed: Values at the nodes ``[B, *sizes]`` of what is added, by where it is.
        nodes: Of the grid, by the name of their coordinate.
    """
    problem, pde = sources.problem, sources.problem.pde
    at = tuple(nodes[c.name] for c in problem.space)
    lengths = tuple(float(c.length) if c.periodic else 0.0 for c in problem.space)
    names, symbols = zip(*((c.name, c.symbol) for c in problem.space), strict=True)
    inputs, functions = list(problem.inputs), dict(sources.functions)
    raw, carried_out = list(pde.residuals_raw), list(pde.residuals)
    initial = {u: list(own) for u, own in pde.initial.items()}
    for k, (place, values) in enumerate(missed.items()):
        name = f"_missed{k}"
        symbol = Function(name, real=True)(*symbols)
        one = Input(
            *(name, names, None, None, True, False),
            sensor_shape=tuple(map(len, at)),
            place=SensorPlacement.UNIFORM,
            symbol=symbol,
        )
        inputs.append(one)
        functions[name] = NodalFunction(values, at, lengths)
        if isinstance(place, AtStart):
            initial[place.unknown][place.order] += symbol
        else:
            raw[place.number] += symbol * place.before
            carried_out[place.number] += symbol * differentiate(place.before)
    pde = replace(
        pde,
        residuals=tuple(carried_out),
        residuals_raw=tuple(raw),
        inputs=tuple(inputs),
        initial={u: tuple(own) for u, own in initial.items()},
    )
    return Sources(problem.with_pde(pde), functions, sources.device)
