"""Adaptive weights: a state beside the network that enters a step and is updated by its outcome."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from piop.problem import Coordinate, Problem
from piop.training.loss.weighting.tangent_kernel import Part, ProbedTerm, Probes

if TYPE_CHECKING:
    from piop.training.batches.batch import Batch
    from piop.training.config import AdaptiveConfig, TrainingConfig


@final
class RunningMean:
    """m ← memory·m + (1 − memory)·new, for each of K numbers that may be missing from a step.

    The first value of a number is taken as it is.

    Args:
        count: K.
        memory: Fraction that a step keeps, in [0, 1).
        like: A tensor of the device and precision.

    Attributes:
        values: The means ``[K]``; zero where nothing was observed yet.
        observed: One where something was observed ``[K]``.
    """

    def __init__(self, count: int, memory: float, like: Tensor) -> None:
        self.memory = memory
        self.values = like.new_zeros(count)
        self.observed = like.new_zeros(count)

    def update(self, new: Tensor, present: Tensor) -> None:
        """Average new values in ``[K]`` where ``present [K]`` is true."""
        moved = torch.lerp(new, self.values, self.memory * self.observed)
        self.values = torch.where(present, moved, self.values)
        self.observed = torch.where(present, 1.0, self.observed).to(self.values)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the means and which of them have been observed."""
        return {"values": self.values, "seen": self.observed}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the means."""
        self.values, self.observed = state["values"], state["seen"]


GUARD = 1e-5
"""Sizes below this fraction of the mean count as that, so that no factor exceeds its inverse."""


def balanced(sizes: Tensor) -> Tensor:
    """Return mean(sizes)/sizes ``[K]``; ones where all of them vanish.

    Example:
        >>> import torch
        >>> [round(float(f), 2) for f in balanced(torch.tensor([1.0, 3.0]))]
        [2.0, 0.67]
    """
    mean = sizes.mean()
    return (mean / (sizes + GUARD * mean)).nan_to_num(nan=1.0)


WEIGHT = "weight/"
"""What the names of adaptive weights begin with in the rows of the metrics."""


def extent(name: str, weights: Tensor) -> dict[str, Tensor]:
    """Return the smallest and the largest of weights ``[K]``, by name."""
    return {f"{name}_min": weights.min(), f"{name}_max": weights.max()}


Outcome = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Parts of the loss, and statistics for adaptive weights."""

Measure = Callable[[Mapping[str, Tensor]], tuple[Tensor, Mapping[str, Tensor]]]
"""Weights to put in place of the present ones → squared norm of the loss's gradient over the
whole batch, float64 ``[]``, and the statistics."""


class Weighting(ABC):
    """One kind of adaptive weights.

    :meth:`of_points` and :meth:`observe` run inside the step, compiled or not, and must depend on
    nothing but their arguments; the other methods run between steps. A new kind is its class and an
    entry in :data:`piop.training.loss.weighting.WEIGHTINGS`.

    Args:
        run: The run that it is built for.

    Attributes:
        name: Value of the setting ``weighting``, and key of the state in a checkpoint.
        settings: Names of the settings that it reads.
        in_time: Whether it weighs times against each other, which a steady problem has not.
        balances_squares: Whether it compares gradients of the mean squares of the loss's terms, so
            that the loss must be their sum.
        config: The settings of adaptive weights.
        like: A tensor of the device and precision of the step.
        mean: The running means that it keeps; a kind with another state overrides
            :meth:`state_dict` and :meth:`load_state_dict`.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()
    in_time: ClassVar[bool] = False
    balances_squares: ClassVar[bool] = False
    mean: RunningMean

    def __init__(self, run: WeightedRun) -> None:
        self.config, self.like = run.config.adaptive, run.like

    @classmethod
    def request(cls, config: AdaptiveConfig) -> str | None:
        """Return the setting by which a config requests these weights; None where it does not."""
        return f"weighting: {cls.name!r}" if config.weighting == cls.name else None

    @classmethod
    def obstacle(cls, problem: Problem, parts: Collection[str]) -> str | None:
        """Return why the weights would have no effect in a run; None where they have one.

        Args:
            problem: The problem.
            parts: The parts of its loss.
        """
        steady = cls.in_time and problem.time is None
        return "depends on the time, and this problem has none" if steady else None

    @abstractmethod
    def entering(self, batch: Batch) -> dict[str, Tensor]:
        """Return the present weights as they enter the next step, by keys of its own.

        Args:
            batch: The batch of the step, of which only the shapes may matter.
        """

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor | float:
        """Weigh the squared residual of the equations at ``queries [B, N, D]``: ``[B, N]``."""
        return 1.0

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Weigh a part of the loss, such as ``initial``: ``[]``."""
        return 1.0

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Return the sums that :meth:`update` needs.

        Args:
            squares: Squared residuals of the equations with their fixed weights ``[B, N]``.
            queries: Where ``[B, N, D]``.

        Returns:
            Detached **sums** over the samples, so that the sum over processes is that of the
            whole batch.
        """
        return {}

    def measure(self, batch: Batch, step: int, gradient: Measure) -> None:  # noqa: B027 - most don't
        """Take gradients before a step, every ``weight_every`` steps, and adapt the weights.

        Args:
            batch: That of the step.
            step: Its number.
            gradient: Takes one.
        """

    def update(self, statistics: Mapping[str, Tensor]) -> None:  # noqa: B027 - as above
        """Adapt the weights by the sums of :meth:`observe` over the whole batch."""

    def in_metrics(self) -> dict[str, Tensor]:
        """Return what the metrics show of present weights of points, scalars by name."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a resume needs."""
        return self.mean.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.mean.load_state_dict(state)


@final
class Weightings:
    """All adaptive weights of a run, multiplied.

    Args:
        members: Each of them; none is the most common case.
    """

    def __init__(self, members: Sequence[Weighting] = ()) -> None:
        self.members = tuple(members)

    @property
    def balances_squares(self) -> bool:
        """Whether one of them needs a loss that is the sum of the mean squares of its terms."""
        return any(member.balances_squares for member in self.members)

    def attach(self, batch: Batch) -> Batch:
        """Put the present weights into a batch."""
        weights = {k: v for member in self.members for k, v in member.entering(batch).items()}
        return replace(batch, weights=weights)

    def prepare(
        self,
        batch: Batch,
        step: int,
        gradients: Callable[[Batch], Outcome],
        parameters: Sequence[Tensor],
    ) -> Batch:
        """Let all weights measure, then put them into the batch of a step.

        Args:
            batch: The batch.
            step: Its number.
            gradients: Adds the gradients of a batch to the parameters, summed over processes.
            parameters: What is trained; their gradients are gone afterwards.
        """
        batch = self.attach(batch)

        def gradient(changed: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
            _clear(parameters)
            _, statistics = gradients(replace(batch, weights={**batch.weights, **changed}))
            found = [p.grad.double().square().sum() for p in parameters if p.grad is not None]
            _clear(parameters)
            return torch.stack(found).sum(), statistics

        for member in self.members:
            if step % member.config.weight_every == 0:
                member.measure(batch, step, gradient)
        return self.attach(batch)

    def of_points(self, weights: Mapping[str, Tensor], queries: Tensor) -> Tensor | float:
        """Weigh the squared residual at ``queries [B, N, D]``.

        Args:
            weights: Weights of the batch; without them all points have the same.
            queries: Where.
        """
        members = self.members if weights else ()
        return math.prod((member.of_points(weights, queries) for member in members), start=1.0)

    def of_part(self, weights: Mapping[str, Tensor], part: str) -> Tensor | float:
        """Weigh a part of the loss; 1 where the batch has no weights."""
        members = self.members if weights else ()
        return math.prod((member.of_part(weights, part) for member in members), start=1.0)

    def of_parts(self, batch: Batch, parts: Collection[str]) -> dict[str, Tensor]:
        """Return the factors of parts of the loss that adapt: part → ``[]``.

        Args:
            batch: The batch of a step, whose weights they are.
            parts: Names of the parts.
        """
        each = {part: self.of_part(batch.weights, part) for part in parts}
        return {part: factor for part, factor in each.items() if isinstance(factor, Tensor)}

    def observe(self, squares: Tensor, queries: Tensor) -> dict[str, Tensor]:
        """Return the sums that all weights need."""
        squares, queries = squares.detach(), queries.detach()
        return {k: v for m in self.members for k, v in m.observe(squares, queries).items()}

    def update(self, statistics: Mapping[str, Tensor]) -> None:
        """Adapt all weights."""
        for member in self.members:
            member.update(statistics)

    def in_metrics(self) -> dict[str, Tensor]:
        """Return what the metrics show of weights of points, those that enter the next step."""
        shown = [(n, value) for member in self.members for n, value in member.in_metrics().items()]
        return {WEIGHT + name: value for name, value in shown}

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Return the states by name."""
        return {member.name: member.state_dict() for member in self.members}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Restore the states.

        Raises:
            KeyError: If one is missing.
        """
        for member in self.members:
            member.load_state_dict(state[member.name])


def _clear(parameters: Sequence[Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None


@dataclass(frozen=True)
class Bins:
    """Equal bins of one coordinate.

    Attributes:
        column: Its column of the queries.
        low: Lower end, units of the coordinate.
        length: Length, units of the coordinate.
        count: Number of bins.
    """

    column: int
    low: float
    length: float
    count: int


@final
class Cells:
    """Cells over time and space: products of bins of some coordinates, unbounded in the others.

    Weights live on cells, since every step has new points.

    Args:
        axes: The bins of each; none gives one cell.

    Attributes:
        count: Number of cells.
    """

    def __init__(self, axes: Sequence[Bins]) -> None:
        self.axes = tuple(axes)
        self.count = math.prod(axis.count for axis in self.axes)

    def of(self, queries: Tensor) -> Tensor:
        """Return the number of the cell of each of ``queries [B, N, D]``: int64 ``[B, N]``."""
        number = torch.zeros_like(queries[..., 0], dtype=torch.int64)
        for axis in self.axes:
            position = (queries.detach()[..., axis.column] - axis.low) / axis.length
            own = (position * axis.count).long().clamp(0, axis.count - 1)
            number = number * axis.count + own
        return number

    def sums(self, values: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Sum values ``[B, N]`` over each cell, and count its points: ``[count]`` each.

        By comparisons rather than by scattering, so that a GPU adds in the same order every time.
        """
        every = torch.arange(self.count, device=values.device)
        member = (self.of(queries)[..., None] == every).to(values)
        return (values[..., None] * member).sum((0, 1)), member.sum((0, 1))


@dataclass(frozen=True)
class WeightedRun:
    """A run, as adaptive weights are built for it.

    Attributes:
        problem: The problem.
        terms: The summands of the loss, the equations first.
        homogeneous: Axes in space on which equations and conditions do not depend explicitly.
        config: The run's choices.
        part: Number of samples → the samples of the whole batch that this process has.
        like: A tensor of the device and precision of a step.
    """

    problem: Problem
    terms: Sequence[ProbedTerm]
    homogeneous: Collection[str]
    config: TrainingConfig
    part: Part
    like: Tensor

    @property
    def probes(self) -> Probes:
        """Random signs of the terms of the loss."""
        return Probes(self.terms, self.config.machine.seed, self.part, self.like)

    def cells(self, axes: Sequence[Coordinate] = ()) -> Cells:
        """Return cells over the time, where there is one, and some axes in space."""
        adaptive, time = self.config.adaptive, self.problem.time
        counts = [(axis, adaptive.space_bins) for axis in axes]
        counts = counts if time is None else [(time, adaptive.bins), *counts]
        columns = {axis.name: i for i, axis in enumerate(self.problem.coordinates)}
        return Cells([Bins(columns[a.name], a.low, a.length, count) for a, count in counts])
