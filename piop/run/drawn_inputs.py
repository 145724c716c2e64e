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
from piop.fields import grid_axis
from piop.problem import Problem
from piop.run.held_out import Grid, HeldOut, HeldOutSource, Sensors, observed_at
from piop.run.references import Progress, Reference, References
from piop.run.user_inputs import save_grid
from piop.sampling import Draws, observe, sample_inputs
from piop.sampling.random import HELD_OUT, NEWEST_SCHEME

GRID_LIMITS = {0: (101, 1), 1: (21, 128), 2: (6, 32), 3: (6, 16)}
"""Largest numbers of times and points per space axis of an evaluation, by the number of axes."""

FIGURE_LIMITS = (101, 256)
"""Largest numbers of times and points of figures in one space dimension."""
LOOSE = 1e-2
"""Tolerance that references of an evaluation are solved to first."""
PART = 0.1
"""Part of an operator's error that the estimate of its reference may reach."""
LEAST, DOUBLING = 4, 2
"""Samples solved before time is looked at; factor between batches where time is short, so that a
wrong guess of their seconds is small beside what was solved."""
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

    def size(self, done: int, known: bool) -> int:
        """Return the most samples of the next batch; 0 where none fits.

        Args:
            done: Samples so far.
            known: Whether the references of the next ones are kept.
        """
        if self.seconds is None:
            return sys.maxsize
        left = self.seconds - (clock.monotonic() - self.start)
        if not (before := self.solved[known]):
            return max(LEAST if left > 0 else 0, LEAST - done, 0)
        fitting = left / max(self.spent[known] / before, 1e-9)
        return max(int(max(fitting / CAUTION, min(fitting, DOUBLING * before))), LEAST - done, 0)

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
    """

    problem: Problem
    samples: int
    seed: int
    queries: Queries | None = None
    sensors: Sensors | None = None
    end: bool = False
    scheme: int = NEWEST_SCHEME

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
        errors: Callable[[HeldOut], Tensor],
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> HeldOut:
        """Solve coarsely, and again only where the estimate is large beside the operator's error.

        Samples are solved in their order, in batches, as long as the next batch fits in the time.
        """
        found = self._references.kept(range(self.requested))
        kept, batches = set(found), Batches(seconds)
        parts: list[HeldOut] = []
        done = 0
        while done < self.requested:
            known = done in kept
            size = batches.size(done, known)
            if size == 0:
                break
            alike = next((i for i in range(done, self.requested) if (i in kept) != known), None)
            last = self.requested if alike is None or seconds is None else alike
            batch = range(done, min(last, done + size))
            with batches.timing(known, len(batch)):
                parts.append(self._judging(found, batch, errors, progress))
            done = batch.stop
            if progress is not None:
                progress(done, self.requested)
        accepted = torch.cat([part.accepted for part in parts])
        return self._with_solutions(range(done), found, accepted)

    def _judging(
        self,
        found: dict[int, Reference],
        batch: range,
        errors: Callable[[HeldOut], Tensor],
        progress: Progress | None,
    ) -> HeldOut:
        """Solve a batch as exactly as its errors need."""
        usual = self._references.usual_tolerance()
        show = None if progress is None else lambda n: progress(batch.start + n, self.requested)
        self._solve(found, batch, max(LOOSE, usual), show)
        wanted, waiting = dict.fromkeys(batch, math.inf), list(batch)
        while waiting:  # each round asks for less than the last one reached
            nothing = torch.zeros(len(waiting), dtype=torch.bool)
            solved = self.on_usual_grid(self._with_solutions(waiting, found, nothing))
            parts = (PART * errors(solved)).nan_to_num(nan=math.inf, posinf=math.inf)
            wanted |= dict(zip(waiting, parts.clamp_min(usual).tolist(), strict=True))
            waiting = [i for i in waiting if not (found[i].serves(wanted[i]) or found[i].missed)]
            self._solve(found, waiting, min((wanted[i] for i in waiting), default=usual))
        accepted = torch.tensor([found[i].error <= wanted[i] for i in batch])
        return self._with_solutions(batch, found, accepted)

    def _solve(
        self,
        found: dict[int, Reference],
        samples: Sequence[int],
        tolerance: float,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Solve those that are not solved to this tolerance yet."""
        missing = [i for i in samples if i not in found or not found[i].serves(tolerance)]
        if missing:
            found |= self._references.solve(missing, tolerance, progress)

    def _with_solutions(
        self, samples: Sequence[int], found: Mapping[int, Reference], accepted: Tensor
    ) -> HeldOut:
        """Draw inputs and lay them beside their references."""
        problem, references = self.problem, [found[i] for i in samples]
        draws = Draws.of(HELD_OUT, self.seed, samples, self.scheme)
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
        """Keep every k-th time and point of the grid of figures."""
        fine = held_out.queries.axes
        if self.queries is not None or fine is None:
            return held_out
        index = {
            name: (fine[name][:, None] - axis).abs().argmin(0)
            for name, axis in (self._usual().axes or {}).items()
        }
        return held_out.on_part(index)

    @cached_property
    def _references(self) -> References:
        return References(self.problem, self.seed, self.scheme, self.queries or self._fine())

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
