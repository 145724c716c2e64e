"""Error estimates of trajectories in space and time, and the choice of their next level.

The rules are our own (docs/limits.md lists what they cannot detect). Errors in space and in time
are estimated separately:

* **Space.** The tail of the spectrum, largest over the run, times a constant measured on Burgers
  fronts. The decay of the spectrum says how many modes are needed. Where data jump or have kinks it
  decays as k^−p: then all that lies beyond the cutoff, √(∫ k^−2p), twice for aliases in phase.
* **Time.** The difference d of two runs on the same grid, r times apart in steps, at the worst save
  time. The finer one errs by d/(r^p − 1) at order p = 4; we credit order 3.5. Where products hold
  second derivatives they are stiff, so the order may drop (M. Hochbruck and A. Ostermann, SIAM J.
  Numer. Anal. 43 (2005), doi:10.1137/040611434): we credit the order that two differences show, 2
  at most, and order 1 before (0.75 to 1.2 were seen where a diffusion coefficient has narrow dips).
  Order 1.5 is credited where the initial data hold modes that decay many times in a step (the same;
  orders of 1.7 to 3 were seen with data of 1.5 derivatives, and errors 2.6 times the estimate at
  order 3.5), and never more than a factor 20. It carries over to finer grids once the front is
  captured, so the pair is run on a coarse grid, and again where a finer one moves by 1 %. Modes
  that turn many times in a step and last (rough data, dispersion) have no phase at all: the error
  is what they hold, twice that with the modes beside them, and falls slowly (orders of 0.1 to 0.5
  were seen with jumps and kinks under KdV).
* **Sources.** A source with a kink has aliases in all modes, while the solution's tail is damped:
  what lies beyond the tail of the products counts where it decays as k^−p.
* A tail that never resolves (rough data) earns no credit: the grid grows by half or more, and the
  estimate is twice the difference of the last two grids, as for first order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from piop.reference.fourier.step_lengths import SpectralLevel
from piop.reference.levels import SAFETY

_ASYMPTOTIC = 1e-2
_CAPTURED = 1e-3
_TAIL = 2.5
_BAND = math.log(0.95 / 0.45)
"""Distance of the bands of the tail and the middle, in logarithms of wave numbers."""
_ALGEBRAIC = 5.0  # order of decay from which a spectrum is taken to decay exponentially
_CANCELLED, _UNALTERED = 1.6, 1.5
_SLOWEST, _FAST = 0.55, 20.0
"""Least order of decay, where the square of the spectrum can be summed, and the greatest."""
_SLOW = 0.5  # order in time to credit where modes hold no phase
_PHASELESS = 4.0
_STIFF = 2.0
"""Order in time that is credited at most where products are stiff, once it is observed."""
_UNKNOWN, _LEAST = 1.0, 0.5
"""Orders that are credited to stiff products before it is, and at least."""
_ROUGH = 30.0
_FACTORS = (1, 1.25, 1.5, 1.75)
_MULTIPLES = (1, 2, 3, *(int(f * 2**i) for i in range(2, 24) for f in _FACTORS))


def _beyond(tail: float, order: float) -> float:
    """Size of all modes beyond a tail that decays as k^−order, their aliases included."""
    if order >= _ALGEBRAIC:
        return _TAIL * tail
    # A kink between two points cancels its own aliases: the tail is less than the order says.
    slow = max(min(order, _UNALTERED), order - _CANCELLED)
    tail *= math.exp(_BAND * (order - slow))
    return tail * max(_TAIL, 0.95**slow * math.sqrt(40 / (2 * slow - 1)))


def _decay(tail: float, middle: float) -> float:
    order = math.log(middle / tail) / _BAND if tail > 0 < middle else math.inf
    return min(max(order, _SLOWEST), _FAST)


def slow_beyond(tail: float, middle: float) -> float:
    """Bound of all modes beyond a tail that decays slowly; 0 where it decays exponentially."""
    order = _decay(tail, middle)
    return SAFETY * _beyond(tail, order) if order < _ALGEBRAIC else 0.0


@dataclass(frozen=True)
class Measurements:
    """Measurements of one trajectory on one level, relative to its size.

    Attributes:
        level: Resolution.
        tail: Largest tail over unknowns, along each axis.
        middle: The same in the middle of the spectrum.
        rough: Largest tail of a product, relative to the product, along each axis.
        difference: From the run before; None on the first or after a failure.
        phaseless: Part of the initial data, in modes that turn many times in a step, that lasts.
        coherence: Error at the points of the output relative to its mean over space.
        sources: What the grid does not hold of sources whose spectrum decays slowly, relative to
            all products, along each axis; its aliases are not damped as the solution's tail is.
    """

    level: SpectralLevel
    tail: tuple[float, ...]
    middle: tuple[float, ...]
    rough: tuple[float, ...]
    difference: float | None = None
    phaseless: float = 0.0
    coherence: float = 1.0
    sources: tuple[float, ...] = (0.0, 0.0, 0.0)

    @property
    def beyond(self) -> tuple[float, ...]:
        """Size of what the grid does not hold, along each axis."""
        own = map(_beyond, self.tail, self.decay)
        return tuple(map(max, own, self.sources))

    @property
    def decay(self) -> tuple[float, ...]:
        """Order p of a spectrum that decays as k^−p along each axis, at least _SLOWEST."""
        return tuple(map(_decay, self.tail, self.middle))


@dataclass(frozen=True)
class StepPair:
    """Two runs with so many steps per step of the coarsest level, and their difference."""

    coarse: int
    fine: int
    difference: float

    def order(self, before: StepPair) -> float:
        """Order p of errors as c·multiple^−p that differ so in two pairs, 0.5 to 2."""
        low, high = _LEAST, _STIFF
        for _ in range(30):
            p = 0.5 * (low + high)
            gaps = [own.coarse**-p - own.fine**-p for own in (before, self)]
            if gaps[0] * self.difference > gaps[1] * before.difference:
                high = p
            else:
                low = p
        return low


@dataclass(frozen=True)
class Assessment:
    """Error bounds of a trajectory in space and time after a run.

    Attributes:
        measured: The run.
        order: Order in time that is credited; 0 for a scheme that is exact in time.
        timed: Multiple at which the time error was last measured; None before.
        time_error: Bound of the time error there.
        space_error: Bound of the space error of the run; infinite where neither the spectrum nor a
            difference of two grids tells.
        rough_error: Bound by the difference of the last two grids, at first order.
        pair: The runs that differ in their steps alone that were compared last; None before.
    """

    measured: Measurements
    order: float
    timed: int | None
    time_error: float
    space_error: float
    rough_error: float = math.inf
    pair: StepPair | None = None

    @property
    def error(self) -> float:
        """Upper bound, with safety factor, of the run's error."""
        return self.time_error_at(self.measured.level.multiple) + self.space_error

    def time_error_at(self, multiple: int) -> float:
        """Bound of the time error with other steps."""
        if not self.order:
            return 0.0
        if self.timed is None:
            return math.inf
        return self.time_error * (self.timed / multiple) ** self.order


def assess(
    measured: Measurements, before: Assessment | None, order: float, tolerance: float
) -> Assessment:
    """Estimate the errors of a run from it and the one before it.

    Args:
        measured: The run.
        before: Assessment of the run before; None on the first or after a failure.
        order: Order in time to credit; 0 for a scheme that is exact in time.
        tolerance: Error wanted.
    """
    fits = resolved(measured, tolerance)
    space = SAFETY * max(measured.beyond) * max(1.0, measured.coherence) if fits else math.inf
    if before is None or measured.difference is None:
        return Assessment(measured, order, None, math.inf, space)
    old, new = before.measured.level, measured.level
    if old == new:  # another problem, which tells nothing of steps or grids
        return replace(before, measured=measured)
    timed, time_error, rough = before.timed, before.time_error, before.rough_error
    pair = before.pair
    if new.sizes != old.sizes:
        rough = 2 * SAFETY * measured.difference * max(1.0, measured.coherence)
    if new.sizes == old.sizes and measured.difference <= _ASYMPTOTIC:
        pair = StepPair(old.multiple, new.multiple, measured.difference)
        if 0 < order <= _STIFF:
            order = min(order, pair.order(before.pair) if before.pair else _UNKNOWN)
        left = 1 / ((new.multiple / old.multiple) ** order - 1) if order else 0.0
        timed, time_error = new.multiple, SAFETY * measured.difference * max(left, 0.05)
        phaseless = _PHASELESS * min(measured.phaseless, measured.difference)
        if phaseless > time_error:
            order, time_error = _SLOW, phaseless
    else:
        order = min(order, before.order)
        fine = before.time_error_at(old.multiple) + max(before.measured.beyond)
        if timed is not None and measured.difference > min(100 * fine, _ASYMPTOTIC):
            # The finer grid shows what both runs on the coarser one missed.
            timed, time_error, pair = None, math.inf, None
    grown = min(a / b for a, b in zip(new.sizes, old.sizes, strict=True))
    if not fits and grown >= 1.5:
        space = rough
    return Assessment(measured, order, timed, time_error, space, rough, pair)


def resolved(measured: Measurements, tolerance: float) -> bool:
    """Whether the grid resolves the trajectory and its products to a fraction of the tolerance."""
    return not any(_unresolved(measured, axis, tolerance) for axis in range(len(measured.tail)))


def next_level(assessment: Assessment, tolerance: float) -> SpectralLevel:
    """The level to try after a run that was finite but not accepted."""
    measured, level = assessment.measured, assessment.measured.level
    axes = range(len(measured.tail))
    captured = max(measured.tail) <= _CAPTURED or not assessment.order
    sizes = tuple(_grow(measured, axis, tolerance) for axis in axes)
    multiple = level.multiple
    if not captured:
        growth = max(a / b for a, b in zip(sizes, level.sizes, strict=True))
        return replace(level, sizes=sizes, multiple=_at_least(multiple * max(growth, 1.25)))
    if assessment.order and assessment.timed is None:
        return replace(level, multiple=_at_least(2 * multiple))
    excess = assessment.time_error_at(multiple) / (tolerance / 3)
    if excess > 1:
        multiple = _at_least(multiple * min(4.0, excess ** (1 / assessment.order)))
    if sizes == level.sizes and multiple == level.multiple:
        sizes = tuple(round_up(1.25 * n) for n in sizes) if not assessment.order else sizes
        multiple = _at_least(1.2 * multiple) if assessment.order else multiple
    return replace(level, sizes=sizes, multiple=multiple, padded=False)


def after_failure(level: SpectralLevel) -> SpectralLevel:
    """The level to try after a run that met NaN: four times the steps."""
    return replace(level, multiple=_at_least(4 * level.multiple), padded=True)


def round_up(n: float) -> int:
    """The next even size with factors 2, 3, 5, 7, from a short list: trajectories share levels."""
    base = 2 ** max(3, math.floor(math.log2(max(n, 8))))
    return next(int(base * f) for f in (*_FACTORS, 2, 2.5) if base * f >= n * 0.999)


def _at_least(multiple: float) -> int:
    return next(m for m in _MULTIPLES if m >= multiple * 0.98)


def _unresolved(measured: Measurements, axis: int, tolerance: float) -> bool:
    return (
        SAFETY * measured.beyond[axis] > tolerance / 6 or measured.rough[axis] > _ROUGH * tolerance
    )


def _grow(measured: Measurements, axis: int, tolerance: float) -> int:
    """Points that bring an exponentially decaying spectrum down to the tolerance."""
    n, tail, middle = measured.level.sizes[axis], measured.tail[axis], measured.middle[axis]
    if not _unresolved(measured, axis, tolerance):
        return n
    if SAFETY * measured.sources[axis] > tolerance / 6:
        return round_up(2 * n)
    target = tolerance / (12 * SAFETY * _TAIL)
    # The middle band lies half a spectrum below the last one.
    decay = 2 * math.log(middle / tail) if middle > tail > 0 else 0.0
    factor = 1 + math.log(max(tail / target, 1)) / decay if decay > 0 else 2.0
    return round_up(n * min(2.0, max(1.2, factor)))
