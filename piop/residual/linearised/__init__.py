"""Equations and conditions, linearised: the residual, measured by the error that it causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from piop.residual.base import DerivedFunctions
from piop.residual.lattice import Lattice
from piop.residual.linearised.base import LinearisedResidual
from piop.residual.linearised.evolution import LinearisedEvolution
from piop.residual.linearised.steady import LinearisedSteady
from piop.residual.linearised.targets import TargetResidual

if TYPE_CHECKING:
    from piop.problem import Problem

__all__ = [
    "LinearisedEvolution",
    "LinearisedResidual",
    "LinearisedSteady",
    "TargetResidual",
    "linearise",
]


def linearise(
    problem: Problem,
    lattice: Lattice,
    sizes: Sequence[float],
    derived: DerivedFunctions | None = None,
) -> LinearisedResidual:
    """Linearise the equations and conditions of a problem.

    Args:
        problem: An evolution on one axis, or a steady problem on a box.
        lattice: Points of each function.
        sizes: Typical size of each unknown, its own units.
        derived: Functions that lifts may contain beside the inputs.
    """
    kind = LinearisedSteady if problem.time is None else LinearisedEvolution
    return kind(problem, lattice, sizes, derived)
