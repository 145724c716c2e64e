"""Step a discretised system through its save times, and record NaN and the spectrum's tail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from piop.reference.fourier.etdrk import ETDRK4
from piop.reference.fourier.grid import Multiplier, PeriodicGrid, power, tail
from piop.reference.fourier.nonlinear import Nonlinear

_INTERVAL = 24  # steps between measurements of the tail


@dataclass(frozen=True)
class SpectralLevel:
    """A grid and the lengths of steps.

    Attributes:
        sizes: Points along each space axis.
        base: Longest step of the coarsest level (units of time).
        multiple: Steps per step of the coarsest level.
        padded: Whether products are dealiased by padding.
    """

    sizes: tuple[int, ...]
    base: float
    multiple: int
    padded: bool

    @property
    def step(self) -> float:
        """Longest step (units of time)."""
        return self.base / self.multiple

    @property
    def cost(self) -> float:
        """Points times steps per unit of time."""
        return math.prod(self.sizes) * self.multiple / self.base

    def steps(self, interval: float) -> int:
        """Steps in an interval between save times."""
        return max(1, math.ceil(interval / self.base * (1 - 1e-9))) * self.multiple


@dataclass
class SpectralTrajectory:
    """One run.

    Attributes:
        grid: Its grid.
        spectra: States at the save times ``[B, T, states, *modes]``.
        tail: Largest tail, root mean square per state and axis ``[B, states, d]``.
        middle: The same for the middle of the spectrum: tells how fast it decays.
        rough: Largest tail of a product relative to the product, per axis ``[B, d]``.
        until: First time at which a sample was not finite, else inf ``[B]``.
    """

    grid: PeriodicGrid
    spectra: Tensor
    tail: Tensor
    middle: Tensor
    rough: Tensor
    until: Tensor


@final
class SpectralStepper:
    """Steps a system on one grid; keeps the coefficients of each step length.

    Args:
        grid: Grid of the coefficients.
        nonlinear: F.
        make: Step length → ETDRK4.
    """

    def __init__(
        self, grid: PeriodicGrid, nonlinear: Nonlinear, make: Callable[[float], ETDRK4]
    ) -> None:
        self.grid, self.nonlinear, self.make = grid, nonlinear, make
        self._schemes: dict[float, ETDRK4] = {}

    def scheme(self, step: float) -> ETDRK4:
        """Return the scheme of a step length; lengths equal to 9 digits share one."""
        key = float(f"{step:.9e}")
        if key not in self._schemes:
            if len(self._schemes) > 8:
                self._schemes.clear()
            self._schemes[key] = self.make(step)
        return self._schemes[key]

    def right_side(self, w: Tensor, t: float) -> Tensor:
        """w_t = L w + M F(w, t) ``[B, states, *modes]``."""
        states, symbols = w.shape[1], self.nonlinear.symbols
        out = Multiplier(symbols.linear, states, states)(w)
        if self.nonlinear.products:
            spectra = self.nonlinear.evaluate(w, t)
            Multiplier(self.nonlinear.places, states, spectra.shape[1]).add(spectra, out)
        return out

    def run(
        self, w: Tensor, start: float, times: Sequence[float], level: SpectralLevel
    ) -> SpectralTrajectory:
        """Step from ``start`` and keep the state at each of ``times`` (ascending, ≥ start)."""
        _keep_freed_blocks()
        batch, states = w.shape[:2]
        rank = len(self.grid.sizes)
        out = w.new_empty((batch, len(times), states, *self.grid.modes))
        result = SpectralTrajectory(
            self.grid,
            out,
            torch.zeros(batch, states, rank, dtype=torch.float64, device=w.device),
            torch.zeros(batch, states, rank, dtype=torch.float64, device=w.device),
            torch.zeros(batch, rank, dtype=torch.float64, device=w.device),
            torch.full((batch,), math.inf, dtype=torch.float64, device=w.device),
        )
        now, t = None, start
        for i, time in enumerate(times):
            count = level.steps(time - t) if time > t else 0
            length = (time - t) / count if count else 0.0
            for j in range(count):
                moment = t + j * (time - t) / count
                if self.nonlinear.products:
                    now = self.nonlinear.evaluate(w, moment)
                if j % _INTERVAL == 0:
                    self._measure(w, now, moment, result)
                w = self.scheme(length)(w, now, moment, self.nonlinear.evaluate)
            t = time
            out[:, i] = w
            if bool((result.until < math.inf).all()):
                out[:, i + 1 :] = math.nan
                break
        self._measure(w, None, t, result)
        return result

    def _measure(self, w: Tensor, now: Tensor | None, t: float, result: SpectralTrajectory) -> None:
        mean = w[(..., *(0,) * len(self.grid.sizes))].sum(1)
        broken = ~torch.isfinite(mean.real) & (result.until == math.inf)
        result.until[broken] = t
        grid = self.grid
        torch.maximum(result.tail, tail(w, grid).sqrt(), out=result.tail)
        torch.maximum(result.middle, tail(w, grid, 0.4, 0.5).sqrt(), out=result.middle)
        if now is not None:
            total = power(now, grid)[..., None].clamp_min(1e-300)
            part = (tail(now, grid) / total).sqrt().amax(1)
            torch.maximum(result.rough, part.nan_to_num(), out=result.rough)


def _keep_freed_blocks() -> None:
    """Let glibc reuse freed temporaries instead of unmapping them: up to 2.7 times faster on a CPU.

    Its threshold adapts to the largest mapped block that was freed; this one is never touched.
    """
    torch.empty(2**25 - 2**20, dtype=torch.uint8)
