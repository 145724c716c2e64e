"""What one step of training looks at, as plain tensors, and how it is drawn from the law."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.training.batches.training_grid import GridLayout


@dataclass(frozen=True)
class CollocationPoints:
    """Where one term of the loss is evaluated.

    Attributes:
        queries: ``[B, N, D]``, or ``[1, N, D]`` where all functions share them.
        input_values: Values and derivatives of the inputs that the equations need, ``[B, N]`` each.
        lift: Streams of the lift there; None where nothing is built in.
        weight: What each counts, of mean one, ``[1, N]``; None where all count the same.
    """

    queries: Tensor
    input_values: tuple[Tensor, ...] = ()
    lift: Tensor | None = None
    weight: Tensor | None = None

    def take(self, chosen: Tensor) -> CollocationPoints:
        """Keep some points of each function, by their numbers ``[B, N']``."""
        queries = torch.take_along_dim(self.queries, chosen[..., None], 1)
        values = tuple(torch.take_along_dim(v, chosen, 1) for v in self.input_values)
        lift = self.lift
        if lift is not None:
            lift = torch.take_along_dim(lift, chosen[None, ..., None], 2)
        weight = self.weight
        if weight is not None:
            weight = torch.take_along_dim(weight, chosen, 1)
        return CollocationPoints(queries, values, lift, weight)


@dataclass(frozen=True)
class Observations:
    """Solutions given as data.

    Attributes:
        inputs: Sensors of the trajectories.
        queries: ``[B, N, D]``.
        lift: Values of the lift ``[B, N, C]``; None where nothing is built in.
        targets: ``[B, N, C]``, NaN where a channel was not measured.
        size: Mean square of each trajectory and channel ``[B, C]``, squared units.
        known: Number of targets that are not NaN ``[]``, in the whole batch of all processes.
        layout: For a network that answers on grids, where it is evaluated; the queries are then a
            grid, the last coordinate fastest.
    """

    inputs: dict[str, FunctionSamples]
    queries: Tensor
    lift: Tensor | None
    targets: Tensor
    size: Tensor
    known: Tensor
    layout: GridLayout | None = None


@dataclass(frozen=True)
class Batch:
    """What one step looks at.

    Attributes:
        inputs: Sensors of B random functions.
        size: Mean square of the data of each function over that of the law ``[B]``, dimensionless.
        equations: Collocation points; None without physics.
        conditions: Points of each penalised condition, by its name.
        observations: Data; None without.
        share: Share of the whole batch's functions that are here, in (0, 1]; below one where
            several processes split it. Means over the functions are multiplied by it, so that the
            sum over processes is the mean of the whole.
        weights: Adaptive weights as they stand, by the keys of their kind; without them everything
            counts the same.
    """

    inputs: dict[str, FunctionSamples] = field(default_factory=dict)
    size: Tensor | None = None
    equations: CollocationPoints | None = None
    conditions: dict[str, CollocationPoints] = field(default_factory=dict)
    observations: Observations | None = None
    share: float = 1.0
    weights: dict[str, Tensor] = field(default_factory=dict)


def flatten(value: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """Take a nest of dataclasses, dicts and tuples apart into its tensors.

    Returns:
        The tensors, in a fixed order, and the function that puts as many others in their places.

    Example:
        >>> import torch
        >>> tensors, rebuild = flatten({"a": (torch.ones(1), None)})
        >>> rebuild([tensors[0] * 2])
        {'a': (tensor([2.]), None)}
    """
    tensors: list[Tensor] = []

    def collect(node: Any) -> None:
        if isinstance(node, Tensor):
            tensors.append(node)
        for child in _children(node):
            collect(child)

    def rebuild(replacements: list[Tensor]) -> Any:
        supply = iter(replacements)

        def build(node: Any) -> Any:
            if isinstance(node, Tensor):
                return next(supply)
            if isinstance(node, Mapping):
                return {key: build(child) for key, child in node.items()}
            if isinstance(node, tuple):
                return tuple(build(child) for child in node)
            if is_dataclass(node) and not isinstance(node, type):
                return replace(node, **{f.name: build(getattr(node, f.name)) for f in fields(node)})
            return node

        return build(value)

    collect(value)
    return tensors, rebuild


def _children(node: Any) -> list[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    if isinstance(node, tuple):
        return list(node)
    if is_dataclass(node) and not isinstance(node, type):
        return [getattr(node, f.name) for f in fields(node)]
    return []
