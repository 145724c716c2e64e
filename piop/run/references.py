"""Reference solutions of held-out inputs, one for each sample, kept in the user's cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self, final

import torch
from torch import Tensor

from piop import user_cache
from piop.datasets import Queries
from piop.problem import Problem
from piop.problem.capabilities import usual_tolerance
from piop.reference import solve_reference
from piop.reference.solution import Limits
from piop.run.solution_at_queries import solution_shape, solution_times, values_at
from piop.sampling import Draws, sample_inputs
from piop.sampling.random import HELD_OUT, Purpose
from piop.sampling.stored_functions import file_digests

Progress = Callable[[int, int], None]
"""Takes how many references are solved, and of how many."""


@final
@dataclass(frozen=True)
class Reference:
    """The reference solution of one sample.

    Attributes:
        values: Channel → float64, at the queries of the references.
        points: Positions of the values ``[P, d]``; None on a grid.
        error: Its error estimate.
        tolerance: The error estimate that was requested; infinite where time ended the refinement.
    """

    values: Mapping[str, Tensor]
    points: Tensor | None
    error: float
    tolerance: float

    def serves(self, tolerance: float) -> bool:
        """Whether it is as good as one that is solved to this tolerance."""
        return self.error <= tolerance or self.tolerance <= tolerance

    @property
    def missed(self) -> bool:
        """Whether it did not reach its own tolerance; a smaller one fails for the same reason."""
        return not self.error <= self.tolerance

    @property
    def ended_by_time(self) -> bool:
        """Whether more time would have given a smaller error."""
        return self.tolerance == math.inf

    def to_tensors(self) -> dict[str, Tensor]:
        """Return it as tensors, for the user's cache."""
        tensors = {f"value/{name}": v for name, v in self.values.items()}
        if self.points is not None:
            tensors["points"] = self.points
        estimate = torch.tensor([self.error, self.tolerance], dtype=torch.float64)
        return tensors | {"estimate": estimate}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Make it of what :meth:`to_tensors` gave.

        Raises:
            KeyError: If it is something else.
        """
        error, tolerance = tensors["estimate"].tolist()
        prefix = "value/"
        values = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
        return cls(values, tensors.get("points"), error, tolerance)


@final
@dataclass(frozen=True)
class References:
    """The references of the held-out inputs of a seed.

    Attributes:
        problem: The problem, its parameters being numbers.
        seed: Seed of the run from which the inputs are held out.
        scheme: How their random numbers are kept apart from others.
        queries: Grid of the references.
        purpose: What the inputs are for.
    """

    problem: Problem
    seed: int
    scheme: int
    queries: Queries
    purpose: Purpose = HELD_OUT

    def usual_tolerance(self) -> float:
        """Return the tolerance of the method.

        Raises:
            NotSupportedError: If no reference solver covers the problem.
        """
        return usual_tolerance(self.problem)

    def kept(self, samples: Sequence[int]) -> dict[int, Reference]:
        """Return the references that an earlier evaluation left in the user's cache."""
        found = {}
        for sample in samples:
            tensors = user_cache.read_tensors(self._key(sample))
            with suppress(KeyError):
                if tensors is not None:
                    found[sample] = Reference.from_tensors(tensors)
        return found

    def solve(
        self,
        samples: Sequence[int],
        tolerance: float,
        progress: Callable[[int], None] | None,
        seconds: float = math.inf,
        before: Mapping[int, Reference] | None = None,
    ) -> dict[int, Reference]:
        """Solve samples together, and keep them in the user's cache.

        Args:
            samples: Their numbers.
            tolerance: Largest error estimate accepted.
            progress: Takes how many of them are solved.
            seconds: Time after which refinement ends; see ``Limits``.
            before: References that are there; they are kept where time allows none that is better.

        Returns:
            The references, without those of which no error is known for want of time.

        Raises:
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        problem, before = self.problem, before or {}
        draws = Draws.of(self.purpose, self.seed, samples, self.scheme)
        solution = solve_reference(
            problem,
            sample_inputs(problem, draws),
            times=solution_times(problem, self.queries),
            shape=solution_shape(problem, self.queries),
            tolerance=tolerance,
            progress=progress,
            limits=Limits(seconds=seconds),
        )
        points = solution.points
        values = solution.values
        if points is None:
            values = values_at(problem, solution, self.queries)
        each = None if points is None else points.cpu().expand(len(samples), -1, -1)
        late = solution.ended_by_time
        ended = [False] * len(samples) if late is None else late.tolist()
        found = {}
        for row, sample in enumerate(samples):
            error = float(solution.error_estimate[row])
            if ended[row] and sample in before and not error < before[sample].error:
                found[sample] = replace(before[sample], tolerance=math.inf)
            elif math.isfinite(error) or not ended[row]:
                found[sample] = Reference(
                    {name: value[row].double().cpu() for name, value in values.items()},
                    None if each is None else each[row],
                    error,
                    math.inf if ended[row] else tolerance,
                )
        whole = {s: r for s, r in found.items() if math.isfinite(r.error)}
        user_cache.write_tensors({self._key(s): r.to_tensors() for s, r in whole.items()})
        return found

    def _key(self, sample: int) -> str:
        axes = {name: axis.tolist() for name, axis in (self.queries.axes or {}).items()}
        files = file_digests(self.problem.inputs)
        identity = [self.problem.hash, self.problem.points, axes, files]
        numbers = [self.purpose.name, self.scheme, self.seed, sample]
        return user_cache.key_of(identity, numbers)
