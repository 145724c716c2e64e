"""March cell means in time, every sample with steps of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.reference.finite_volume.scheme import Scheme

COURANT = 0.8
_FIRST = 4  # steps at the start that are shortened: the waves of a jump are not in the cells yet
_SHORT = 0.25
_HALVINGS = 12
_REACH = 2  # cells on either side of a bad one that fall back to first order


@dataclass
class FiniteVolumeStepper:
    """SSP-RK3 of C.-W. Shu and S. Osher, J. Comput. Phys. 77 (1988), eq. 2.18.

    doi:10.1016/0021-9991(88)90177-5

    Where a step leaves a cell inadmissible it is taken again: first order near the cell, first
    order everywhere, then half as long. The sums over cells stay what they were.

    Attributes:
        scheme: The law on a mesh.
        names: Number of each sample, for messages.
        steps: Most steps allowed.
        longest: Longest step taken so far, per sample ``[B]``.
        count: Steps taken so far.
    """

    scheme: Scheme
    names: Sequence[int]
    steps: int
    longest: Tensor
    count: int = 0

    def run(self, u: Tensor, start: float, times: tuple[float, ...]) -> Iterator[Tensor]:
        """Yield the cell means ``[B, n, *sizes]`` at each time."""
        t = torch.full((len(u),), start, dtype=u.dtype, device=u.device)
        rate, good = self.scheme.look(u, t)
        if not bool(good.all()):
            sample = self.names[int((~good.flatten(1).all(1)).nonzero()[0])]
            raise SolverError(
                f"sample {sample}: the initial state is not finite, or its wave speeds are not real"
            )
        for end in times:
            while bool((t < end).any()):
                u, t, rate = self._step(u, t, rate, end)
            yield u

    def _step(
        self, u: Tensor, t: Tensor, rate: Tensor, end: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        share = COURANT * (_SHORT if self.count < _FIRST else 1.0)
        self.count += 1
        if self.count > self.steps:
            raise SolverError(
                f"more than {self.steps} steps; allow more by limits, or a coarser grid"
            )
        left = end - t
        step = torch.minimum(share / rate.clamp_min(1e-300), left)
        landing = left - step <= 1e-9 * step  # no crumb of a step at the end
        step = torch.where(landing, left, step)
        new = self._rk3(u, t, step, None)
        rate, good = self.scheme.look(new, t + step)
        if not bool(good.all()):
            new, step, rate = self._again(u, t, step, new, good)
            landing = landing & (step == left)
        self.longest = torch.maximum(self.longest, step)
        return new, torch.where(landing, torch.full_like(t, end), t + step), rate

    def _again(
        self, u: Tensor, t: Tensor, step: Tensor, new: Tensor, good: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        keep = (~_near(~good)).to(u)[:, None]
        for attempt in range(_HALVINGS):
            failed = ~good.flatten(1).all(1)
            step = torch.where(failed & (attempt > 1), step / 2, step)
            other = self._rk3(u, t, step, keep)
            new = torch.where(failed.reshape(-1, *[1] * (u.ndim - 1)), other, new)
            rate, good = self.scheme.look(new, t + step)
            if bool(good.all()):
                return new, step, rate
            keep = torch.zeros_like(keep)
        sample = int((~good.flatten(1).all(1)).nonzero()[0])
        raise SolverError(
            f"sample {self.names[sample]}: no admissible step at t = {float(t[sample]):.6g} with "
            f"{self.scheme.mesh.sizes} cells; does the solution blow up, or leave where its wave "
            "speeds are real?"
        )

    def _rk3(self, u: Tensor, t: Tensor, step: Tensor, keep: Tensor | None) -> Tensor:
        h = step.reshape(-1, *[1] * (u.ndim - 1))
        rate = self.scheme.rate_of_change
        first = u + h * rate(u, t, keep)
        second = 0.75 * u + 0.25 * (first + h * rate(first, t + step, keep))
        return (u + 2 * (second + h * rate(second, t + step / 2, keep))) / 3


def _near(bad: Tensor) -> Tensor:
    """Cells within reach of a bad one, along every axis."""
    near = bad.to(torch.float64)[:, None]
    pool = {1: torch.nn.functional.max_pool1d, 2: torch.nn.functional.max_pool2d}[bad.ndim - 1]
    return pool(near, 2 * _REACH + 1, stride=1, padding=_REACH)[:, 0] > 0
