"""Solve periodic evolutions by the Fourier pseudo-spectral method and ETDRK4.

Each trajectory is refined by itself; those on one level run together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from piop.reference.fourier.aliasing import aliased_part
from piop.reference.fourier.error_control import (
    Assessment,
    Measurements,
    after_failure,
    assess,
    next_level,
    resolved,
    round_up,
    slow_beyond,
)
from piop.reference.fourier.grid import (
    PeriodicGrid,
    embed,
    evaluate_on,
    nonlinear_auxiliaries,
    power,
    tail,
)
from piop.reference.fourier.nonlinear import longest_step
from piop.reference.fourier.step_lengths import SpectralLevel
from piop.reference.fourier.time_stepping import (
    Discretisation,
    SpectralStepper,
    SpectralTrajectory,
)
from piop.reference.input_values import Sources
from piop.reference.levels import (
    MEMORY,
    SAFETY,
    Earlier,
    Fields,
    LevelResult,
    SolvedSamples,
    relative_scale,
    require_finite_start,
    with_rounding,
)
from piop.reference.nodal import NodalSolver
from piop.reference.solution import Request

_START = (64, 32, 16)  # points along an axis on the first level, by space dimension
_USUAL = (2048, 256, 64)  # points along an axis that memory is shared for, if allowed
_MANY = 10.0  # a mode is stiff if its rate times the step is above this
_ROUGH = 3.0  # order of decay of a spectrum below which its modes add up somewhere
_ZEROS = 1e-3
"""Size of an unknown at the points of the output, relative to that between them, below which these
are taken to be its zeros."""
_REDUCED = 1.5  # order in time to credit where initial data hold stiff modes


@final
@dataclass(frozen=True, kw_only=True)
class SpectralResult(LevelResult[SpectralLevel]):
    """A trajectory on one level: spectra at the save times ``[T, states, *modes]``.

    Attributes:
        assessment: Its errors in space and time.
        narrow: Whether terms of the equations were found to be narrow between its points or steps.
    """

    assessment: Assessment
    narrow: bool


@final
class SpectralSolver(NodalSolver[SpectralLevel, SpectralResult]):
    """Solves an evolution with every axis periodic.

    Fourier pseudo-spectral in space and ETDRK4 in time (Cox and Matthews 2002,
    doi:10.1006/jcph.2002.6995; Kassam and Trefethen 2005, doi:10.1137/S1064827502410633).
    """

    target = 0.5
    failures = 4

    def __init__(self, sources: Sources, request: Request) -> None:
        super().__init__(sources, request)
        self.discretisation = Discretisation(sources)
        self.times, self.tolerance = request.times, request.tolerance
        self.span = self.times[-1] - self.start
        split = self.discretisation.split
        self.states = split.states
        states = split.channels[: split.states]
        self.measured = [i for i, c in enumerate(states) if not c.time_order]
        late = nonlinear_auxiliaries(split, self.discretisation.means)
        self.exact = not split.right.products and not late
        self.order = 0.0 if self.exact else self.discretisation.order_in_time
        rank = len(request.shape)
        usual = min(_USUAL[rank - 1], self.most)
        spectra = 16 * usual**rank * len(request.times) * self.states  # bytes
        self.at_a_time = max(1, MEMORY // spectra)

    def first(self, samples: Sequence[int]) -> dict[int, SpectralLevel]:
        """Return grids that resolve the initial states, with steps that are stable for them.

        They resolve sources too, but only those that an allowed grid resolves.
        """
        rank = len(self.request.shape)
        never = self.unseen((self.most // 2,) * rank) > self.tolerance
        sizes = (_START[rank - 1],) * rank
        waiting, levels = list(samples), {}
        while waiting:
            sources = self.sources.take(waiting)
            grid = self.discretisation.box.with_sizes(sizes)
            w = self.discretisation.initial(grid, sources)
            require_finite_start(w, waiting)
            total = power(w, grid)[..., None].clamp_min(1e-300)
            tails = (tail(w, grid) / total).sqrt().amax(1)
            seen = never | (self.unseen(sizes) <= self.tolerance / 4)
            good = (tails <= self.tolerance / 40).all(-1) & seen[waiting]
            bigger = tuple(round_up(1.3 * n) for n in sizes)
            if max(bigger) > self.most // 2:
                good = torch.ones_like(good)
            kept = [sample for sample, fine in zip(waiting, good.tolist(), strict=True) if fine]
            if kept:
                steps = self._longest_steps(sizes, kept)
                for sample, step in zip(kept, steps, strict=True):
                    levels[sample] = SpectralLevel(sizes, step, 1, padded=not self.exact)
            waiting = [sample for sample in waiting if sample not in levels]
            sizes = bigger
        return levels

    def data_points(self, sizes: tuple[int, ...]) -> Mapping[str, Tensor]:
        """See the base class."""
        grid = self.discretisation.box.with_sizes(sizes)
        return {c.name: points for c, points in zip(grid.space, grid.axes(), strict=True)}

    def find_unseen(self, sizes: tuple[int, ...]) -> Tensor:
        """See the base class; waves that a grid takes for longer ones count too."""
        aliased = aliased_part(self.features, self.data_points(sizes))
        return super().find_unseen(sizes) + aliased

    def _longest_steps(self, sizes: tuple[int, ...], samples: Sequence[int]) -> Sequence[float]:
        longest = self.longest or 1.0
        if not (self.discretisation.split.right.products and self.span):
            return [longest] * len(samples)
        sources = self.sources.take(samples)
        level = SpectralLevel(sizes, longest, 1, False)
        stepper = self.discretisation.stepper(level, sources)
        w = self.discretisation.initial(stepper.grid, sources)
        bound = min(longest, self.span / 16)
        # Slopes that overflow at the start allow no step, or NaN: any step shows that the solution
        # is not finite, and shorter ones than the limit allows would only take longer to do so.
        allowed = longest_step(stepper.nonlinear, w, self.start).nan_to_num(bound)
        allowed = allowed.clamp_min(self.span / self.request.limits.steps)
        # Powers of two so that trajectories share their runs.
        return [bound / 2 ** max(0, math.ceil(math.log2(bound / h))) for h in allowed.tolist()]

    def solve(
        self, level: SpectralLevel, samples: Sequence[int], earlier: Earlier[SpectralResult]
    ) -> SolvedSamples[SpectralResult]:
        """See the base class."""
        sources = self.sources.take(samples)
        stepper = self.discretisation.stepper(level, sources, self.request)
        w = self.discretisation.initial(stepper.grid, sources)
        stepper.nonlinear.check_means(w, self.start, samples)
        longest = self.features.longest_step(samples)
        most, progress = self.request.limits.steps, self.request.progress.at_time
        run = stepper.run(w, self.start, self.times, level, longest, most, progress)
        if stepper.paths is not None:
            run.missed = run.missed + stepper.paths.on_grid(run.spectra, self.times)
        sizes = self._sizes(run.spectra, run.grid)
        scale = relative_scale(sizes)
        later = [run.spectra[:, i] for i, t in enumerate(self.times) if t > self.start]
        stiff = [self._stiff(stepper, own, level, scale) for own in (w, *later)]
        lasting = torch.stack([torch.zeros_like(stiff[0]), *stiff[1:]]).amax(0)
        until = run.until.tolist()
        results = [
            self._result(run, row, scale, (float(stiff[0][row]), float(lasting[row])), own)
            if until[row] == math.inf
            else None
            for row, own in enumerate(earlier)
        ]
        results = [own and with_rounding(own, sizes[row]) for row, own in enumerate(results)]
        return SolvedSamples(
            results, lambda rows: self._evaluate(samples, rows, run, stepper), until
        )

    def work(self, level: SpectralLevel) -> float:
        """See the base class."""
        return level.cost

    def after_failure(self, level: SpectralLevel) -> SpectralLevel | None:
        """See the base class."""
        return self._if_allowed(after_failure(level))

    def failure_message(self, level: SpectralLevel, time: float) -> str:
        """See the base class."""
        return (
            f"not finite from t = {time:.6g} on, with {level.grid} points and steps of "
            f"{level.step:.3g}; does the solution blow up there?"
        )

    def _if_allowed(self, level: SpectralLevel) -> SpectralLevel | None:
        fits = max(level.sizes) <= self.most
        return level if fits and level.steps(self.span) <= self.request.limits.steps else None

    def _sizes(self, spectra: Tensor, grid: PeriodicGrid) -> Tensor:
        """Root mean square over time and space of each measured unknown ``[B, n]``.

        Args:
            spectra: ``[B, T, states, *modes]``.
            grid: Theirs.
        """
        # A narrow part of a solution may be at a point of the output, or between two.
        energy = torch.stack([self._energies(spectra[:, :, i], grid) for i in self.measured])
        whole, there = energy.mean(-1).sqrt().unbind(1)
        return torch.minimum(whole, torch.where(there > _ZEROS * whole, there, whole)).T

    def _energies(self, spectra: Tensor, grid: PeriodicGrid) -> Tensor:
        """Mean squares over space and over the points of the output ``[2, …]``."""
        there = evaluate_on(spectra, grid, self.request.shape).square()
        return torch.stack([power(spectra, grid), there.flatten(-len(grid.sizes)).mean(-1)])

    def _stiff(
        self, stepper: SpectralStepper, w: Tensor, level: SpectralLevel, scale: Tensor
    ) -> Tensor:
        """Part of a state that decays or turns many times in a step ``[B]``."""
        rates = w.real.new_zeros(1, *w.shape[1:])
        for (row, _), symbol in stepper.nonlinear.symbols.linear.items():
            rates = rates.expand(max(len(rates), len(symbol)), *rates.shape[1:]).clone()
            rates[:, row] += symbol.abs()
        fast = power(w * (rates * level.step > _MANY), stepper.grid).sqrt()
        return (fast[:, self.measured] / scale).amax(1)

    def _result(
        self,
        run: SpectralTrajectory,
        row: int,
        scale: Tensor,
        stiff: tuple[float, float],
        earlier: Sequence[SpectralResult],
    ) -> SpectralResult:
        """Estimate the error of a sample, of whose start and later states so much is stiff."""
        level = run.level
        tails, middles = (
            tuple((t[row, self.measured] / scale[row, :, None]).amax(0).tolist())
            for t in (run.tail, run.middle)
        )
        difference, before, missed = None, None, float(run.missed[row])
        narrow = missed > 0
        for last in earlier:
            before = last.assessment
            difference = self._difference(last, run.spectra[row], run.grid, scale[row])
            # Where steps are divided on one level, its error is no part of that of the other.
            missed += difference if narrow or last.narrow else 0.0
        rough, inner = run.rough[row].tolist(), run.rough_middle[row].tolist()
        given = any(not values.initial for values in self.features.data)
        sources = tuple(given * slow_beyond(*bands) for bands in zip(rough, inner, strict=True))
        measured = Measurements(
            level, tails, middles, tuple(rough), difference, min(stiff), sources=sources
        )
        if min(measured.decay) < _ROUGH:
            measured = replace(measured, coherence=self._coherence(run, row))
        order = min(self.order, _REDUCED) if stiff[0] > self.tolerance else self.order
        assessment = assess(measured, before, order, self.tolerance)
        fits, reported = resolved(measured, self.tolerance), None
        if not math.isfinite(assessment.error) and difference is not None:
            grids = assessment.rough_error
            apart = 2 * SAFETY * difference if grids == math.inf else grids
            reported = max(apart, self.tolerance * 1.01)
        # The first grid sees all the data that an allowed grid sees: finer ones do not help them.
        met = assessment.error <= self.target * self.tolerance
        return SpectralResult(
            assessment.error,
            None if met else self._if_allowed(next_level(assessment, self.tolerance)),
            level.sizes,
            f"{level.grid} points and steps of {level.step:.3g}",
            run.spectra[row],
            step=level.step,
            missed=missed,
            remark="its step is too long" if fits else "its spectrum is not resolved",
            assessment=assessment,
            narrow=narrow,
            reported=reported,
        )

    def effect(self, before: SpectralResult, after: SpectralResult) -> float:
        """See the base class."""
        grid = self.discretisation.box.with_sizes(after.resolution)
        both = torch.stack([after.values, 2 * before.values - after.values])
        scale = relative_scale(self._sizes(both, grid)).amin(0)
        return self._difference(before, after.values, grid, scale)

    def _difference(
        self, before: SpectralResult, spectra: Tensor, grid: PeriodicGrid, scale: Tensor
    ) -> float:
        """Relative difference of a result and the spectra of a later one, on a grid as fine."""
        own = grid.with_sizes(before.resolution)
        gap = (spectra - embed(before.values, own, grid))[:, self.measured]
        return float((self._energies(gap, grid).amax(0).sqrt() / scale).max())

    def finer(self, level: SpectralLevel) -> SpectralLevel | None:
        """See the base class."""
        return self._if_allowed(replace(level, sizes=tuple(2 * n for n in level.sizes)))

    def _coherence(self, run: SpectralTrajectory, row: int) -> float:
        """Size of fine detail at the points of the output, relative to its mean over space.

        The error of a jump lies beside it, where there may be a point of the output.
        """
        coarse = run.grid.with_sizes([n // 2 for n in run.grid.sizes])
        own = run.spectra[row][:, self.measured]
        fine = own - embed(embed(own, run.grid, coarse), coarse, run.grid)
        there = evaluate_on(fine, run.grid, self.request.shape).square().flatten(2).mean(-1)
        return float((there.amax(0) / power(fine, run.grid).amax(0).clamp_min(1e-300)).max()) ** 0.5

    def _evaluate(
        self,
        samples: Sequence[int],
        rows: Sequence[int],
        run: SpectralTrajectory,
        stepper: SpectralStepper,
    ) -> Fields:
        split, nonlinear, shape = self.discretisation.split, stepper.nonlinear, self.request.shape
        index = torch.tensor(rows)
        values: dict[str, list[Tensor]] = {}
        rates: dict[str, list[Tensor]] = {}
        for i, t in enumerate(self.times):
            whole = run.spectra[:, i].contiguous()
            nonlinear.check_means(whole, t, samples)
            channels = nonlinear.channels(whole, t)
            speed = stepper.right_side(whole, t)
            for c, channel in enumerate(split.channels):
                if not channel.time_order:
                    value = evaluate_on(channels[c][index], run.grid, shape)
                    values.setdefault(channel.name, []).append(value)
                if c < self.states:
                    rate = evaluate_on(speed[index, c], run.grid, shape)
                    label = channel.label(self.problem.coordinates[0].name)
                    rates.setdefault(label, []).append(rate)
        found, slopes = ({n: torch.stack(v, 1) for n, v in f.items()} for f in (values, rates))
        return found, slopes
