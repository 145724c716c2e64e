"""Steps and grids of a run, checked for terms that are narrow in an unknown."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, final

import torch
from torch import Tensor

from piop.forms.terms import derivative_counts, name_of
from piop.reference.features.along_paths import PathTerm, StepPaths, between_nodes
from piop.reference.fourier.grid import power
from piop.reference.fourier.nonlinear import Nonlinear
from piop.reference.fourier.step_lengths import RESOLVING, halved
from piop.reference.input_values import moves
from piop.reference.levels import relative_scale

Step = Callable[[Tensor, float, float], tuple[Tensor | None, Tensor]]
"""State, time and length of a step → products at its start, and the state at its end."""

_LIMIT = 0.01
"""Of the tolerance: error by what a step hides from which on it is halved."""
_DEEPEST = 20
"""Halvings of a step."""
_MOST = 2**14
"""Parts of a step that are looked at."""
_GROWTH = 0.2
"""Growth of the longest step with the distance from the parts of a step that hid something."""
_ROUNDING = 2e-15
"""Of the values that a term is narrow in, relative to how far they come in the whole run."""
_FIRST, _TOGETHER = 4, 16
"""Steps that are checked together: at first, and at most."""
_BYTES = 2**24
"""Of their states."""


@dataclass
class DoneStep:
    """A step of a run.

    Attributes:
        time: Its start.
        length: In units of time.
        start: State at its start.
        products: Products there; None without any.
        end: State at its end.
        parts: In which it was taken.
    """

    time: float
    length: float
    start: Tensor
    products: Tensor | None
    end: Tensor
    parts: int = 1


@final
class SpectralPaths:
    """What the steps and the grid of one run hide of terms that may be narrow in an unknown.

    Args:
        terms: These.
        nonlinear: The system on the grid.
        tolerance: Error estimate requested.
        span: Length of the run (units of time).
    """

    def __init__(
        self, terms: Sequence[PathTerm], nonlinear: Nonlinear, tolerance: float, span: float
    ) -> None:
        self.terms, self.nonlinear, self.tolerance = terms, nonlinear, tolerance
        self.problem, self.grid = nonlinear.symbols.sources.problem, nonlinear.symbols.grid
        split, batch = nonlinear.split, nonlinear.symbols.sources.batch
        self.index = {(c.name, c.time_order): i for i, c in enumerate(split.channels)}
        self.steps = StepPaths(terms, batch, tolerance, span, self.grid.device)
        self.sizes = torch.zeros(batch, split.states, dtype=torch.float64, device=self.grid.device)
        self.rounding = 0.0
        self.parts: list[tuple[float, float, float]] = []  # start, end, length
        self.missed = torch.zeros_like(self.sizes[:, 0])

    def advance(
        self, w: Tensor, steps: Iterator[tuple[float, float]], multiple: int, step: Step
    ) -> Iterator[DoneStep]:
        """Take steps; one that hides something, and those beside it, in parts.

        Args:
            w: The state at the start of the first.
            steps: Starts and lengths.
            multiple: Steps per step of the coarsest level.
            step: Takes one.
        """
        ahead: deque[tuple[float, float]] = deque()
        last: DoneStep | None = None  # which may be taken once more
        together, checked = _FIRST, 0
        most = max(1, min(_TOGETHER, _BYTES // (w.numel() * w.element_size())))
        while True:
            if checked:
                checked -= 1
                tried, good = [_take(w, *ahead.popleft(), step)], 1
            else:
                tried = self._try(w, ahead, steps, together, multiple, step)
                hides, missed = self._hidden(last, tried)
                good = hides.index(True) if True in hides else len(tried)
                self.missed += missed[:, :good].sum(1)
                together = min(2 * together, most)
            for own in tried[:good]:
                if last is not None:
                    yield last
                last = self._in_parts(own, multiple, step)
                w = last.end
            if not tried:
                if last is not None:
                    yield last
                return
            if good < len(tried):
                self._divide(last, tried[good], step)
                ahead.extendleft((own.time, own.length) for own in reversed(tried[good:]))
                together, checked = 1, 1
                if last is not None:
                    ahead.appendleft((last.time, last.length))
                    w, last, checked = last.start, None, 2

    def _try(
        self,
        w: Tensor,
        ahead: deque[tuple[float, float]],
        steps: Iterator[tuple[float, float]],
        together: int,
        multiple: int,
        step: Step,
    ) -> list[DoneStep]:
        """Take a number of steps, up to one that is divided."""
        tried: list[DoneStep] = []
        while len(tried) < together:
            if not ahead:
                ahead.extend(islice(steps, 1))
            if not ahead or (tried and self._is_divided(*ahead[0], multiple)):
                break
            tried.append(_take(tried[-1].end if tried else w, *ahead.popleft(), step))
            if self._is_divided(tried[-1].time, tried[-1].length, multiple):
                break
        return tried

    def _in_parts(self, whole: DoneStep, multiple: int, step: Step) -> DoneStep:
        """Take a step in parts that resolve what was found near it."""
        if not self._is_divided(whole.time, whole.length, multiple):
            return whole
        w, count = whole.start, 0
        for time, length in halved(whole.time, whole.length, multiple, self._longest):
            w, count = step(w, time, length)[1], count + 1
        return replace(whole, end=w, parts=count)

    def _divide(self, before: DoneStep | None, first: DoneStep, step: Step) -> None:
        """Halve a step until its parts hide nothing, and keep their lengths."""
        near = first.length / _GROWTH
        self.parts = [own for own in self.parts if own[1] > first.time - near]
        waiting, w, taken = [(first.time, first.length)], first.start, 0
        while waiting:
            done, taken = _take(w, *waiting.pop(), step), taken + 1
            hides, missed = self._hidden(before, [done])
            if hides[0] and taken < _MOST and done.length > first.length / 2**_DEEPEST:
                half = done.length / 2
                waiting += [(done.time + half, half), (done.time, half)]
                continue
            self.missed += missed[:, 0]
            rounding = _ROUNDING * self.steps.span / done.length
            self.rounding = max(self.rounding, rounding)
            self.parts.append((done.time, done.time + done.length, done.length))
            before, w = done, done.end

    def _longest(self, start: float, end: float) -> float:
        """Longest step between two times that resolves what steps were found to hide."""
        low, high, length = torch.tensor(self.parts, dtype=torch.float64).reshape(-1, 3).T
        distance = torch.maximum(low - end, start - high).clamp_min(0)
        return float((length + _GROWTH * distance).amin()) if self.parts else math.inf

    def _is_divided(self, time: float, length: float, multiple: int) -> bool:
        longest = self._longest(time, time + length) if self.parts else math.inf
        return RESOLVING * length * multiple > longest

    def _hidden(
        self, before: DoneStep | None, steps: Sequence[DoneStep]
    ) -> tuple[list[bool], Tensor]:
        """Whether each step hides too much, and the relative errors by that ``[B, S]``."""
        if not steps:
            return [], self.missed[:, None]
        starts = [*([] if before is None else [before]), *steps]
        times = [*(own.time for own in starts), steps[-1].time + steps[-1].length]
        whole = torch.stack([*(own.start for own in starts), steps[-1].end], 1)
        size = power(whole, self.grid).sqrt().nan_to_num().amax(1)
        torch.maximum(self.sizes, size, out=self.sizes)
        sizes, rank = relative_scale(self.sizes), len(self.grid.sizes)
        missed = self.steps.missed(
            self._reader(whole, times),
            torch.tensor(times, dtype=torch.float64, device=whole.device).diff(),
            1,
            lambda channel: sizes[:, self.index[channel]],
            lambda v: v.square().flatten(-rank).mean(-1).sqrt(),
        )[:, len(starts) - len(steps) :]
        return (missed.amax(0) > _LIMIT * self.tolerance).tolist(), missed

    def on_grid(self, spectra: Tensor, times: Sequence[float]) -> Tensor:
        """Relative errors ``[B]`` by what the points hide at the save times, and by rounding.

        Args:
            spectra: States at these times ``[B, T, states, *modes]``.
            times: The times.
        """
        axes = list(zip(self.problem.space, self.grid.axes(), strict=True))
        read = self._reader(spectra, times)
        hidden = between_nodes(self.terms, read, axes, len(spectra), self.tolerance)
        return hidden + self.rounding

    def _reader(self, whole: Tensor, times: Sequence[float]) -> Callable[[Any], Tensor]:
        """Values of atoms of equations at the points, of states ``[B, P, states, *modes]``."""
        found: list[Tensor] = []  # channels, each [B, P, *modes]
        time, space = self.problem.coordinates[0], self.problem.space

        def read(atom: Any) -> Tensor:
            if atom.is_Symbol or name_of(atom) not in self.problem.channels:
                sources = self.nonlinear.symbols.sources
                own = times if moves(self.problem, atom) else times[:1]
                return torch.stack([sources.value(atom, self.grid.axes(), t) for t in own], 1)
            if not found:
                moments = zip(whole.unbind(1), times, strict=True)
                every = [self.nonlinear.channels(own, t) for own, t in moments]
                found.extend(torch.stack(own, 1) for own in zip(*every, strict=True))
            count = derivative_counts(atom)
            channel = found[self.index[name_of(atom), count.get(time.symbol, 0)]]
            order = [count.get(c.symbol, 0) for c in space]
            return self.grid.backward(channel * self.grid.derivative(order))

        return read


def _take(w: Tensor, time: float, length: float, step: Step) -> DoneStep:
    return DoneStep(time, length, w, *step(w, time, length))
