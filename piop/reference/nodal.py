"""Methods that take data at the nodes of their grids, and may miss what lies between them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from torch import Tensor

from piop.errors import SolverError
from piop.reference.features import with_missed
from piop.reference.levels import SAFETY, L, R
from piop.reference.refinement import LevelSolver
from piop.reference.solution import BatchProgress


class NodalSolver(LevelSolver[L, R]):
    """A method that takes data at the nodes of its grids.

    A small part of the data that is missed may count for most of a solution: how far the solution
    moves when that part is added to the problem tells. See the base class.
    """

    _changed: tuple[tuple[int, ...], Self | None] | None = None

    @abstractmethod
    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor]:
        """Return the nodes along axes of space, by their names."""

    @abstractmethod
    def effect(self, before: R, after: R) -> float:
        """Difference of a solution and one with what a grid misses added, in the norm of estimates.

        A grid may see too much of the data as well as too little: the difference is relative to the
        smaller of the solution with it added and the one with it taken away.
        """

    def effects(self, level: L, indices: Sequence[int], results: Sequence[R]) -> Sequence[float]:
        """See the base class; infinite where there is no solution with what is missed."""
        changed = self._with_missed(level.sizes) if indices else None
        if changed is None:
            return [0.0] * len(indices)
        try:
            moved = changed.solve(level, indices, [[own] for own in results]).results
        except SolverError:  # what is missed has a mean, say, that no solution can balance
            return [math.inf] * len(indices)
        return [
            math.inf if after is None else SAFETY * self.effect(before, after)
            for before, after in zip(results, moved, strict=True)
        ]

    def _with_missed(self, sizes: tuple[int, ...]) -> Self | None:
        """The solver of the problem to which what a grid misses is added at its nodes.

        That of the last grid is kept: samples may come to it in several groups. None where nothing
        is missed.
        """
        if self._changed is None or self._changed[0] != sizes:
            points, changed = self.data_points(sizes), None
            if points and (missed := self.features.missed(points)):
                silent = replace(self.request, progress=BatchProgress(0))
                changed = type(self)(with_missed(self.sources, missed, points), silent)
                changed.features = self.features
            self._changed = sizes, changed
        return self._changed[1]
