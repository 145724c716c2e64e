"""Conditions of all channels at both ends of an axis under which waves keep to themselves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from piop.boundary import BoundaryCondition, Dirichlet, Neumann
from piop.domain import ENDS, Coordinate
from piop.errors import NotSupportedError
from piop.forms.pde import PDE

Extension = Literal["periodic", "odd", "even"]
"""How a solution continues beyond an axis."""


class AxisConditions(ABC):
    """What holds at both ends of an axis, for all channels alike.

    Attributes:
        odd_orders: Whether derivatives of odd order along the axis keep waves to themselves.
    """

    odd_orders: ClassVar[bool]

    @property
    @abstractmethod
    def extension(self) -> Extension | None:
        """How solutions continue to a periodic axis of at most twice the length; None if longer."""

    @abstractmethod
    def wavenumbers(self, length: float, count: int) -> NDArray[np.floating]:
        """Return the wavenumbers of the longest waves along an axis of this length.

        Args:
            length: Of the axis.
            count: How many waves, on each side of zero where both signs occur.

        Returns:
            ``[K]``, inverse units of the length, the longest first.
        """


@final
@dataclass(frozen=True)
class PeriodicConditions(AxisConditions):
    """Both ends are one point."""

    odd_orders = True

    @property
    def extension(self) -> Extension:
        """Periodic as it is: see the base class."""
        return "periodic"

    def wavenumbers(self, length: float, count: int) -> NDArray[np.floating]:
        """Return 0, ±1, ±2, … rounds: see the base class."""
        rounds = np.arange(1, count + 1)
        signed = np.concatenate([[0], np.stack([rounds, -rounds], 1).ravel()])
        return 2 * math.pi / length * signed


@final
@dataclass(frozen=True)
class WallConditions(AxisConditions):
    """Values or slopes vanish at each end.

    Attributes:
        vanish: At the low and the high end, True where all channels vanish, False where all of
            their slopes do.
    """

    vanish: tuple[bool, bool]

    odd_orders = False

    @property
    def extension(self) -> Extension | None:
        """Odd between values that vanish, even between slopes: see the base class."""
        low, high = self.vanish
        return None if low != high else "odd" if low else "even"

    def wavenumbers(self, length: float, count: int) -> NDArray[np.floating]:
        """Return whole numbers of half waves, less a half where the ends differ."""
        low, high = self.vanish
        first = 1.0 if low and high else 0.5 if low or high else 0.0
        return math.pi / length * (first + np.arange(count))


def axis_conditions(pde: PDE, axis: int) -> AxisConditions:
    """Find what holds for all channels at both ends of an axis of space.

    Raises:
        NotSupportedError: If it is neither periodic, nor do all channels vanish, or all of their
            slopes, at each end.
    """
    coordinate = pde.space[axis]
    if coordinate.periodic:
        return PeriodicConditions()
    low, high = (_vanish(pde, coordinate, end) for end in ENDS)
    if low is None or high is None:
        raise NotSupportedError(
            f"along {coordinate.name} it is neither periodic, nor do all unknowns, or all of their "
            f"slopes, vanish on each wall"
        )
    return WallConditions((low, high))


def _vanish(pde: PDE, coordinate: Coordinate, end: str) -> bool | None:
    """Tell whether all channels vanish at an end, or all of their slopes; None for neither."""
    found = pde.boundary.get(f"{coordinate.name}.{end}", ())
    if {c.unknown for c in found} != {*pde.channels} or len(found) != len(pde.channels):
        return None
    if any(value != 0 for c in found for value in c.values):
        return None
    kinds: set[type[BoundaryCondition]] = {type(c) for c in found}
    answers: dict[Any, bool] = {Dirichlet: True, Neumann: False}
    return answers.get(kinds.pop()) if len(kinds) == 1 else None
