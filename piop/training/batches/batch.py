"""Batches of a training step, as plain tensors, and the interface of their sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.residual import KnownField
from piop.sampling import Draws
from piop.training.batches.training_grid import GridLayout
from piop.training.config import TrainingConfig
from piop.training.distributed import Processes, SingleProcess


@dataclass(frozen=True)
class CollocationPoints:
    """Where one term of the loss is evaluated.

    Attributes:
        queries: ``[B, N, D]``, or ``[1, N, D]`` where all functions share them.
        input_values: Values and derivatives of the inputs that the equations need, ``[B, N]`` each.
        lift: Streams of the lift there; None without hard constraints.
        weight: Weight of each, of mean one, ``[1, N]``; None where all have the same.
    """

    queries: Tensor
    input_values: tuple[Tensor, ...] = ()
    lift: Tensor | None = None
    weight: Tensor | None = None

    def take(self, chosen: Tensor) -> CollocationPoints:
        """Keep some points of each function, by their numbers ``[B, N']``."""
        queries = torch.take_along_dim(self.queries, chosen[..., None], 1)
        values = tuple(torch.take_along_dim(v, chosen, 1) for v in self.input_values)
        lift = None if self.lift is None else self.lift.take_along_dim(chosen[None, ..., None], 2)
        weight = None if self.weight is None else self.weight.take_along_dim(chosen, 1)
        return CollocationPoints(queries, values, lift, weight)


@dataclass(frozen=True)
class Observations:
    """Solutions given as data.

    Attributes:
        inputs: Sensors of the trajectories.
        queries: ``[B, N, D]``.
        lift: Values of the lift ``[B, N, C]``; None without hard constraints.
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
    """The batch of one step.

    Attributes:
        inputs: Sensors of B random functions.
        size: Mean square of the data of each function over the distribution's ``[B]``,
            dimensionless.
        equations: Collocation points; None without physics.
        conditions: Points of each soft constraint, by its name.
        observations: Data; None without.
        fraction: Fraction of the functions of the whole batch that are here, in (0, 1]; below one
            where several processes split it. Means over the functions are multiplied by it, so that
            the sum over processes is the mean of the whole.
        weights: Adaptive weights as they stand, by the keys of their kind; without them everything
            counts the same.
    """

    inputs: dict[str, FunctionSamples] = field(default_factory=dict)
    size: Tensor | None = None
    equations: CollocationPoints | None = None
    conditions: dict[str, CollocationPoints] = field(default_factory=dict)
    observations: Observations | None = None
    fraction: float = 1.0
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchSetting:
    """What all sources of batches of a run share.

    Attributes:
        problem: The problem.
        known: Values of the hard constraints; None for none.
        grids: Input → the even grid on which it is given to the operator, in place of sensors.
        config: The run's choices.
        like: A tensor of the device and precision of the batches.
        processes: The processes that share a batch; this one draws its part.
    """

    problem: Problem
    known: KnownField | None
    grids: Mapping[str, tuple[Tensor, ...]]
    config: TrainingConfig
    like: Tensor
    processes: Processes = field(default_factory=SingleProcess)

    def draws(self, step: int, samples: range) -> Draws:
        """Return the randomness of some samples of a step; step 0 is kept for fixed sets."""
        index = torch.arange(samples.start, samples.stop)
        return Draws(self.config.machine.seed, step + 1, index.to(self.like.device))

    def draws_of_steps(self, steps: range, samples: range) -> Draws:
        """Return the randomness of some samples of each of several steps, step by step."""
        one = self.draws(steps.start, samples)
        index = one.index.repeat(len(steps))
        each = torch.arange(steps.start + 1, steps.stop + 1).repeat_interleave(len(samples))
        return replace(one, index=index, steps=each.to(index))


class Source:
    """Base of the sources of batches and of functions, with their state for checkpoints.

    Attributes:
        inner: A source within this one that has a state; None for a source without state.
    """

    inner: Source | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resume continues from; a collective call of all processes."""
        return {} if self.inner is None else self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        if self.inner is not None:
            self.inner.load_state_dict(state)


class BatchSource(Source, ABC):
    """Draws the batch of a step; for the same weights a step that is drawn again is the same."""

    @abstractmethod
    def __call__(self, step: int, fraction: float) -> Batch:
        """Draw a batch.

        Args:
            step: Number of the step.
            fraction: Fraction of the budget that is spent, in [0, 1).
        """


@final
class EquationsAndData(BatchSource):
    """Batches of equations with the observations of other batches.

    Args:
        equations: Source of the equations.
        data: Source of the observations, without state.
    """

    def __init__(self, equations: BatchSource, data: BatchSource) -> None:
        self.equations, self.data = equations, data
        self.inner = equations

    def __call__(self, step: int, fraction: float) -> Batch:
        """See the base class."""
        observations = self.data(step, fraction).observations
        return replace(self.equations(step, fraction), observations=observations)


def flatten(value: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """Split a nest of dataclasses, dicts and tuples into its tensors.

    Returns:
        The tensors, in a fixed order, and the function that puts as many others in their places.

    Example:
        >>> import torch
        >>> tensors, rebuild = flatten({"a": (torch.ones(1), None)})
        >>> rebuild([tensors[0] * 2])
        {'a': (tensor([2.]), None)}
    """
    tensors: list[Tensor] = []
    map_tensors(tensors.append, value)

    def rebuild(replacements: list[Tensor]) -> Any:
        supply = iter(replacements)
        return map_tensors(lambda _: next(supply), value)

    return tensors, rebuild


def map_tensors(function: Callable[[Tensor], Any], node: Any) -> Any:
    """Apply a function to every tensor of a nest, in order."""
    if isinstance(node, Tensor):
        return function(node)
    if isinstance(node, Mapping):
        return {key: map_tensors(function, child) for key, child in node.items()}
    if isinstance(node, tuple):
        return tuple(map_tensors(function, child) for child in node)
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{k: map_tensors(function, v) for k, v in vars(node).items()})
    return node
