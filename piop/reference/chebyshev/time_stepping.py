"""Adaptive time stepping of a system through its save times.

Every step is the interval between two save times divided by a power of two, so that save times are
met exactly and factorisations are shared. The error of a step is estimated by the leading
coefficient of its collocation polynomial in time: the next one would be smaller still.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from piop.reference.chebyshev.newton import Radau, Stepper
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.refinement import relative_scale

_FINEST = 30  # halvings of an interval between save times
_SHORTEST = 20  # halvings at which an instance is given up
_FIRST = 6


@dataclass(frozen=True)
class StepControl:
    """Choice of the lengths of steps.

    Attributes:
        tolerance: Of a step's leading coefficient, relative to its channel; infinite for steps that
            are all the interval divided by ``2**halvings``.
        halvings: Least number of halvings of an interval between save times.
        most: Most steps of a run.
        newton: Relative correction at which iterations stop.
    """

    tolerance: float
    halvings: int = 0
    most: int = 400_000
    newton: float = 1e-12

    @property
    def fixed(self) -> bool:
        """Whether all steps are equal."""
        return self.tolerance == math.inf


@dataclass
class CollocationTrajectory:
    """States at the save times.

    Attributes:
        values: Channels at the save times ``[B, T, C, *sizes]``.
        slopes: Their time derivatives.
        until: First time at which an instance could not be carried on, else inf ``[B]``.
        longest: Longest step.
        steps: How many were taken.
    """

    values: Tensor
    slopes: Tensor
    until: Tensor
    longest: float = 0.0
    steps: int = 0


@dataclass
class _Step:
    """A step that was tried: its points, start first ``[B, s + 1, C, *sizes]``, and errors."""

    points: Tensor
    length: float
    errors: Tensor
    sizes: Tensor = field(repr=False)

    @property
    def end(self) -> Tensor:
        return self.points[:, -1]


@final
class TimeStepping:
    """Steps a system from its initial state to the last save time.

    Args:
        system: The rows on a mesh.
        scheme: The method.
        control: How steps are chosen.
    """

    def __init__(self, system: CollocationSystem, scheme: Radau, control: StepControl) -> None:
        self.system, self.scheme, self.control = system, scheme, control
        self.moving = system.differential()
        self.nodes = torch.tensor([0.0, *scheme.nodes], dtype=torch.float64)
        channels = system.equations.channels
        self.measured = [
            i for i, c in enumerate(channels) if not c.time_order and bool(self.moving[i].any())
        ]

    def run(self, w: Tensor, start: float, times: Sequence[float]) -> CollocationTrajectory:
        """Step from ``w [B, C, *sizes]`` at ``start`` and keep the state at each of ``times``."""
        size = (len(w), len(times), *w.shape[1:])
        until = torch.full((len(w),), math.inf, dtype=w.dtype, device=w.device)
        self.result = CollocationTrajectory(w.new_zeros(size), w.new_zeros(size), until)
        self.stepper = Stepper(self.system, self.scheme, start)
        self.sizes = w.new_zeros(w.shape[:2])
        self.last: _Step | None = None
        first: _Step | None = None
        t = start
        for i, time in enumerate(times):
            if time <= t:
                continue
            for step in self._interval(w, t, time):
                first = first or step
                w, self.last = step.end, step
            if self.last is None:  # every instance was given up
                break
            self._keep(i, self.last, 1.0)
            t = time
        if first is not None and times[0] <= start:
            self._keep(0, first, 0.0)
        return self.result

    def _interval(self, w: Tensor, t: float, end: float) -> Iterator[_Step]:
        """Yield the steps from t to ``end``."""
        length, whole, done = end - t, 2**_FINEST, 0
        k = _FIRST
        if self.last is not None:
            k = math.ceil(math.log2(length / self.last.length) - 1e-9)
        while done < whole:
            k = max(k, self.control.halvings) if not self.control.fixed else self.control.halvings
            moment = t + length * (done / whole)
            step = self._try(w, moment, length / 2**k)
            worst = float(step.errors.amax())
            if worst > self.control.tolerance or worst == math.inf:
                if self.control.fixed or k >= _SHORTEST or self.result.steps > self.control.most:
                    w = self._give_up(step, w, moment)
                    if bool((self.result.until < math.inf).all()):
                        return
                else:
                    k = min(_SHORTEST, k + self._halve(worst))
                    self.stepper.renew()
                continue
            self.sizes, w, done = step.sizes, step.end, done + (whole >> k)
            self.result.steps += 1
            self.result.longest = max(self.result.longest, step.length)
            yield step
            if done < whole:
                k = self._grow(worst, k, done, whole)

    def _try(self, w: Tensor, t: float, h: float) -> _Step:
        norm = self.system.mesh.norm
        sizes = torch.maximum(self.sizes, norm(w))
        guess = self._extrapolate(h)
        stages, good = self.stepper.stages(
            w, t, h, guess, relative_scale(sizes), self.control.newton
        )
        points = torch.cat([w.unsqueeze(1), stages], 1)
        sizes = torch.maximum(sizes, norm(stages).amax(1).nan_to_num())
        top = _over_points(self.scheme.top, points)[:, 0] * self.moving
        errors = (norm(top) / relative_scale(sizes))[:, self.measured].amax(1)
        errors = torch.where(good & torch.isfinite(errors), errors, math.inf)
        errors = torch.where(self.result.until == math.inf, errors, 0.0)
        return _Step(points, h, errors, sizes)

    def _extrapolate(self, h: float) -> Tensor | None:
        """Stages by the polynomial of the last step."""
        if self.last is None or self.stepper.fixed or h > 2.01 * self.last.length:
            return None
        matrix = self._lagrange(1 + h / self.last.length * self.nodes[1:])
        return _over_points(matrix, self.last.points)

    def _lagrange(self, wanted: Tensor, start: int = 0) -> Tensor:
        """Weights of a step's points, from number ``start`` on, at parts ``wanted`` of it."""
        nodes = self.nodes[start:]
        powers = torch.arange(len(nodes))
        inverse = torch.linalg.inv(nodes[:, None] ** powers)
        return wanted[:, None] ** powers @ inverse

    def _halve(self, error: float) -> int:
        if error == math.inf:
            return 2
        return max(
            1, min(4, math.ceil(math.log2(error / self.control.tolerance) / self.scheme.stages))
        )

    def _grow(self, error: float, k: int, done: int, whole: int) -> int:
        """Double the step, twice at most, where it stays aligned and the error allows it."""
        if self.control.fixed:
            return k
        room = math.log2(self.control.tolerance / max(error, 1e-300)) / self.scheme.stages - 0.3
        for _ in range(min(2, int(max(room, 0)))):
            if k > 0 and done % (whole >> (k - 1)) == 0:
                k -= 1
        return k

    def _give_up(self, step: _Step, w: Tensor, t: float) -> Tensor:
        """Carry on without the instances whose steps are not solved."""
        broken = (step.errors > self.control.tolerance) | (step.errors == math.inf)
        self.result.until[broken] = t
        keep = ~broken.reshape(-1, *(1,) * (w.ndim - 1))
        self.last = None
        return torch.where(keep, w, 0.0)

    def _keep(self, i: int, step: _Step, part: float) -> None:
        """Keep the values and slopes at the end (1) or the start (0) of a step.

        At the start, what has no initial data of its own follows from the stages.
        """
        points, start = step.points, part == 0.0
        self.result.values[:, i] = points[:, 0 if start else -1]
        slope = _over_points(self._lagrange_slope(part), points)[:, 0]
        self.result.slopes[:, i] = slope / step.length
        free = [c for c in range(points.shape[2]) if not bool(self.moving[c].any())]
        if start and free:
            weights = self._lagrange(torch.zeros(1, dtype=torch.float64), 1)
            self.result.values[:, i, free] = _over_points(weights, points[:, 1:, free])[:, 0]

    def _lagrange_slope(self, part: float) -> Tensor:
        powers = torch.arange(len(self.nodes))
        inverse = torch.linalg.inv(self.nodes[:, None] ** powers)
        at = powers * torch.tensor(part, dtype=torch.float64) ** (powers - 1).clamp_min(0)
        return at.double() @ inverse


def _over_points(weights: Tensor, points: Tensor) -> Tensor:
    """Sums over the points of a step: weights ``[m, p]`` or ``[p]``, points ``[B, p, …]``."""
    weights = weights.reshape(-1, points.shape[1]).to(points)
    return (weights @ points.flatten(2)).reshape(len(points), -1, *points.shape[2:])
