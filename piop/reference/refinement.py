"""Adaptive refinement: solve each sample on finer and finer levels until its error is small enough.

A level is a resolution: a grid or a mesh, and steps where there is time. Samples on one level are
solved together, cheap levels first. From the results of successive levels a method estimates the
error of the last one; :class:`Refinement` then accepts it, goes on to the level that the method
proposes, or gives up for one of the reasons in :class:`Stop`.

The constants and formulas that estimates share are defined here. An error of order p shrinks by
2^p where cells are halved, so the finer of two levels that differ by d errs by d/(2^p − 1). The
order is that observed, log₂ of the ratio of two differences (L. F. Richardson and J. A. Gaunt,
Phil. Trans. R. Soc. A 226 (1927), doi:10.1098/rsta.1927.0008), within bounds that each method sets.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.reference.features import Features, resistances
from piop.reference.input_values import Sources
from piop.reference.solution import Request, Solution

SAFETY = 2.0
"""Factor on the error that the credited order implies."""
MEMORY = 2**29
"""Bytes that the samples solved together may take."""
_FLOOR = 1e-9  # an unknown smaller than this times the largest one is measured against that
_ROUNDING = 4e-15  # of the largest unknown, in others: 14 times machine precision was seen
_NOTHING = 1e-12  # part of the data that may be missed whatever it does
_SAME_SUM = 0.1  # relative change of what sources and fluxes leave over from level to level
_NO_TIME = "no time is left"
_SAME_TIME = 0.01  # of the interval of time: failures this close are at the same time

Fields = tuple[Mapping[str, Tensor], Mapping[str, Tensor]]
"""Values and time derivatives by name, each ``[R, T, *shape]``, without T for a steady problem."""


def relative_scale(norms: Tensor) -> Tensor:
    """Sizes that errors of unknowns are relative to ``[…, n]``, from the norms of all unknowns."""
    return torch.maximum(norms, _FLOOR * norms.amax(-1, keepdim=True)).clamp_min(1e-300)


def refuse(bad: Tensor, samples: Sequence[int], message: str) -> None:
    """Refuse samples that are bad anywhere ``[B, …]``.

    Args:
        bad: Where they are.
        samples: Number of each.
        message: What is wrong.

    Raises:
        SolverError: Naming the first sample.
    """
    if bool(bad.any()):
        first = int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
        raise SolverError(f"sample {samples[first]}: {message}")


def require_finite_start(state: Tensor, samples: Sequence[int]) -> None:
    """Refuse initial states ``[B, …]`` that are not finite."""
    refuse(~torch.isfinite(state.real), samples, "the initial state is not finite")


def require_inflow(inward: Tensor, given: bool, face: str, samples: Sequence[int]) -> None:
    """Require a condition of an equation of first order exactly where characteristics run in.

    Args:
        inward: Speed into the domain, at points of the face ``[B, …]``.
        given: Whether the face has a condition.
        face: Its name.
        samples: Number of each sample.

    Raises:
        SolverError: Naming the first sample.
    """
    does, has = ("out", "a condition") if given else ("in", "no condition")
    refuse(
        inward <= 0 if given else inward > 0,
        samples,
        f"at {face} characteristics run {does}, and there is {has}; an equation of first order "
        "needs one where they run in",
    )


def require_balance(left: float, before: float, allowed: float, unknown: str, sample: int) -> None:
    """Require sources and wall fluxes that cancel, of an equation that leaves a constant free.

    The integrals of data that balance leave an error of the quadrature, which changes from level to
    level; what two levels agree on is of the data.

    Args:
        left: Sum of the integrals on a level, relative to their size.
        before: The same on the level before.
        allowed: What may be left over.
        unknown: Which a constant is free of.
        sample: Number of the sample.

    Raises:
        SolverError: Naming the sample and what is left.
    """
    if abs(left) > allowed and abs(left - before) <= _SAME_SUM * abs(left):
        raise SolverError(
            f"sample {sample}: sources and wall fluxes of the equation of '{unknown}' leave "
            f"{left:.2e} of their size over, which no solution can balance; their integrals must "
            "cancel"
        )


def observed_order(differences: Sequence[float]) -> float:
    """Order of convergence from the last differences, newest first; 1 where it is not known yet."""
    if len(differences) < 2 or not min(differences) > 0:
        return 1.0
    return math.log2(differences[1] / differences[0])


def richardson_error(difference: float, order: float) -> float:
    """Bound of the error of the finer of two levels, one of half the cells of the other."""
    return SAFETY * difference / (2**order - 1)


class Level(ABC):
    """A resolution. Equal levels, which have equal hashes, are solved together.

    Attributes:
        sizes: Points or cells along each axis, or steps; on triangles, of a grid as fine as they.
    """

    sizes: tuple[int, ...]

    @property
    def grid(self) -> str:
        """The sizes, as in ``64 × 64``."""
        return " × ".join(map(str, self.sizes))

    @property
    @abstractmethod
    def cost(self) -> float:
        """Cheap levels are solved first."""


@final
@dataclass(frozen=True)
class GridLevel(Level):
    """A level of a sequence that all samples go through.

    Attributes:
        number: From 1 on.
        sizes: Points or cells along each axis, or steps; on triangles, of a grid as fine as they.
    """

    number: int
    sizes: tuple[int, ...]

    @property
    def cost(self) -> float:
        """One level after the other."""
        return self.number

    def halved(self) -> GridLevel:
        """The next level of a sequence in which cells, or steps, are halved."""
        return GridLevel(self.number + 1, tuple(2 * n for n in self.sizes))


L = TypeVar("L", bound=Level)
"""A kind of level."""


@dataclass(frozen=True)
class LevelResult(Generic[L]):
    """A sample solved on a level.

    Attributes:
        error: Bound of its relative error (see ``Solution.error_estimate``); infinite where the
            levels so far do not tell.
        finer: The level to go on to; None where the limits of the method allow none.
        expected: Error to expect on the finest level within the limits: refinement ends where that
            is above the tolerance.
        resolution: Points or cells along each axis.
        step: Longest step (units of time).
        description: The level, in the note on a sample whose tolerance is not met.
        values: The solution, as estimates on later levels need it.
        missed: Error by what terms of the equations hide between its points and steps.
        remark: The end of that note.
        reported: Bound to report where refinement ends here, if not ``error``.
    """

    error: float
    finer: L | None
    resolution: Sequence[int]
    description: str
    values: Tensor
    expected: float = field(default=0.0, kw_only=True)
    step: float = field(default=0.0, kw_only=True)
    missed: float = field(default=0.0, kw_only=True)
    remark: str = field(default="", kw_only=True)
    reported: float | None = field(default=None, kw_only=True)


R = TypeVar("R", bound=LevelResult[Any])
GridResult = LevelResult[GridLevel]
Earlier = Sequence[Sequence[R]]
"""Results of each sample on the levels before, newest first; none after a failure."""


def with_rounding(result: R, sizes: Tensor) -> R:
    """Add the error of unknowns of these sizes ``[n]`` by the rounding of the largest one."""
    lost = torch.minimum(_ROUNDING * sizes.amax(), sizes)
    rounding = float((lost / relative_scale(sizes)).amax())
    error = result.error + rounding
    remark = "it is the rounding of a larger unknown" if 2 * rounding > error else result.remark
    return replace(result, error=error, remark=remark)


@final
@dataclass(frozen=True)
class SolvedSamples(Generic[R]):
    """Samples solved together on one level.

    Attributes:
        results: One for each sample; None where the solution is not finite.
        evaluate: Positions among them of those that are finished → their fields on the output.
        until: First time at which each is not finite, 0 for a steady problem; not used for those
            with a result.
    """

    results: Sequence[R | None]
    evaluate: Callable[[Sequence[int]], Fields]
    until: Sequence[float] = ()


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


class Stop(Enum):
    """Why the refinement of a sample ends; the value says so in a note."""

    ACCURATE = "the tolerance is met"
    FINEST = "the finest level is reached"
    LEVELS = "no more levels are allowed"
    TIME = "a finer level would take longer than is left"
    CONVERGENCE = "it converges too slowly for finer levels to meet it"


def reason_to_stop(result: LevelResult[Any], used: int, most: int, wanted: float) -> Stop | None:
    """Decide whether a sample is refined further.

    Args:
        result: Of its last level.
        used: Levels it was solved on.
        most: Levels allowed.
        wanted: Error that must be met.

    Returns:
        None where it goes on to ``result.finer``.
    """
    if result.error <= wanted:
        return Stop.ACCURATE
    if result.finer is None:
        return Stop.FINEST
    if used >= most:
        return Stop.LEVELS
    if math.isfinite(result.error) and result.expected > wanted:
        return Stop.CONVERGENCE
    return None


def _with_unseen(result: R, unseen: float, missed: float = 0.0) -> R:
    """Add the error by data, and by terms of the equations, between the points of a level."""
    more = unseen + missed
    if more == 0:
        return result
    error = result.error + more
    own = None if result.reported is None else result.reported + more
    bound = error if own is None else own
    what = "terms of the equations" if missed > unseen else "data"
    remark = f"{what} vary between its points" if 2 * more >= bound else result.remark
    return replace(result, error=error, reported=own, remark=remark)


def _bound(result: LevelResult[Any]) -> float:
    """Return the bound to report of a result that refinement ends with."""
    return result.error if result.reported is None else result.reported


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
        results = [r and _with_unseen(r, unseen, r.missed) for r, unseen in added]
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
                if self.limited and math.isfinite(_bound(result)):
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
            more = replace(_with_unseen(own, effect), finer=own.finer or self.solver.finer(level))
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
        error, tolerance = _bound(result), self.request.tolerance
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
