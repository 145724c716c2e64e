"""How fine is fine enough: how a trajectory's error is estimated and how its next level is chosen.

Own rules (docs/limits.md lists what they cannot see). Space and time are judged apart:

* **Space.** The tail of the spectrum, largest over the run, times a constant measured on Burgers
  fronts. The decay of the spectrum says how many modes are needed.
* **Time.** The difference d of two runs on the same grid, r times apart in steps, at the worst save
  time. The finer one errs by d/(r⁴ − 1) at order 4; we credit order 3.5, order 2 where products
  hold second derivatives (stiff, so the order may drop: M. Hochbruck and A. Ostermann, SIAM J.
  Numer. Anal. 43 (2005), doi:10.1137/040611434), order 1.5 where the initial data hold modes that
  decay many times in a step (the same; orders of 1.7 to 3 were seen with data of 1.5 derivatives,
  and errors 2.6 times the estimate at order 3.5), and never more than a factor 20. It carries over
  to finer grids once the front is captured, so the pair is run on a coarse grid.
* A tail that never resolves (rough data) earns no credit: the grid grows by half or more, and the
  estimate is twice the difference of the last two grids, as for first order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from piop.reference.fourier.time_stepping import SpectralLevel

SAFETY = 2.0
_ASYMPTOTIC = 1e-2
_CAPTURED = 1e-3
_TAIL = 2.5
_ROUGH = 30.0
_FACTORS = (1, 1.25, 1.5, 1.75)
_MULTIPLES = (1, 2, 3, *(int(f * 2**i) for i in range(2, 24) for f in _FACTORS))


@dataclass(frozen=True)
class Limits:
    """Where the ladder ends.

    Attributes:
        modes: Most points along an axis, for one, two and three space dimensions.
        steps: Most steps of a run from the first to the last save time.
        levels: Most runs per trajectory.
    """

    modes: tuple[int, int, int] = (8192, 1024, 192)
    steps: int = 400_000
    levels: int = 16

    def allow(self, level: SpectralLevel, span: float) -> bool:
        """Whether a level is on the ladder; ``span`` is the whole interval of time."""
        cap = self.modes[len(level.sizes) - 1]
        return max(level.sizes) <= cap and level.steps(span) <= self.steps


@dataclass(frozen=True)
class Look:
    """What one run showed of one trajectory; everything relative to the trajectory.

    Attributes:
        level: Its level.
        tail: Largest tail over unknowns, along each axis.
        middle: The same in the middle of the spectrum.
        rough: Largest tail of a product, relative to the product, along each axis.
        difference: From the run before; None on the first or after a failure.
    """

    level: SpectralLevel
    tail: tuple[float, ...]
    middle: tuple[float, ...]
    rough: tuple[float, ...]
    difference: float | None = None


@dataclass(frozen=True)
class Judgement:
    """What is known of a trajectory after a run.

    Attributes:
        look: The run.
        order: Order in time that is credited; 0 for a scheme that is exact in time.
        timed: Multiple at which the time error was last measured; None before.
        time_error: Bound of the time error there.
        space_error: Bound of the space error of the run; infinite where not known.
    """

    look: Look
    order: float
    timed: int | None
    time_error: float
    space_error: float

    @property
    def error(self) -> float:
        """Upper bound, with safety factor, of the run's error."""
        return self.time_error_at(self.look.level.multiple) + self.space_error

    def time_error_at(self, multiple: int) -> float:
        """Bound of the time error with other steps."""
        if not self.order:
            return 0.0
        if self.timed is None:
            return math.inf
        return self.time_error * (self.timed / multiple) ** self.order


def judge(look: Look, before: Judgement | None, order: float, tolerance: float) -> Judgement:
    """Put a run beside the one before it.

    Args:
        look: The run.
        before: What was known before it; None on the first or after a failure.
        order: Order in time to credit; 0 for a scheme that is exact in time.
        tolerance: Error wanted.
    """
    fits = resolved(look, tolerance)
    space = SAFETY * _TAIL * max(look.tail) if fits else math.inf
    if before is None or look.difference is None:
        return Judgement(look, order, None, math.inf, space)
    old, new = before.look.level, look.level
    timed, time_error = before.timed, before.time_error
    if new.sizes == old.sizes and look.difference <= _ASYMPTOTIC:
        ratio = new.multiple / old.multiple
        timed, time_error = new.multiple, SAFETY * look.difference * max(ratio**-order, 0.05)
    elif timed is not None and look.difference > 100 * (
        before.time_error_at(old.multiple) + _TAIL * max(before.look.tail)
    ):
        timed, time_error = None, math.inf  # the finer grid shows what the pair had not seen
    grown = min(a / b for a, b in zip(new.sizes, old.sizes, strict=True))
    if not fits and grown >= 1.5:
        space = 2 * SAFETY * look.difference
    return Judgement(look, order, timed, time_error, space)


def resolved(look: Look, tolerance: float) -> bool:
    """Whether the grid holds the trajectory and its products to a part of the tolerance."""
    return not any(_unresolved(look, axis, tolerance) for axis in range(len(look.tail)))


def next_level(known: Judgement, tolerance: float) -> SpectralLevel:
    """The level to try after a run that was finite but not accepted."""
    look, level = known.look, known.look.level
    axes = range(len(look.tail))
    captured = max(look.tail) <= _CAPTURED or not known.order
    sizes = tuple(_grow(look, axis, tolerance) for axis in axes)
    multiple = level.multiple
    if not captured:
        growth = max(a / b for a, b in zip(sizes, level.sizes, strict=True))
        return replace(level, sizes=sizes, multiple=_at_least(multiple * max(growth, 1.25)))
    if known.order and known.timed is None:
        return replace(level, multiple=_at_least(2 * multiple))
    excess = known.time_error_at(multiple) / (tolerance / 3)
    if excess > 1:
        multiple = _at_least(multiple * min(4.0, excess ** (1 / known.order)))
    if sizes == level.sizes and multiple == level.multiple:
        sizes = tuple(round_up(1.25 * n) for n in sizes) if not known.order else sizes
        multiple = _at_least(1.2 * multiple) if known.order else multiple
    return replace(level, sizes=sizes, multiple=multiple, padded=False)


def after_failure(level: SpectralLevel) -> SpectralLevel:
    """The level to try after a run that met NaN: four times the steps."""
    return replace(level, multiple=_at_least(4 * level.multiple), padded=True)


def round_up(n: float) -> int:
    """The next even size with factors 2, 3, 5, 7 only, from a short list so that runs join."""
    base = 2 ** max(3, math.floor(math.log2(max(n, 8))))
    return next(int(base * f) for f in (*_FACTORS, 2, 2.5) if base * f >= n * 0.999)


def _at_least(multiple: float) -> int:
    return next(m for m in _MULTIPLES if m >= multiple * 0.98)


def _unresolved(look: Look, axis: int, tolerance: float) -> bool:
    return SAFETY * _TAIL * look.tail[axis] > tolerance / 6 or look.rough[axis] > _ROUGH * tolerance


def _grow(look: Look, axis: int, tolerance: float) -> int:
    """Points that bring an exponentially decaying spectrum down to the tolerance."""
    n, tail, middle = look.level.sizes[axis], look.tail[axis], look.middle[axis]
    if not _unresolved(look, axis, tolerance):
        return n
    target = tolerance / (12 * SAFETY * _TAIL)
    # The middle band lies half a spectrum below the last one.
    decay = 2 * math.log(middle / tail) if middle > tail > 0 else 0.0
    factor = 1 + math.log(max(tail / target, 1)) / decay if decay > 0 else 2.0
    return round_up(n * min(2.0, max(1.2, factor)))
