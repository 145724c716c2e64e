"""Levels of refinement: resolutions, what is known of a sample on one, and when to stop.

A level is a grid or a mesh, and steps where there is time. The constants and formulas that error
estimates share are defined here. An error of order p shrinks by 2^p where cells are halved, so the
finer of two levels that differ by d errs by d/(2^p − 1). The order is that observed, log₂ of the
ratio of two differences (L. F. Richardson and J. A. Gaunt, Phil. Trans. R. Soc. A 226 (1927),
doi:10.1098/rsta.1927.0008), within bounds that each method sets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor

from piop.errors import SolverError

SAFETY = 2.0
"""Factor on the error that the credited order implies."""
MEMORY = 2**29
"""Bytes that the samples solved together may take."""
_FLOOR = 1e-9  # an unknown smaller than this times the largest one is measured against that
_ROUNDING = 4e-15  # of the largest unknown, in others: 14 times machine precision was seen
_SAME_SUM = 0.1  # relative change of what sources and fluxes leave over from level to level

Fields = tuple[Mapping[str, Tensor], Mapping[str, Tensor]]
"""Values and time derivatives by name, each ``[R, T, *shape]``, without T for a steady problem."""


def relative_scale(norms: Tensor) -> Tensor:
    """Sizes that errors of unknowns are relative to ``[…, n]``, from the norms of all unknowns."""
    return torch.maximum(norms, _FLOOR * norms.amax(-1, keepdim=True)).clamp_min(1e-300)


def refuse(bad: Tensor, samples: Sequence[int], message: str) -> None:
    """Refuse samples that are bad anywhere ``[B, …]``.

    Args:
        bad: Where they are.
        samples: Number of each.
        message: What is wrong.

    Raises:
        SolverError: Naming the first sample.
    """
    if bool(bad.any()):
        first = int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
        raise SolverError(f"sample {samples[first]}: {message}")


def require_finite_start(state: Tensor, samples: Sequence[int]) -> None:
    """Refuse initial states ``[B, …]`` that are not finite."""
    refuse(~torch.isfinite(state.real), samples, "the initial state is not finite")


def require_inflow(inward: Tensor, given: bool, face: str, samples: Sequence[int]) -> None:
    """Require a condition of an equation of first order exactly where characteristics run in.

    Args:
        inward: Speed into the domain, at points of the face ``[B, …]``.
        given: Whether the face has a condition.
        face: Its name.
        samples: Number of each sample.

    Raises:
        SolverError: Naming the first sample.
    """
    does, has = ("out", "a condition") if given else ("in", "no condition")
    refuse(
        inward <= 0 if given else inward > 0,
        samples,
        f"at {face} characteristics run {does}, and there is {has}; an equation of first order "
        "needs one where they run in",
    )


def require_balance(left: float, before: float, allowed: float, unknown: str, sample: int) -> None:
    """Require sources and wall fluxes that cancel, of an equation that leaves a constant free.

    The integrals of data that balance leave an error of the quadrature, which changes from level to
    level; what two levels agree on is of the data.

    Args:
        left: Sum of the integrals on a level, relative to their size.
        before: The same on the level before.
        allowed: What may be left over.
        unknown: Which a constant is free of.
        sample: Number of the sample.

    Raises:
        SolverError: Naming the sample and what is left.
    """
    if abs(left) > allowed and abs(left - before) <= _SAME_SUM * abs(left):
        raise SolverError(
            f"sample {sample}: sources and wall fluxes of the equation of '{unknown}' leave "
            f"{left:.2e} of their size over, which no solution can balance; their integrals must "
            "cancel"
        )


def observed_order(differences: Sequence[float]) -> float:
    """Order of convergence from the last differences, newest first; 1 where it is not known yet."""
    if len(differences) < 2 or not min(differences) > 0:
        return 1.0
    return math.log2(differences[1] / differences[0])


def richardson_error(difference: float, order: float) -> float:
    """Bound of the error of the finer of two levels, one of half the cells of the other."""
    return SAFETY * difference / (2**order - 1)


class Level(ABC):
    """A resolution. Equal levels, which have equal hashes, are solved together.

    Attributes:
        sizes: Points or cells along each axis, or steps; on triangles, of a grid as fine as they.
    """

    sizes: tuple[int, ...]

    @property
    def grid(self) -> str:
        """The sizes, as in ``64 × 64``."""
        return " × ".join(map(str, self.sizes))

    @property
    @abstractmethod
    def cost(self) -> float:
        """Cheap levels are solved first."""


@final
@dataclass(frozen=True)
class GridLevel(Level):
    """A level of a sequence that all samples go through.

    Attributes:
        number: From 1 on.
        sizes: Points or cells along each axis, or steps; on triangles, of a grid as fine as they.
    """

    number: int
    sizes: tuple[int, ...]

    @property
    def cost(self) -> float:
        """One level after the other."""
        return self.number

    def halved(self) -> GridLevel:
        """The next level of a sequence in which cells, or steps, are halved."""
        return GridLevel(self.number + 1, tuple(2 * n for n in self.sizes))


L = TypeVar("L", bound=Level)
"""A kind of level."""


@dataclass(frozen=True)
class LevelResult(Generic[L]):
    """A sample solved on a level.

    Attributes:
        error: Bound of its relative error (see ``Solution.error_estimate``); infinite where the
            levels so far do not tell.
        finer: The level to go on to; None where the limits of the method allow none.
        expected: Error to expect on the finest level within the limits: refinement ends where that
            is above the tolerance.
        resolution: Points or cells along each axis.
        step: Longest step (units of time).
        description: The level, in the note on a sample whose tolerance is not met.
        values: The solution, as estimates on later levels need it.
        missed: Error by what terms of the equations hide between its points and steps.
        remark: The end of that note.
        reported: Bound to report where refinement ends here, if not ``error``.
    """

    error: float
    finer: L | None
    resolution: Sequence[int]
    description: str
    values: Tensor
    expected: float = field(default=0.0, kw_only=True)
    step: float = field(default=0.0, kw_only=True)
    missed: float = field(default=0.0, kw_only=True)
    remark: str = field(default="", kw_only=True)
    reported: float | None = field(default=None, kw_only=True)

    @property
    def bound(self) -> float:
        """The bound to report where refinement ends here."""
        return self.error if self.reported is None else self.reported


R = TypeVar("R", bound=LevelResult[Any])
GridResult = LevelResult[GridLevel]
Earlier = Sequence[Sequence[R]]
"""Results of each sample on the levels before, newest first; none after a failure."""


def with_rounding(result: R, sizes: Tensor) -> R:
    """Add the error of unknowns of these sizes ``[n]`` by the rounding of the largest one."""
    lost = torch.minimum(_ROUNDING * sizes.amax(), sizes)
    rounding = float((lost / relative_scale(sizes)).amax())
    error = result.error + rounding
    remark = "it is the rounding of a larger unknown" if 2 * rounding > error else result.remark
    return replace(result, error=error, remark=remark)


@final
@dataclass(frozen=True)
class SolvedSamples(Generic[R]):
    """Samples solved together on one level.

    Attributes:
        results: One for each sample; None where the solution is not finite.
        evaluate: Positions among them of those that are finished → their fields on the output.
        until: First time at which each is not finite, 0 for a steady problem; not used for those
            with a result.
    """

    results: Sequence[R | None]
    evaluate: Callable[[Sequence[int]], Fields]
    until: Sequence[float] = ()


class Stop(Enum):
    """Why the refinement of a sample ends; the value says so in a note."""

    ACCURATE = "the tolerance is met"
    FINEST = "the finest level is reached"
    LEVELS = "no more levels are allowed"
    TIME = "a finer level would take longer than is left"
    CONVERGENCE = "it converges too slowly for finer levels to meet it"


def reason_to_stop(result: LevelResult[Any], used: int, most: int, wanted: float) -> Stop | None:
    """Decide whether a sample is refined further.

    Args:
        result: Of its last level.
        used: Levels it was solved on.
        most: Levels allowed.
        wanted: Error that must be met.

    Returns:
        None where it goes on to ``result.finer``.
    """
    if result.error <= wanted:
        return Stop.ACCURATE
    if result.finer is None:
        return Stop.FINEST
    if used >= most:
        return Stop.LEVELS
    if math.isfinite(result.error) and result.expected > wanted:
        return Stop.CONVERGENCE
    return None


def with_unseen(result: R, unseen: float, missed: float = 0.0) -> R:
    """Add the error by data, and by terms of the equations, between the points of a level."""
    more = unseen + missed
    if more == 0:
        return result
    own = None if result.reported is None else result.reported + more
    found = replace(result, error=result.error + more, reported=own)
    what = "terms of the equations" if missed > unseen else "data"
    remark = f"{what} vary between its points"
    return replace(found, remark=remark) if 2 * more >= found.bound else found
