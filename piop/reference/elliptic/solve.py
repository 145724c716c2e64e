"""Refine grids of cells, per sample, until the error that three of them show meets the tolerance.

Cells are halved from level to level, so that an error of order p shrinks by 2^p. The order is that
observed, log₂ of the ratio of two differences (L. F. Richardson and J. A. Gaunt, Phil. Trans. R.
Soc. A 226 (1927), doi:10.1098/rsta.1927.0008), within bounds that the coefficient sets: on one with
jumps single differences depend on where its interfaces pass between centres, and no more than the
first order is credited. Where the coefficient is smooth, the second order is seen and cells meet at
the nodes of the output, the leading error is extrapolated away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.forms.divergence import divergence_form
from piop.reference.elliptic.assemble import Assembler, reconstruct
from piop.reference.elliptic.grids import first_grid
from piop.reference.elliptic.linear_solve import solve_cells
from piop.reference.solution import Request, Solution
from piop.reference.sources import Sources

SAFETY = 2.0
_ENOUGH = (8192, 512, 64)
"""Cells per axis, by dimension, beyond which nobody goes who cannot reach the tolerance."""
_MEMORY = 2**28  # bytes of one chunk of the batch
_NUMBERS = 60  # float64 numbers per cell that a chunk holds at once, about
_SECOND = (1.8, 2.2)  # observed orders that are taken for the second


def solve_elliptic(
    problem: Any, functions: Mapping[str, InputFunction], request: Request
) -> Solution:
    """Solve a steady linear equation in divergence form on a box.

    Cell-centred finite volumes with harmonic means, solved by conjugate gradients with a multigrid
    preconditioner.

    Raises:
        SolverError: If an equation is not elliptic or has no solution.
    """
    sources = Sources(problem, functions, request.device)
    return EllipticRefinement(problem, sources, request).run()


@final
@dataclass
class EllipticTrack:
    """What is known of one sample.

    Attributes:
        values: On the output, of the last grid and the ones before ``[*shape]``, newest first.
        extrapolated: The same of extrapolated values.
        imbalance: Of the first and of the last grid, where the constant is free.
    """

    values: list[Tensor] = field(default_factory=list)
    extrapolated: list[Tensor] = field(default_factory=list)
    imbalance: list[float] = field(default_factory=list)


@final
@dataclass(frozen=True)
class Verdict:
    """An answer with its error.

    Attributes:
        values: ``[*shape]``.
        error: Estimated, relative.
        order: With which the error shrinks from level to level.
    """

    values: Tensor
    error: float
    order: float


@final
class EllipticRefinement:
    """Solve a batch, each sample on grids as fine as it needs.

    Args:
        problem: The ``Problem``.
        sources: Its inputs.
        request: What is asked.
    """

    def __init__(self, problem: Any, sources: Sources, request: Request) -> None:
        self.problem, self.sources, self.request = problem, sources, request
        self.form = divergence_form(problem.pde)
        rank = len(request.shape)
        self.cap = request.limits.modes[rank - 1]
        self.enough = min(_ENOUGH[rank - 1], self.cap)
        self.first, self.aligned = first_grid(problem, request.shape, self.cap)
        self.algebraic = min(1e-9, max(1e-2 * request.tolerance, 1e-12))
        f64 = {"dtype": torch.float64, "device": request.device}
        self.values = torch.empty((sources.batch, *request.shape), **f64)
        self.error = torch.full((sources.batch,), math.inf, **f64)
        self.cells = torch.zeros((sources.batch, rank), dtype=torch.int64)
        self.notes: list[str] = []

    def run(self) -> Solution:
        """Solve every sample."""
        tracks = {sample: EllipticTrack() for sample in range(self.sources.batch)}
        sizes, level = self.first, 1
        while tracks:
            for group in self._chunks(list(tracks), sizes):
                self._solve(group, tracks, sizes)
            for sample in list(tracks):
                verdict = self._judge(tracks[sample])
                if self._goes_on(verdict, sizes, level):
                    continue
                self._finish(sample, tracks.pop(sample), verdict, sizes)
            sizes, level = tuple(2 * n for n in sizes), level + 1
        device = self.request.device
        return Solution(
            torch.empty(0, dtype=torch.float64, device=device),
            self.request.axes(self.problem.space),
            {self.form.unknown: self.values},
            {},
            self.error,
            self.error <= self.request.tolerance,
            self.cells,
            torch.zeros(self.sources.batch, dtype=torch.float64, device=device),
            self.request.tolerance,
            tuple(self.notes),
        )

    def _chunks(self, samples: list[int], sizes: Sequence[int]) -> list[list[int]]:
        count = max(1, _MEMORY // (8 * _NUMBERS * math.prod(sizes)))
        return [samples[i : i + count] for i in range(0, len(samples), count)]

    def _solve(
        self, group: list[int], tracks: dict[int, EllipticTrack], sizes: tuple[int, ...]
    ) -> None:
        sources = self.sources.take(torch.tensor(group))
        assembler = Assembler(self.problem, self.form, sources, group)
        discrete = assembler.discretise(sizes)
        cells = solve_cells(discrete, self.algebraic, self.form.gauge, group)
        found = reconstruct(discrete, cells, self.problem.space, self.request.shape)
        for sample, values, imbalance in zip(
            group, found, discrete.imbalance.tolist(), strict=True
        ):
            track = tracks[sample]
            if track.values and self.aligned and not self.form.rough:
                track.extrapolated.insert(0, values + (values - track.values[0]) / 3)
            track.values.insert(0, values)
            track.imbalance.append(imbalance)
            del track.values[3:], track.extrapolated[2:]

    def _judge(self, track: EllipticTrack) -> Verdict:
        """Estimate the error of the last grid's values, or of extrapolated ones."""
        values = track.values
        scale = max(float(values[0].norm()), 1e-300)
        if len(values) < 2:
            return Verdict(values[0], math.inf, 1.0)
        gaps = [float((a - b).norm()) / scale for a, b in pairwise(values)]
        observed = math.log2(gaps[1] / gaps[0]) if len(gaps) > 1 and min(gaps) > 0 else 1.0
        if len(track.extrapolated) > 1 and _SECOND[0] < observed < _SECOND[1]:
            new, old = track.extrapolated
            gap = float((new - old).norm()) / scale
            return Verdict(new, SAFETY * gap / 3 + self.algebraic, 3.0)  # credits order 2 of 3
        order = min(max(observed, 0.5), 1.0 if self.form.rough else 2.0)
        return Verdict(values[0], SAFETY * gaps[0] / (2**order - 1) + self.algebraic, order)

    def _goes_on(self, verdict: Verdict, sizes: Sequence[int], level: int) -> bool:
        if verdict.error <= self.request.tolerance:
            return False
        left = math.floor(math.log2(self.cap / max(sizes)))
        if left < 1 or level >= self.request.limits.levels:
            return False
        if math.isinf(verdict.error) or 2 * max(sizes) <= self.enough:
            return True
        return verdict.error * 2 ** (-left * verdict.order) <= self.request.tolerance

    def _finish(
        self, sample: int, track: EllipticTrack, verdict: Verdict, sizes: Sequence[int]
    ) -> None:
        tolerance = self.request.tolerance
        self._require_balance(sample, track)
        self.values[sample], self.error[sample] = verdict.values, verdict.error
        self.cells[sample] = torch.tensor(sizes)
        if verdict.error > tolerance:
            why = "its coefficient has jumps" if self.form.rough else "it is not resolved"
            self.notes.append(
                f"sample {sample}: tolerance {tolerance:.1e} not met; on {tuple(sizes)} cells the "
                f"estimated error is {verdict.error:.1e} and falls with order {verdict.order:.1f}: "
                f"{why}"
            )

    def _require_balance(self, sample: int, track: EllipticTrack) -> None:
        """Where a constant is free, sources and fluxes through walls must balance."""
        if self.form.gauge is None:
            return
        first, last = track.imbalance[0], track.imbalance[-1]
        if last > max(self.request.tolerance, 1e-9) and last > 0.5 * first:
            raise SolverError(
                f"sample {sample}: the equation for {self.form.unknown} has no solution: sources "
                f"and fluxes through the walls do not balance, their sum is {last:.1e} of their "
                "size; subtract the mean"
            )
