"""Solve an elliptic equation on grids of cells, refined until the estimate meets the tolerance.

Cells are halved from level to level, and the order is that observed, within bounds that the
coefficient sets: on one with jumps single differences depend on where its interfaces pass between
centres, and no more than the first order is credited. Where all data are smooth, the second
order is observed and cells meet at the nodes of the output, the leading error is extrapolated away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.forms.linear_forms import divergence_form
from piop.reference.elliptic.assemble import CellSystem
from piop.reference.elliptic.cells import cell_edges, first_grid
from piop.reference.elliptic.linear_solve import solve_cells
from piop.reference.elliptic.sub_cells import points_inside
from piop.reference.features import Features
from piop.reference.input_values import Sources
from piop.reference.levels import (
    SAFETY,
    Earlier,
    Fields,
    GridLevel,
    GridResult,
    SolvedSamples,
    observed_order,
    richardson_error,
)
from piop.reference.refinement import LevelSolver
from piop.reference.solution import Request

_WORTHWHILE = (8192, 512, 64)
"""Cells per axis, by dimension, beyond which nothing is refined that cannot reach the tolerance."""
_NUMBERS = 120  # float64 numbers per cell that a sample takes, about
_KINK = 1e-5
"""Relative error by a kink inside a piece of a line, per length of the piece in parts of the line:
Gauss's rule misses 0.02 of length² × change of slope, of which corners show all but 4e-4."""
_SECOND = (1.8, 2.2)  # observed orders that are taken for the second


@final
class CellSolver(LevelSolver[GridLevel, GridResult]):
    """Solves a steady linear equation in divergence form on a box.

    Cell-centred finite volumes with harmonic means, solved by conjugate gradients with a multigrid
    preconditioner.

    Raises:
        SolverError: If an equation is not elliptic or has no solution.
    """

    history = 2

    def __init__(self, sources: Sources, request: Request) -> None:
        super().__init__(sources, request)
        self.form = divergence_form(self.problem.pde)
        self.worthwhile = min(_WORTHWHILE[len(request.shape) - 1], self.most)
        sizes, self.aligned = first_grid(self.problem, request.shape, self.most)
        self.coarsest = GridLevel(1, sizes)
        self.algebraic = min(1e-9, max(1e-2 * request.tolerance, 1e-12))
        self.first_imbalance: dict[int, float] = {}

    def bytes_per_sample(self, level: GridLevel) -> float:
        """See the base class."""
        return 8 * _NUMBERS * math.prod(level.sizes)

    @cached_property
    def features(self) -> Features:
        """The features of the data, and of the resistance to fluxes."""
        resistance = [1 / a for a in self.form.diffusion]
        by_means = [self.form.source, self.form.reaction] if len(self.problem.space) > 1 else []
        return Features(self.sources, resistance, by_means)

    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor]:
        """See the base class."""
        return points_inside(self.problem.space, sizes, self.sources.device)

    def find_unseen(self, sizes: tuple[int, ...]) -> Tensor:
        """See the base class."""
        counts = zip(self.problem.space, sizes, strict=True)
        cells = {c.name: cell_edges(c, n, self.sources.device) for c, n in counts}
        return self.features.unseen(self.data_points(sizes), cells=cells)

    def solve(
        self, level: GridLevel, samples: Sequence[int], earlier: Earlier[GridResult]
    ) -> SolvedSamples[GridResult]:
        """See the base class."""
        sources = self.sources.take(samples)
        system = CellSystem(self.form, sources, samples, level.sizes, self.features)
        cells = solve_cells(system, self.algebraic, self.form.gauge, samples)
        values = system.reconstruct(cells, self.request.shape)
        found = [self._result(level, *own) for own in zip(samples, values, earlier, strict=True)]
        imbalance = system.imbalance.tolist()
        for sample, own in zip(samples, imbalance, strict=True):
            self.first_imbalance.setdefault(sample, own)

        def evaluate(rows: Sequence[int]) -> Fields:
            for row in rows:
                self._require_balance(samples[row], imbalance[row])
            return {self.form.unknown: torch.stack([found[row][1] for row in rows])}, {}

        return SolvedSamples([result for result, _ in found], evaluate)

    def _result(
        self, level: GridLevel, sample: int, values: Tensor, earlier: Sequence[GridResult]
    ) -> tuple[GridResult, Tensor]:
        """Return a result, and the values whose error it bounds: its own, or extrapolated ones."""
        seen = all(self.sees(tuple(e.resolution), sample) for e in earlier)
        estimated, error, order = self._estimate([values, *(e.values for e in earlier)], seen)
        if self.form.kinked and len(level.sizes) == 1:
            error += _KINK / (2 * level.sizes[0])
        left = math.floor(math.log2(self.most / max(level.sizes)))
        cheap = 2 * max(level.sizes) <= self.worthwhile
        why = "its coefficient has jumps" if self.form.rough else "it is not resolved"
        result = GridResult(
            error,
            level.halved() if left >= 1 else None,
            level.sizes,
            f"{level.grid} cells",
            values,
            expected=0.0 if cheap else error * 2 ** (-left * order),
            remark=f"the error falls with order {order:.1f}: {why}",
        )
        return result, estimated

    def _estimate(self, values: Sequence[Tensor], seen: bool) -> tuple[Tensor, float, float]:
        """Estimate the error of the last grid's values, or of extrapolated ones, and its order.

        Args:
            values: On this grid and the ones before.
            seen: Whether all of them see the data: otherwise the order is that of chance.
        """
        scale = max(float(values[0].norm()), 1e-300)
        if len(values) < 2:
            return values[0], math.inf, 1.0
        differences = [float((a - b).norm()) / scale for a, b in pairwise(values)]
        observed = observed_order(differences)
        smooth = self.aligned and seen and not self.form.kinked
        if smooth and len(values) > 2 and _SECOND[0] < observed < _SECOND[1]:
            new, old = (fine + (fine - coarse) / 3 for fine, coarse in pairwise(values))
            difference = float((new - old).norm()) / scale
            return new, SAFETY * difference / 3 + self.algebraic, 3.0  # credits order 2 of 3
        order = min(max(observed, 0.5), 1.0 if self.form.rough or not seen else 2.0)
        return values[0], richardson_error(differences[0], order) + self.algebraic, order

    def _require_balance(self, sample: int, imbalance: float) -> None:
        """Where a constant is free, sources and fluxes through walls must balance."""
        allowed = max(self.request.tolerance, 1e-9, 0.5 * self.first_imbalance[sample])
        if self.form.gauge is not None and imbalance > allowed:
            raise SolverError(
                f"sample {sample}: the equation for {self.form.unknown} has no solution: sources "
                f"and fluxes through the walls do not balance, their sum is {imbalance:.1e} of "
                "their size; subtract the mean"
            )
