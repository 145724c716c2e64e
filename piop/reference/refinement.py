"""Adaptive refinement: solve each sample on finer and finer levels until its error is small enough.

Samples on one level (:mod:`piop.reference.levels`) are solved together, cheap levels first. From
the results of successive levels a method estimates the error of the last one; :class:`Refinement`
then accepts it, goes on to the level that the method proposes, or gives up for one of the reasons
in :class:`~piop.reference.levels.Stop`.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Generic, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.reference.features import Features, resistances
from piop.reference.input_values import Sources
from piop.reference.levels import (
    MEMORY,
    Earlier,
    L,
    R,
    SolvedSamples,
    Stop,
    reason_to_stop,
    with_unseen,
)
from piop.reference.solution import Request, Solution

_NOTHING = 1e-12  # part of the data that may be missed whatever it does
_NO_TIME = "no time is left"
_SAME_TIME = 0.01  # of the interval of time: failures this close are at the same time


class LevelSolver(ABC, Generic[L, R]):
    """A numerical method for a batch of samples of one problem, as refinement uses it.

    Args:
        sources: The problem with its inputs.
        request: What is requested.

    Attributes:
        target: Part of the tolerance that an estimate must meet to be accepted at once.
        history: Results of earlier levels that an estimate takes into account.
        joint: Whether all samples go on until each meets the tolerance.
        failures: Failures at the same time after which a solution is taken to blow up there.
        span: Interval of time, by which the times of failures are compared.
        initial_means: Whether grids take initial data by their means over cells.
        longest: Longest interval between the start and the save times; 0 for a steady problem.
        most: Most points along an axis.
        axes: Coordinates of the output along each axis.
        coarsest: The first level.
        samples: Number of each sample of the batch, for messages.
        at_a_time: Samples that are refined at a time; None for all.
    """

    target = 1.0
    history = 1
    joint = False
    failures = 3
    span = 0.0
    initial_means = False
    at_a_time: int | None = None
    coarsest: L

    def __init__(self, sources: Sources, request: Request) -> None:
        self.problem, self.sources, self.request = sources.problem, sources, request
        self.start = sources.start
        moments = [self.start, *request.times]
        self.longest = max((b - a for a, b in pairwise(moments)), default=0.0)
        self.most = request.limits.modes[max(len(request.shape) - 1, 0)]
        self.axes = request.axes(self.problem.space)
        self.samples: Sequence[int] = range(sources.batch)
        self._unseen: dict[tuple[int, ...], Tensor] = {}

    def run(self) -> Solution:
        """Solve every sample on levels as fine as it needs.

        Returns:
            The solution; samples whose tolerance is not met are described in its notes.

        Raises:
            SolverError: If a sample has no finite solution on any level.
        """
        return Refinement(self).run()

    def first(self, samples: Sequence[int]) -> Mapping[int, L]:
        """Return the level that each sample begins with; by default the coarsest for all."""
        return dict.fromkeys(samples, self.coarsest)

    @cached_property
    def features(self) -> Features:
        """The features of the data, and of the inverses of diffusion coefficients."""
        return Features(self.sources, resistances(self.sources))

    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor] | None:
        """Return where a grid takes the data of the problem: along axes of space, by their names.

        What lies between is added to the estimate; None where nothing is to be added.
        """
        return None

    def unseen(self, sizes: tuple[int, ...]) -> Tensor:
        """Return what is added to estimates on a grid, of the whole batch ``[B]``, found once."""
        if sizes not in self._unseen:
            self._unseen[sizes] = self.find_unseen(sizes)
        return self._unseen[sizes]

    def sees(self, sizes: tuple[int, ...], sample: int) -> bool:
        """Whether a grid sees the data of a sample, up to the tolerance."""
        return float(self.unseen(sizes)[sample]) <= self.request.tolerance

    def find_unseen(self, sizes: tuple[int, ...]) -> Tensor:
        """Return what a grid does not see of the data; see :meth:`Features.unseen`."""
        points = self.data_points(sizes)
        if points is None:
            device = self.sources.device
            return torch.zeros(self.sources.batch, dtype=torch.float64, device=device)
        part = 1 / math.prod(self.request.shape)
        return self.features.unseen(points, self.initial_means, part)

    def effects(self, level: L, indices: Sequence[int], results: Sequence[R]) -> Sequence[float]:
        """How far solutions may be off by what a level misses of the data, each by its own effect.

        Args:
            level: Resolution.
            indices: Positions in the batch.
            results: Of these samples on this level.

        Returns:
            Bounds of relative errors; zero for a method that cannot tell.
        """
        return [0.0] * len(indices)

    def finer(self, level: L) -> L | None:
        """The next level that sees more of the data; None where the limits allow none."""
        return None

    @abstractmethod
    def solve(self, level: L, samples: Sequence[int], earlier: Earlier[R]) -> SolvedSamples[R]:
        """Solve samples on a level and estimate their errors.

        Args:
            level: Resolution.
            samples: Positions in the batch.
            earlier: Of each sample, at most ``history`` results.
        """

    def bytes_per_sample(self, level: L) -> float:
        """Return the memory that a sample takes on a level; samples share :data:`MEMORY`."""
        return 1.0

    def work(self, level: L) -> float:
        """Return a number that the time of a level is about proportional to.

        By default its points, times as many steps as it has points along an axis where there is
        time: 2^(d+1) times more where the cells of an evolution in d dimensions are halved.
        """
        return math.prod(level.sizes) * (max(level.sizes, default=1) if self.request.times else 1)

    def after_failure(self, level: L) -> L | None:
        """Return the level to go on to where a solution is not finite; None where there is none."""
        return None

    def failure_message(self, level: L, time: float) -> str:
        """Return the message on a sample whose solution is not finite on any level."""
        return "the solution is not finite"


@final
class Refinement(Generic[L, R]):
    """Adaptive refinement of a batch: what is known of each of its samples so far.

    Args:
        solver: The method, with its samples.
    """

    def __init__(self, solver: LevelSolver[L, R]) -> None:
        self.solver, self.request, self.samples = solver, solver.request, solver.samples
        request, count = solver.request, len(solver.samples)
        f64 = {"dtype": torch.float64, "device": request.device}
        self.values: dict[str, Tensor] = {}
        self.rates: dict[str, Tensor] = {}
        self.error, self.step = torch.full((count,), math.inf, **f64), torch.zeros(count, **f64)
        self.modes = torch.zeros((count, len(request.shape)), dtype=torch.int64)
        self.notes: list[str] = []
        self.used = [0] * count
        self.earlier: list[list[R]] = [[] for _ in range(count)]
        self.failures: list[list[float]] = [[] for _ in range(count)]
        self.ended_by_time = torch.zeros(count, dtype=torch.bool)
        self.limited = request.limits.seconds < math.inf
        self.seconds = 0.0  # for a sample and unit of work, on the last level
        self.kept: dict[int, tuple[L, R]] = {}  # where time may end the refinement
        self.surely: int | None = None

    def run(self) -> Solution:
        """Solve all samples; see :meth:`LevelSolver.run`."""
        count, request = len(self.samples), self.request
        size = self.solver.at_a_time or count
        for low in range(0, count, size):
            self._refine(range(low, min(count, low + size)))
        return Solution(
            torch.tensor(request.times, dtype=torch.float64, device=request.device),
            self.solver.axes,
            self.values,
            self.rates,
            self.error,
            self.modes,
            self.step,
            request.tolerance,
            tuple(self.notes),
            ended_by_time=self.ended_by_time if self.limited else None,
        )

    def _refine(self, indices: Sequence[int]) -> None:
        waiting: dict[L, list[int]] = {}
        for index, level in self.solver.first(indices).items():
            waiting.setdefault(level, []).append(index)
        while waiting:
            level = min(waiting, key=lambda v: v.cost)
            group = waiting.pop(level)
            size = max(1, int(MEMORY // self.solver.bytes_per_sample(level)))
            for low in range(0, len(group), size):
                fitting = self._within_time(level, group[low : low + size])
                for index, following in self._solve(level, fitting) if fitting else []:
                    waiting.setdefault(following, []).append(index)

    def _within_time(self, level: L, indices: list[int]) -> list[int]:
        """Return the samples that time is left for on a level; end the refinement of the others.

        One sample goes on until an error is known.
        """
        if not self.limited:
            return indices
        needed, left = self.seconds * self.solver.work(level), self.request.seconds_left
        count = len(indices) if needed <= 0 < left else max(0, int(left / max(needed, 1e-9)))
        fitting = indices[:count]
        if not (fitting or self.kept or bool(self.error.isfinite().any())):
            self.surely = indices[0] if self.surely is None else self.surely
            fitting = [index for index in indices if index == self.surely]
        self._end_for_time([index for index in indices if index not in fitting])
        return fitting

    def _end_for_time(self, indices: Sequence[int]) -> None:
        """End the refinement of samples on the levels that they have reached."""
        reached: dict[L, list[int]] = {}
        self.ended_by_time[list(indices)] = True
        for index in indices:
            if index in self.kept:
                reached.setdefault(self.kept[index][0], []).append(index)
            else:
                self.notes.append(f"sample {self.samples[index]}: not solved, because {_NO_TIME}")
        for level, group in reached.items():
            results: list[R | None] = [self.kept[index][1] for index in group]
            self._add_effects(level, group, results, [Stop.TIME for _ in group])
            for index, result in zip(group, results, strict=True):
                if result is not None:
                    self._finish(index, result, Stop.TIME)

    def _solve(self, level: L, indices: list[int]) -> list[tuple[int, L]]:
        """Solve samples on a level; return those that go on, with the level that is next."""
        solver, unfinished, finished, begun = self.solver, [], {}, time.monotonic()
        solved = solver.solve(level, indices, [self.earlier[i] for i in indices])
        added = zip(solved.results, solver.unseen(level.sizes)[indices].tolist(), strict=True)
        results = [r and with_unseen(r, unseen, r.missed) for r, unseen in added]
        for index in indices:
            self.used[index] += 1
        stops = [self._reason(i, r) for i, r in zip(indices, results, strict=True)]
        self._add_effects(level, indices, results, stops)
        if solver.joint and None in stops:
            stops = [None for _ in stops]
        kept: dict[int, int] = {}
        for row, (index, result) in enumerate(zip(indices, results, strict=True)):
            stop = stops[row]
            if result is None:
                unfinished.append((index, self._after_failure(level, index, solved.until[row])))
                self.earlier[index] = []
            elif stop is None and result.finer is not None:
                own = replace(result, values=result.values.clone())  # without the others' values
                self.earlier[index] = [own, *self.earlier[index][: solver.history - 1]]
                unfinished.append((index, result.finer))
                if self.limited and math.isfinite(result.bound):
                    self.kept[index], kept[row] = (level, own), index
            else:
                self._finish(index, result, stop or Stop.FINEST)
                finished[row] = index
        if stored := finished | kept:
            self._store(stored, solved)
        self.seconds = (time.monotonic() - begun) / len(indices) / solver.work(level)
        described = [r.description for r in results if r is not None]
        self.request.progress(len(finished), described[-1] if described else "no finite solution")
        return unfinished

    def _add_effects(
        self, level: L, indices: list[int], results: list[R | None], stops: list[Stop | None]
    ) -> None:
        """Add what data that a level misses do to the samples that end on it, and judge again."""
        unseen = self.solver.unseen(level.sizes)[indices].tolist()
        ending = {
            row: own
            for row, own in enumerate(results)
            if own is not None and stops[row] is not None and unseen[row] > _NOTHING
        }
        those = [indices[row] for row in ending]
        effects = self.solver.effects(level, those, [*ending.values()])
        for (row, own), effect in zip(ending.items(), effects, strict=True):
            more = replace(with_unseen(own, effect), finer=own.finer or self.solver.finer(level))
            results[row] = more
            if stops[row] is Stop.ACCURATE:
                stops[row] = self._reason(indices[row], more)

    def _reason(self, index: int, result: R | None) -> Stop | None:
        if result is None:
            return None
        wanted = self.solver.target * self.request.tolerance
        return reason_to_stop(result, self.used[index], self.request.limits.levels, wanted)

    def _after_failure(self, level: L, index: int, time: float) -> L:
        """Return the level to go on to, unless finer and finer ones fail at the same time."""
        times, solver = self.failures[index], self.solver
        times.append(time)
        same = max(times[-3:]) - min(times[-3:]) <= _SAME_TIME * solver.span
        blows_up = same and solver.span > 0 and len(times) >= solver.failures
        following = solver.after_failure(level)
        if blows_up or following is None:
            message = solver.failure_message(level, time)
            raise SolverError(f"sample {self.samples[index]}: {message}")
        return following

    def _finish(self, index: int, result: R, stop: Stop) -> None:
        error, tolerance = result.bound, self.request.tolerance
        self.error[index], self.step[index] = error, result.step
        self.modes[index] = torch.tensor(result.resolution)
        if not error <= tolerance:
            self.notes.append(
                f"sample {self.samples[index]}: tolerance {tolerance:.1e} not met; refinement "
                f"ended at {result.description} with an estimated error of {error:.1e}, because "
                f"{stop.value}{result.remark and '; '}{result.remark}"
            )

    def _store(self, finished: Mapping[int, int], solved: SolvedSamples[R]) -> None:
        rows, indices = list(finished), list(finished.values())
        for fields, found in zip((self.values, self.rates), solved.evaluate(rows), strict=True):
            for name, value in found.items():
                if name not in fields:
                    shape = (len(self.samples), *value.shape[1:])
                    fields[name] = value.new_full(shape, math.nan)
                fields[name][indices] = value
