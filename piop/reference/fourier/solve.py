"""Carry a batch up the ladder: each trajectory by itself, those on one rung together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.fields import InputFunction
from piop.reference.fourier.discretisation import Discretisation
from piop.reference.fourier.grid import PeriodicGrid, embed, evaluate_on, power, tail
from piop.reference.fourier.levels import (
    SAFETY,
    Judgement,
    Look,
    after_failure,
    judge,
    next_level,
    resolved,
    round_up,
)
from piop.reference.fourier.nonlinear import longest_step
from piop.reference.fourier.symbols import nonlinear_auxiliaries
from piop.reference.fourier.time_stepping import SpectralLevel, SpectralStepper, SpectralTrajectory
from piop.reference.solution import Request, Solution

_MEMORY = 2**29  # bytes of saved spectra per chunk of the batch
_START = (64, 32, 16)  # points along an axis on the first rung, by space dimension
_MANY = 10.0  # a mode is stiff if its rate times the step is above this
_REDUCED = 1.5  # order in time to credit where initial data hold stiff modes
_FLOOR = 1e-9  # an unknown smaller than this times the largest one is measured against that


def solve_periodic(
    problem: Any, functions: Mapping[str, InputFunction], request: Request
) -> Solution:
    """Solve an evolution with every axis periodic.

    Fourier pseudo-spectral in space and ETDRK4 in time (Cox and Matthews 2002,
    doi:10.1006/jcph.2002.6995; Kassam and Trefethen 2005, doi:10.1137/S1064827502410633).
    """
    discretisation = Discretisation(problem, functions, request.device)
    return Climb(discretisation, request).run()


@final
class Climb:
    """Solve a batch, refining each trajectory by itself; those on one rung run together.

    Args:
        discretisation: The problem, split and compiled, with its inputs.
        request: What is asked.
    """

    def __init__(self, discretisation: Discretisation, request: Request) -> None:
        times, shape = request.times, request.shape
        self.d, self.times, self.shape = discretisation, times, shape
        self.tolerance, self.limits = request.tolerance, request.limits
        self.start = float(discretisation.problem.time.low)
        self.span = times[-1] - self.start
        batch, rank = discretisation.sources.batch, len(shape)
        size = (batch, len(times), *shape)
        split, device = discretisation.split, discretisation.box.device
        self.states = split.states
        self.measured = [
            i for i, c in enumerate(split.channels[: split.states]) if not c.time_order
        ]
        self.exact = not split.right.products and not nonlinear_auxiliaries(
            split, discretisation.means
        )
        self.order = 0.0 if self.exact else discretisation.order_in_time
        f64 = {"dtype": torch.float64, "device": device}
        names = [c.name for c in split.channels if not c.time_order]
        self.values = {n: torch.empty(size, **f64) for n in names}
        self.derivatives = {self._name(i): torch.empty(size, **f64) for i in range(self.states)}
        self.error = torch.full((batch,), math.inf, **f64)
        self.modes = torch.zeros((batch, rank), dtype=torch.int64)
        self.step = torch.zeros(batch, **f64)
        self.notes: list[str] = []

    def _name(self, i: int) -> str:
        return self.d.split.channels[i].label(self.d.problem.time.name)

    def run(self) -> Solution:
        """Solve every trajectory, in chunks that bound the memory of saved spectra."""
        batch = len(self.error)
        start = (2048, 256, 64)[len(self.shape) - 1] ** len(self.shape)
        per_sample = 16 * start * len(self.times) * self.states
        chunk = max(1, _MEMORY // per_sample)
        for low in range(0, batch, chunk):
            self._climb(torch.arange(low, min(batch, low + chunk)))
        grid = self.d.box.with_sizes(self.shape)
        return Solution(
            torch.tensor(self.times, dtype=torch.float64, device=grid.device),
            grid.axes(),
            self.values,
            self.derivatives,
            self.error,
            self.error <= self.tolerance,
            self.modes,
            self.step,
            self.tolerance,
            tuple(self.notes),
        )

    def _climb(self, samples: Tensor) -> None:
        todo: dict[SpectralLevel, list[int]] = {}
        for sample, level in self._first(samples).items():
            todo.setdefault(level, []).append(sample)
        before: dict[int, tuple[Judgement, PeriodicGrid, Tensor]] = {}
        failures: dict[int, list[float]] = {}
        count: dict[int, int] = {}
        while todo:
            level = min(todo, key=lambda v: math.prod(v.sizes) * v.multiple / v.base)
            group = todo.pop(level)
            index = torch.tensor(group)
            sources = self.d.sources.take(index)
            marcher = self.d.marcher(level, sources)
            w = self.d.initial(marcher.grid, sources)
            marcher.nonlinear.check_means(w, self.start, group)
            run = marcher.run(w, self.start, self.times, level)
            scale = self._scale(run)
            stiff = self._stiff(marcher, w, level, scale)
            done: list[int] = []
            for b, sample in enumerate(group):
                count[sample] = count.get(sample, 0) + 1
                if run.until[b] < math.inf:
                    following = self._failed(sample, level, float(run.until[b]), failures)
                    before.pop(sample, None)
                    todo.setdefault(following, []).append(sample)
                    continue
                known, *last = before.pop(sample, (None,))
                look = self._look(run, b, level, scale, last)
                order = min(self.order, _REDUCED) if stiff[b] > self.tolerance else self.order
                known = judge(look, known, order, self.tolerance)
                following = next_level(known, self.tolerance)
                over = count[sample] >= self.limits.levels
                if (
                    known.error <= self.tolerance / 2
                    or over
                    or not self.limits.allow(following, self.span)
                ):
                    self._finish(sample, known)
                    done.append(b)
                    continue
                before[sample] = (known, run.grid, run.spectra[b].clone())
                todo.setdefault(following, []).append(sample)
            if done:
                self._store(group, torch.tensor(done), run, marcher, level)

    def _first(self, samples: Tensor) -> dict[int, SpectralLevel]:
        """Per sample: a grid that holds the initial state, a step the initial state allows."""
        rank = len(self.shape)
        cap = self.limits.modes[rank - 1]
        sizes = (_START[rank - 1],) * rank
        waiting, levels = samples.tolist(), {}
        longest = max(b - a for a, b in zip([self.start, *self.times], self.times, strict=False))
        longest = longest or 1.0
        while waiting:
            index = torch.tensor(waiting)
            sources = self.d.sources.take(index)
            grid = self.d.box.with_sizes(sizes)
            w = self.d.initial(grid, sources)
            self._check_start(w, waiting)
            total = power(w, grid)[..., None].clamp_min(1e-300)
            tails = (tail(w, grid) / total).sqrt().amax(1)
            good = (tails <= self.tolerance / 40).all(-1)
            bigger = tuple(round_up(1.3 * n) for n in sizes)
            if max(bigger) > cap // 2:
                good = torch.ones_like(good)
            if bool(good.any()):
                kept = index[good.cpu()]
                for sample, base in zip(
                    kept.tolist(), self._bases(sizes, kept, longest), strict=True
                ):
                    levels[sample] = SpectralLevel(sizes, base, 1, padded=not self.exact)
            waiting = index[~good.cpu()].tolist()
            sizes = bigger
        return levels

    def _bases(self, sizes: tuple[int, ...], index: Tensor, longest: float) -> list[float]:
        if self.exact:
            return [longest] * len(index)
        sources = self.d.sources.take(index)
        marcher = self.d.marcher(SpectralLevel(sizes, longest, 1, False), sources)
        if marcher.nonlinear.main is None:
            return [longest] * len(index)
        w = self.d.initial(marcher.grid, sources)
        allowed = longest_step(marcher.nonlinear, marcher.nonlinear.main, w, self.start)
        bound = min(longest, self.span / 16)
        # Powers of two so that trajectories share their runs.
        return [bound / 2 ** max(0, math.ceil(math.log2(bound / h))) for h in allowed.tolist()]

    def _check_start(self, w: Tensor, samples: list[int]) -> None:
        finite = torch.isfinite(w.real).flatten(1).all(1)
        if not bool(finite.all()):
            sample = samples[int((~finite).nonzero()[0])]
            raise SolverError(f"sample {sample}: the initial state is not finite")

    def _failed(
        self, sample: int, level: SpectralLevel, time: float, failures: dict[int, list[float]]
    ) -> SpectralLevel:
        history = failures.setdefault(sample, [])
        history.append(time)
        following = after_failure(level)
        steady = len(history) > 3 and max(history[-3:]) - min(history[-3:]) <= 0.01 * self.span
        if steady or not self.limits.allow(following, self.span):
            raise SolverError(
                f"sample {sample}: not finite from t = {time:.6g} on, with {level.sizes} points "
                f"and steps of {level.step:.3g}; does the solution blow up there?"
            )
        return following

    def _scale(self, run: SpectralTrajectory) -> Tensor:
        """Root mean square over time and space of each measured unknown ``[B, n]``."""
        energy = torch.stack(
            [power(run.spectra[:, :, i], run.grid) for i in self.measured],
            -1,
        )
        scale = energy.mean(1).sqrt()
        return torch.maximum(scale, _FLOOR * scale.amax(1, keepdim=True)).clamp_min(1e-300)

    def _stiff(
        self, marcher: SpectralStepper, w: Tensor, level: SpectralLevel, scale: Tensor
    ) -> Tensor:
        """Share of the initial state that decays or turns many times in a step ``[B]``."""
        rates = torch.zeros(1, self.states, *marcher.grid.modes, device=w.device)
        for (row, _), symbol in marcher.nonlinear.symbols.linear.items():
            rates = rates.expand(max(len(rates), len(symbol)), *rates.shape[1:]).clone()
            rates[:, row] += symbol.abs()
        fast = power(w * (rates * level.step > _MANY), marcher.grid).sqrt()
        return (fast[:, self.measured] / scale).amax(1)

    def _look(
        self,
        run: SpectralTrajectory,
        b: int,
        level: SpectralLevel,
        scale: Tensor,
        before: Sequence[Any],
    ) -> Look:
        relative = [
            (t[b, self.measured] / scale[b, :, None]).amax(0) for t in (run.tail, run.middle)
        ]
        difference = None
        if before:
            grid, spectra = before
            gap = run.spectra[b] - embed(spectra, grid, run.grid)
            energy = power(gap, run.grid)[:, self.measured]
            difference = float((energy.sqrt() / scale[b]).max())
        tails, middles = (tuple(r.tolist()) for r in relative)
        return Look(level, tails, middles, tuple(run.rough[b].tolist()), difference)

    def _finish(self, sample: int, known: Judgement) -> None:
        error, look = known.error, known.look
        if not math.isfinite(error) and look.difference is not None:
            error = max(2 * SAFETY * look.difference, self.tolerance * 1.01)
        self.error[sample] = error
        if error > self.tolerance:
            fits = resolved(look, self.tolerance)
            why = "its step is too long" if fits else "its spectrum is not resolved"
            self.notes.append(
                f"sample {sample}: tolerance {self.tolerance:.1e} not met; the ladder ended at "
                f"{look.level.sizes} points and steps of {look.level.step:.3g} with an estimated "
                f"error of {error:.1e}; {why}"
            )

    def _store(
        self,
        group: list[int],
        rows: Tensor,
        run: SpectralTrajectory,
        marcher: SpectralStepper,
        level: SpectralLevel,
    ) -> None:
        samples = torch.tensor(group)[rows]
        self.modes[samples] = torch.tensor(run.grid.sizes)
        self.step[samples] = level.step
        split, nonlinear = self.d.split, marcher.nonlinear
        for i, t in enumerate(self.times):
            whole = run.spectra[:, i].contiguous()
            nonlinear.check_means(whole, t, group)
            channels = nonlinear.channels(whole, t)
            speed = marcher.right_side(whole, t)
            for c, channel in enumerate(split.channels):
                if not channel.time_order:
                    self._put(self.values[channel.name], samples, i, channels[c][rows], run.grid)
                if c < self.states:
                    self._put(self.derivatives[self._name(c)], samples, i, speed[rows, c], run.grid)

    def _put(
        self, out: Tensor, samples: Tensor, i: int, spectrum: Tensor, grid: PeriodicGrid
    ) -> None:
        out[samples.to(out.device), i] = evaluate_on(spectrum, grid, self.shape)
