"""Adaptive time stepping of a system by Radau IIA through its save times.

Every step is the interval between two save times divided by a power of two, or a third of that, so
that save times are met exactly and factorisations are shared. The error of a step is estimated by
the leading coefficients of its collocation polynomial in time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from piop.linalg import factorise
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.chebyshev.radau import Radau
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.features.along_paths import StepPaths
from piop.reference.levels import relative_scale

_STAGE_ITERATIONS = 12
_SLOW = 0.05  # contraction above which ∂V/∂w is renewed for the next step
_STAGE_ROUNDING = 1e-8  # corrections below this that shrink no more are rounding
_KEPT = 8  # factorisations of step lengths
_MANY = 1000  # steps of one length from which on inverses pay


@final
class Stepper:
    """Steps a system and keeps factorisations.

    Args:
        system: The rows on a mesh.
        scheme: The method.
        start: Time at which the mass matrix is evaluated; it does not move.
    """

    def __init__(self, system: CollocationSystem, scheme: Radau, start: float) -> None:
        device = system.mesh.device
        self.system, self.scheme = system, scheme
        self.mass = system.mass(start)
        self.inverse = scheme.inverse.to(device)
        self.into, self.back = scheme.into.to(device), scheme.back.to(device)
        self.fixed = system.equations.linear and system.equations.steady
        self._slope: Tensor | None = None
        self._factors: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self.still = self.fixed and not system.equations.moving
        self._uses: Counter[str] = Counter()
        self._inverses: dict[str, Tensor] = {}  # of the last step length

    def stages(
        self, w: Tensor, t: float, h: float, guess: Tensor | None, scale: Tensor, tolerance: float
    ) -> tuple[Tensor, Tensor]:
        """Solve for the stages of a step from ``w [B, C, *sizes]`` at t.

        Args:
            w: The state.
            t: Its time.
            h: Length of the step.
            guess: Stages to start from ``[B, s, C, *sizes]``; None for ``w`` itself.
            scale: Size of each channel ``[B, C]``: convergence is relative to it.
            tolerance: Largest relative correction at which iterations stop.

        Returns:
            Stages ``[B, s, C, *sizes]`` and whether each instance converged ``[B]``.
        """
        slope, fresh = self._slope, self._slope is None
        if slope is None:
            slope = self._slope = self.system.jacobian(w, t)
            self._factors.clear()
        whole = w.unsqueeze(1)
        constant = whole.expand(-1, self.scheme.stages, *w.shape[1:])
        found = (constant if guess is None else guess).clone()
        last = torch.full((len(w),), torch.inf, dtype=w.dtype, device=w.device)
        good = torch.zeros(len(w), dtype=torch.bool, device=w.device)
        slowest = 0.0
        if self.still and len(slope) == 1 and self._often(h):
            found += self._correction_by_inverse(w, t, h, slope)
            return found, torch.isfinite(found).flatten(1).all(1)
        for i in range(1 if self.fixed else _STAGE_ITERATIONS):
            change = self._correction(whole, found, t, h, slope)
            found += change
            if self.fixed:
                return found, torch.isfinite(found).flatten(1).all(1)
            norm = self.system.mesh.norm
            scale = torch.maximum(scale, norm(found).amax(1).nan_to_num())  # what starts from rest
            size = (norm(change).amax(1) / scale).amax(1)
            ratio = size / last
            if i and not good.all():
                slowest = max(slowest, float(ratio[~good].nan_to_num().amax()))
            # What is left after a contraction by q: size · q/(1 − q).
            left = size * (ratio / (1 - ratio).clamp_min(0.1)).clamp(max=1.0) if i else size
            stuck = (size <= _STAGE_ROUNDING) & (ratio > 0.3) & (i > 0)
            good = good | (left <= tolerance) | stuck
            diverging = ~good & (~torch.isfinite(size) | (ratio > 2) & (i > 1))
            last = torch.where(size > 0, size, last)
            if bool((good | diverging).all()):
                break
        if slowest > _SLOW or not bool(good.all()):
            self.renew()
        if not fresh and not bool(good.all()):  # once more with slopes of here and now
            return self.stages(w, t, h, guess, scale, tolerance)
        return found, good

    def renew(self) -> None:
        """Discard the Jacobian, unless it is constant."""
        if not self.fixed:
            self._slope = None

    def _correction(self, w: Tensor, found: Tensor, t: float, h: float, slope: Tensor) -> Tensor:
        """−(residual of the stages) through the Newton matrix ``[B, s, C, *sizes]``."""
        batch, stages = found.shape[:2]
        difference = (found - w).reshape(batch, stages, -1)
        moved = difference @ self.mass.mT if len(self.mass) > 1 else difference @ self.mass[0].T
        residual = torch.einsum("ij,bjn->bin", self.inverse / h, moved)
        times = [t + c * h for c in self.scheme.nodes]
        residual += self.system.value(found, times).reshape(batch, stages, -1)
        parts = torch.einsum("ki,bin->bkn", self.into, residual.to(self.into.dtype))
        out = torch.zeros_like(residual)
        factors = self._factor(h, slope)
        for k, shift in enumerate(self.scheme.shifts):
            solved = solve_factored(factors[k], parts[:, k] if shift.imag else parts[:, k].real)
            out -= (self.back[:, k][:, None] * solved[:, None]).real
        return out.reshape(found.shape)

    def _often(self, h: float) -> bool:
        key = f"{h:.9e}"
        self._uses[key] += 1
        return self._uses[key] > _MANY

    def _correction_by_inverse(self, w: Tensor, t: float, h: float, slope: Tensor) -> Tensor:
        """The same from stages equal to ``w``, where nothing moves: all residuals are V(w)."""
        key = f"{h:.9e}"
        if key not in self._inverses:
            one = torch.eye(slope.shape[-1]).to(slope)
            weights = self.back * self.into.sum(1)  # [s, s']
            parts = [
                (own[:, None, None] * torch.linalg.lu_solve(*factor, one.to(factor[0]))).real
                for own, factor in zip(weights.T, self._factor(h, slope), strict=True)
            ]
            self._inverses = {key: torch.stack(parts).sum(0).flatten(0, 1)}  # [s·n, n]
        residual = self.system.value(w.unsqueeze(1), (t,)).flatten(1)
        return -(residual @ self._inverses[key].T).reshape(len(w), -1, *w.shape[1:])

    def _factor(self, h: float, slope: Tensor) -> list[tuple[Tensor, Tensor]]:
        key = f"{h:.9e}"
        if key not in self._factors:
            if len(self._factors) >= _KEPT:
                self._factors.clear()
            self._factors[key] = [
                factorise(s / h * self.mass + slope)[:2] for s in self.scheme.shifts
            ]
        return self._factors[key]


def solve_factored(factored: tuple[Tensor, Tensor], right: Tensor) -> Tensor:
    """Solve for ``right [B, n]`` with factors ``[B or 1, n, n]``."""
    lu, pivots = factored
    if len(lu) == len(right):
        return torch.linalg.lu_solve(lu, pivots, right.unsqueeze(-1)).squeeze(-1)
    return torch.linalg.lu_solve(lu, pivots, right.T.unsqueeze(0).contiguous())[0].T


_FINEST = 30  # halvings of an interval between save times
_SHORTEST = 20  # halvings at which steps are as short as they get
SHORTEST = 2.0**-_SHORTEST
"""The shortest steps, as a part of the time between save times."""
_ROUNDING = 2e-15
"""Of the error of a step, relative to the state."""
_HOPELESS = 1e-3  # error of the shortest steps at which an instance is given up
_FIRST = 6


@dataclass(frozen=True)
class StepControl:
    """Choice of the lengths of steps.

    Attributes:
        tolerance: Of a step's error, relative to its channel.
        parts: Into which intervals between save times are divided before they are halved.
        most: Most steps of a run.
        newton: Relative correction at which iterations stop.
    """

    tolerance: float
    parts: int
    most: int
    newton: float


@dataclass
class CollocationTrajectory:
    """States at the save times.

    Attributes:
        mesh: Where.
        values: Channels at the save times ``[B, T, C, *sizes]``.
        slopes: Their time derivatives.
        until: First time at which an instance could not be carried on, else inf ``[B]``.
        local: Largest error of a step, at most what is allowed ``[B]``.
        missed: Relative error by what terms of equations hide between the points of steps ``[B]``.
        longest: Longest step.
        steps: How many were taken.
    """

    mesh: CollocationMesh
    values: Tensor
    slopes: Tensor
    until: Tensor
    local: Tensor
    missed: Tensor
    longest: float = 0.0
    steps: int = 0


@dataclass
class _Step:
    """A step that was tried.

    Attributes:
        points: Start and stages ``[B, s + 1, C, *sizes]``.
        length: In units of time.
        errors: Relative errors ``[B]``.
        sizes: Of channels so far ``[B, C]``.
        missed: Part of the errors that is hidden between its points ``[B]``.
    """

    points: Tensor
    length: float
    errors: Tensor
    sizes: Tensor
    missed: Tensor


@final
class TimeStepping:
    """Steps a system from its initial state to the last save time.

    Args:
        system: The rows on a mesh.
        scheme: The method.
        control: How steps are chosen.
        longest: Start and end of a step → longest one that resolves the data there.
        smallest: Sizes of channels ``[B, C]`` below which errors are relative to these.
        progress: Takes the time that is reached.
    """

    def __init__(
        self,
        system: CollocationSystem,
        scheme: Radau,
        control: StepControl,
        longest: Callable[[float, float], float],
        smallest: Tensor,
        progress: Callable[[float], None] = lambda t: None,
    ) -> None:
        self.system, self.scheme, self.control, self.longest = system, scheme, control, longest
        self.smallest, self.progress = smallest, progress
        self.moving = system.differential()
        self.nodes = torch.tensor([0.0, *scheme.nodes], dtype=torch.float64)
        self.powers = torch.arange(len(self.nodes))
        # Coefficients of powers from values at the points of a step.
        self.fit = torch.linalg.inv(self.nodes[:, None] ** self.powers)
        self.measured = [i for i, own in enumerate(self.moving) if bool(own.any())]

    def run(self, w: Tensor, start: float, times: Sequence[float]) -> CollocationTrajectory:
        """Step from ``w [B, C, *sizes]`` at ``start`` and keep the state at each of ``times``."""
        size = (len(w), len(times), *w.shape[1:])
        until = torch.full((len(w),), math.inf, dtype=w.dtype, device=w.device)
        mesh = self.system.mesh
        values, slopes = w.new_zeros(size), w.new_zeros(size)
        local, missed = torch.zeros_like(until), torch.zeros_like(until)
        self.result = CollocationTrajectory(mesh, values, slopes, until, local, missed)
        narrow, span = self.system.equations.narrow, times[-1] - start
        self.paths = StepPaths(narrow, len(w), self.control.tolerance, span, w.device)
        self.stepper = Stepper(self.system, self.scheme, start)
        self.sizes = self.smallest
        self.last: _Step | None = None
        self.following = 0.0
        first: _Step | None = None
        t = start
        for i, time in enumerate(times):
            if time <= t:
                continue
            parts = self.control.parts
            for part in range(parts):
                low, high = (t + (time - t) * (j / parts) for j in (part, part + 1))
                for step in self._interval(w, low, high):
                    first = first or step
                    w, self.last = step.points[:, -1], step
            if self.last is None:  # every instance was given up
                break
            self._keep(i, self.last)
            t = time
        if first is not None and times[0] <= start:
            self._keep(0, first, start=True)
        return self.result

    def _interval(self, w: Tensor, t: float, end: float) -> Iterator[_Step]:
        """Yield the steps from t to ``end``, as long as any instance can be carried on."""
        length, whole, done = end - t, 2**_FINEST, 0
        k = _FIRST
        if self.last is not None:
            k = math.ceil(math.log2(length / self.following) - 1e-9)
        while done < whole and bool((self.result.until == math.inf).any()):
            k, moment = max(k, 0), t + length * (done / whole)
            while k < _SHORTEST and length / 2**k > self.longest(moment, moment + length / 2**k):
                k += 1
            self.progress(moment)
            step = self._try(w, moment, length / 2**k)
            worst = float(step.errors.amax())
            many = self.result.steps > self.control.most
            if worst > self.control.tolerance and k < _SHORTEST and not many:
                k = min(_SHORTEST, k + self._halve(worst))
                self.stepper.renew()
                continue
            if worst > (limit := self.control.tolerance if many else _HOPELESS):
                w = self._give_up(step.errors > limit, w, moment)
                continue
            self.sizes, w, done = step.sizes, step.points[:, -1], done + (whole >> k)
            local = step.errors.clamp(max=self.control.tolerance)
            self.result.local = torch.maximum(self.result.local, local)
            self.result.missed += step.missed
            self.result.steps += 1
            self.result.longest = max(self.result.longest, step.length)
            k = self._grow(worst, k, done, whole)
            self.following = length / 2**k
            yield step

    def _try(self, w: Tensor, t: float, h: float) -> _Step:
        norm = self.system.mesh.norm
        sizes = torch.maximum(self.sizes, norm(w))
        guess = self._extrapolate(h)
        scale, newton = relative_scale(sizes), self.control.newton
        stages, good = self.stepper.stages(w, t, h, guess, scale, newton)
        points = torch.cat([w.unsqueeze(1), stages], 1)
        sizes = torch.maximum(sizes, norm(stages).amax(1).nan_to_num())
        leading = norm(_over_points(self.scheme.leading, points) * self.moving)
        relative = (leading / relative_scale(sizes)[:, None])[:, :, self.measured]
        errors = self.scheme.step_error(relative.mT).amax(1)
        errors = torch.where(good & torch.isfinite(errors), errors, math.inf)
        errors = torch.where(self.result.until == math.inf, errors, 0.0)
        missed = torch.zeros_like(errors)
        if self.paths.terms and float(errors.amax()) <= self.control.tolerance:
            missed = self._missed(points, t, h, relative_scale(sizes))
            missed = torch.where(self.result.until == math.inf, missed, 0.0)
            errors = torch.maximum(errors, missed)
        return _Step(points, h, errors, sizes, missed)

    def _missed(self, points: Tensor, t: float, h: float, sizes: Tensor) -> Tensor:
        """What terms of the equations hide between the points of a step ``[B]``."""
        moments, index = (t + h * self.nodes).tolist(), self.system.equations.index
        return self.paths.missed(
            lambda leaf: self.system.read(leaf, points, moments),
            h * self.nodes.diff().to(points),
            len(moments),
            lambda channel: sizes[:, index[channel]],
            self.system.mesh.norm,
        ).sum(1)

    def _extrapolate(self, h: float) -> Tensor | None:
        """Stages by the polynomial of the last step."""
        if self.last is None or self.stepper.fixed or h > 2.01 * self.last.length:
            return None
        wanted = 1 + h / self.last.length * self.nodes[1:]
        return _over_points(wanted[:, None] ** self.powers @ self.fit, self.last.points)

    def _halve(self, error: float) -> int:
        if error == math.inf:
            return 2
        halvings = math.ceil(math.log2(error / self.control.tolerance) / (self.scheme.stages + 2))
        return max(1, min(4, halvings))

    def _grow(self, error: float, k: int, done: int, whole: int) -> int:
        """Double the step, twice at most, where it stays aligned and the error allows it.

        Rounding of its points, which does not shrink with the step, does not hold it short.
        """
        room = math.log2(self.control.tolerance / max(error - _ROUNDING, 1e-300))
        room = room / (self.scheme.stages + 2) - 0.3
        for _ in range(min(2, int(max(room, 0)))):
            if k > 0 and done % (whole >> (k - 1)) == 0:
                k -= 1
        return k

    def _give_up(self, broken: Tensor, w: Tensor, t: float) -> Tensor:
        """Carry on without the instances whose steps are not solved ``[B]``."""
        self.result.until[broken] = t
        keep = ~broken.reshape(-1, *(1,) * (w.ndim - 1))
        self.last = None
        return torch.where(keep, w, 0.0)

    def _keep(self, i: int, step: _Step, start: bool = False) -> None:
        """Keep the values and slopes at the end of a step, or at its start.

        At the start, what has no initial data of its own follows from the stages.
        """
        points = step.points
        self.result.values[:, i] = points[:, 0 if start else -1]
        weights = self.fit[1] if start else self.powers.double() @ self.fit  # of d/dx at 0 or 1
        self.result.slopes[:, i] = _over_points(weights, points)[:, 0] / step.length
        free = [c for c in range(points.shape[2]) if not bool(self.moving[c].any())]
        if start and free:
            weights = torch.linalg.inv(self.nodes[1:, None] ** self.powers[:-1])[0]
            self.result.values[:, i, free] = _over_points(weights, points[:, 1:, free])[:, 0]


def _over_points(weights: Tensor, points: Tensor) -> Tensor:
    """Sums over the points of a step: weights ``[m, p]`` or ``[p]``, points ``[B, p, …]``."""
    weights = weights.reshape(-1, points.shape[1]).to(points)
    return (weights @ points.flatten(2)).reshape(len(points), -1, *points.shape[2:])
