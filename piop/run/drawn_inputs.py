"""Held-out inputs drawn from their distributions, solved as exactly and as many as time allows."""

from __future__ import annotations

import math
import sys
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import SolverError
from piop.fields import grid_axis
from piop.problem import Problem
from piop.run.held_out import (
    Grid,
    HeldOut,
    HeldOutSource,
    Judge,
    JudgedSamples,
    Sensors,
    observed_at,
)
from piop.run.references import Progress, Reference, References
from piop.run.user_inputs import save_grid
from piop.sampling import Draws, observe, sample_inputs
from piop.sampling.random import HELD_OUT, NEWEST_SCHEME, Purpose

GRID_LIMITS = {0: (101, 1), 1: (21, 128), 2: (6, 32), 3: (6, 16)}
"""Largest numbers of times and points per space axis of an evaluation, by the number of axes."""

FIGURE_LIMITS = (101, 256)
"""Largest numbers of times and points of figures in one space dimension."""
LOOSE = 1e-2
"""Tolerance that references of an evaluation are solved to first."""
PART = 0.1
"""Part of an operator's error that the estimate of its reference may reach."""
FAILURES = 3
"""Failed references from which on an evaluation ends, where they are more than those solved."""
FIRST, DOUBLING = 1, 2
"""Samples of the first batch; factor between batches where time is short, so that a wrong guess of
their seconds is small beside what was solved."""
CAUTION = 4
"""Factor by which samples may take longer than those before and still fit in the time: a batch that
fits so is solved at once, however large, since one large batch takes less than several small ones.
"""


@final
class Batches:
    """Sizes of batches that fit in a time.

    References that are kept and those that are not have each their own seconds per sample.

    Args:
        seconds: The time; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.start = seconds, clock.monotonic()
        self.spent, self.solved = {True: 0.0, False: 0.0}, {True: 0, False: 0}
        self.predicting, self.predicted = 0.0, 0

    def size(self, done: int, known: bool) -> int:
        """Return the most samples of the next batch; 0 where none fits.

        Args:
            done: Samples so far.
            known: Whether the references of the next ones are kept.
        """
        if self.seconds is None:
            return sys.maxsize
        if not (before := self.solved[known]):
            return FIRST if done == 0 or self.left() > 0 else 0
        fitting = self.left() / max(self.spent[known] / before, 1e-9)
        return max(int(max(fitting / CAUTION, min(fitting, DOUBLING * before))), 0)

    def left(self, predictions: int = 0) -> float:
        """Return the seconds left for references, beside so many predictions."""
        if self.seconds is None:
            return math.inf
        prediction = self.predicting / max(self.predicted, 1)
        return self.seconds - (clock.monotonic() - self.start) - predictions * prediction

    def predict(self, judge: Judge, held_out: HeldOut) -> Mapping[str, Tensor]:
        """Predict the solutions of samples, and measure how long it takes."""
        start = clock.monotonic()
        prediction = judge.predict(held_out)
        self.predicting += clock.monotonic() - start
        self.predicted += len(held_out.accepted)
        return prediction

    @contextmanager
    def timing(self, known: bool, samples: int) -> Iterator[None]:
        """Measure a batch."""
        start = clock.monotonic()
        yield
        self.spent[known] += clock.monotonic() - start
        self.solved[known] += samples


@final
@dataclass(frozen=True)
class DrawnInputs(HeldOutSource):
    """Held-out inputs drawn from their distributions and solved by the reference.

    Attributes:
        problem: The problem, its parameters being numbers.
        samples: Number of samples.
        seed: Seed of the run from which they are held out.
        scheme: How their random numbers are kept apart from others.
        queries: Grid of the references; by default the ``save`` grid with fewer points.
        sensors: Input → (count or counts per axis, placement), where not as in the spec.
        end: Keep only the final time, for operators that predict no other.
        purpose: What the inputs are for.
    """

    problem: Problem
    samples: int
    seed: int
    queries: Queries | None = None
    sensors: Sensors | None = None
    end: bool = False
    scheme: int = NEWEST_SCHEME
    purpose: Purpose = HELD_OUT

    name = "law"

    @property
    def requested(self) -> int:
        """See the base class; a problem without inputs has one solution."""
        return self.samples if self.problem.inputs else 1

    def held_out(self) -> HeldOut:
        """Draw the inputs and solve for their references.

        Raises:
            UsageError: If sensors are requested of no visible input, or cannot be placed so.
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        source, samples = self._references, range(self.requested)
        tolerance, found = source.usual_tolerance(), source.kept(samples)
        self._solve(found, samples, tolerance)
        accepted = torch.tensor([found[i].error <= tolerance for i in samples])
        return self.on_usual_grid(self._with_solutions(samples, found, accepted))

    def judging(
        self,
        judge: Judge,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> JudgedSamples:
        """Solve coarsely, and again only where the estimate is large beside the operator's error.

        Samples are solved in their order, in batches, as long as the next batch fits in the time.
        Within a batch, no level is begun that does not fit: a sample is left with the solution and
        the error estimate of the level before, and out where no error is known. Samples whose
        references fail are left out, unless most do.
        """
        found = self._references.kept(range(self.requested))
        kept, batches = set(found), Batches(seconds)
        failed: dict[int, str] = {}
        solved: list[int] = []
        accepted: list[Tensor] = []
        predictions: list[Mapping[str, Tensor]] = []
        done = 0
        while done < self.requested and done == len(solved) + len(failed):
            known = done in kept
            size = batches.size(done, known)
            if size == 0:
                break
            alike = next((i for i in range(done, self.requested) if (i in kept) != known), None)
            last = self.requested if alike is None or seconds is None else alike
            batch = range(done, min(last, done + size))
            with batches.timing(known, len(batch)):
                part = self._judging(found, failed, batch, judge, batches, progress)
            solved += [i for i in batch if i in found]
            if part is not None:
                predictions.append(part[0])
                accepted.append(part[1])
            done = batch.stop
            if progress is not None:
                progress(len(solved), self.requested)
        if not solved:
            raise SolverError(next(iter(failed.values())))
        fine = self._with_solutions(solved, found, torch.cat(accepted))
        together = {name: torch.cat([p[name] for p in predictions]) for name in predictions[0]}
        return JudgedSamples(fine, self.on_usual_grid(fine), together, failed)

    def _judging(
        self,
        found: dict[int, Reference],
        failed: dict[int, str],
        batch: range,
        judge: Judge,
        batches: Batches,
        progress: Progress | None,
    ) -> tuple[Mapping[str, Tensor], Tensor] | None:
        """Solve a batch as exactly as its errors need.

        Returns:
            Predictions and which references are accepted; None where all of them fail.
        """
        usual = self._references.usual_tolerance()
        show = None if progress is None else lambda n: progress(batch.start + n, self.requested)
        start = clock.monotonic()
        loose, left = max(LOOSE, usual), batches.left(len(batch))
        self._solve_apart(found, failed, batch, loose, left, show)
        again = (clock.monotonic() - start) / len(batch) * self._finer_level
        if not (samples := [i for i in batch if i in found]):
            return None
        wanted, waiting = dict.fromkeys(samples, math.inf), samples
        held_out = self.on_usual_grid(self._with_solutions(samples, found, _none(samples)))
        prediction = batches.predict(judge, held_out)
        while waiting:  # each round asks for less than the last one reached
            rows = [samples.index(i) for i in waiting]
            own = {name: value[rows] for name, value in prediction.items()}
            parts = (PART * judge.errors(held_out, own)).nan_to_num(nan=math.inf, posinf=math.inf)
            wanted |= dict(zip(waiting, parts.clamp_min(usual).tolist(), strict=True))
            left = batches.left()
            waiting = [i for i in waiting if _goes_on(found[i], wanted[i], left)]
            waiting = [i for i in waiting if not found[i].missed]
            if again * len(waiting) > left:
                waiting = waiting[: max(0, int(left / again))]
            if waiting:
                part = min(wanted[i] for i in waiting)
                self._solve_apart(found, failed, waiting, part, left)
                held_out = self.on_usual_grid(self._with_solutions(waiting, found, _none(waiting)))
        return prediction, torch.tensor([found[i].error <= wanted[i] for i in samples])

    def _solve_apart(
        self,
        found: dict[int, Reference],
        failed: dict[int, str],
        samples: Sequence[int],
        tolerance: float,
        seconds: float,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Solve samples together; where that fails, each half of them, down to those that fail.

        One that fails on finer grids keeps its solution.

        Args:
            found: References by sample; takes those that are solved.
            failed: Takes the samples that have no reference, with the reason.
            samples: Their numbers.
            tolerance: Largest error estimate accepted.
            seconds: Time after which refinement ends.
            progress: Takes how many of them are solved.

        Raises:
            SolverError: If more fail than are solved.
        """
        end = clock.monotonic() + seconds
        try:
            self._solve(found, samples, tolerance, progress, seconds)
        except SolverError as error:
            first, half = samples[0], len(samples) // 2
            if half:
                for part in (samples[:half], samples[half:]):
                    left = max(0.0, end - clock.monotonic())
                    self._solve_apart(found, failed, part, tolerance, left)
            elif first in found:
                found[first] = replace(found[first], tolerance=tolerance)
            else:  # it is the first sample of those that the solver was given
                failed[first] = f"input {first}: {str(error).removeprefix('sample 0: ')}"
                if len(failed) >= FAILURES and len(failed) > len(found):
                    raise

    @property
    def _finer_level(self) -> int:
        """Return how much longer a level of half the cells, and steps, takes."""
        return 2 ** (len(self.problem.space) + (self.problem.time is not None))

    def _solve(
        self,
        found: dict[int, Reference],
        samples: Sequence[int],
        tolerance: float,
        progress: Callable[[int], None] | None = None,
        seconds: float = math.inf,
    ) -> None:
        """Solve those that are not solved to this tolerance yet."""
        missing = [i for i in samples if i not in found or _goes_on(found[i], tolerance, seconds)]
        if missing:
            found |= self._references.solve(missing, tolerance, progress, seconds, found)

    def _with_solutions(
        self, samples: Sequence[int], found: Mapping[int, Reference], accepted: Tensor
    ) -> HeldOut:
        """Draw inputs and lay them beside their references."""
        problem, references = self.problem, [found[i] for i in samples]
        draws = Draws.of(self.purpose, self.seed, samples, self.scheme)
        functions = sample_inputs(problem, draws)
        each = [r.points for r in references if r.points is not None]
        points = torch.stack(each) if each else None
        observed = observe(functions, problem, draws, points=points)
        return HeldOut(
            functions,
            observed | observed_at(problem, functions, draws, self.sensors),
            self._references.queries if points is None else Queries(points=points),
            {n: torch.stack([r.values[n] for r in references]) for n in references[0].values},
            torch.tensor([r.error for r in references], dtype=torch.float64),
            accepted,
        )

    def on_usual_grid(self, held_out: HeldOut) -> HeldOut:
        """Keep of samples of :meth:`judging` every k-th time and point."""
        fine = held_out.queries.axes
        if self.queries is not None or fine is None:
            return held_out
        usual = self._usual().axes or {}
        if all(len(fine[name]) == len(axis) for name, axis in usual.items()):
            return held_out
        index = {n: (fine[n][:, None] - axis).abs().argmin(0) for n, axis in usual.items()}
        return held_out.on_part(index)

    @cached_property
    def _references(self) -> References:
        queries = self.queries or self._fine()
        return References(self.problem, self.seed, self.scheme, queries, self.purpose)

    def on_grids(self, grids: Sequence[Grid]) -> Iterator[HeldOut]:
        """Solve for the same inputs on one grid in space after another; times stay."""
        for grid in grids:
            axes = dict(self._usual().axes or {})
            for axis, count in zip(self.problem.space, grid, strict=True):
                axes[axis.name] = grid_axis(axis.low, axis.high, count, axis.periodic)
            yield replace(self, queries=Queries(axes=axes)).held_out()

    def _usual(self) -> Queries:
        return save_grid(self.problem, GRID_LIMITS[len(self.problem.space)], self.end)

    def _fine(self) -> Queries:
        """Return the grid of figures: in one dimension finer than the usual one and around it."""
        problem = self.problem
        if len(problem.space) != 1:
            return self._usual()
        limits = []
        for i, most in enumerate(FIGURE_LIMITS):
            axis = problem.coordinates[min(i, len(problem.coordinates) - 1)]
            count = problem.save[min(i, len(problem.save) - 1)]
            ends = not axis.periodic  # both ends count, and n intervals have n + 1 points
            usual = min(count, GRID_LIMITS[1][i]) - ends
            factor = max(1, (min(count, most) - ends) // max(usual, 1))
            limits.append(factor * usual + ends)
        return save_grid(problem, (limits[0], limits[1]), self.end)


def _goes_on(reference: Reference, tolerance: float, seconds: float) -> bool:
    """Whether a reference is solved again, to a smaller tolerance, in so many seconds."""
    if reference.ended_by_time and seconds < math.inf:
        return False  # it would end so again
    return not reference.serves(tolerance)


def _none(samples: Sequence[int]) -> Tensor:
    """Return that no sample is accepted yet."""
    return torch.zeros(len(samples), dtype=torch.bool)
