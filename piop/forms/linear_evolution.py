"""Linear parts of an evolution whose exact solution operator is known from its symbol.

On a periodic box every wave of a linear equation with constant coefficients evolves by itself,
exp(t·R(k)). Between walls the same holds for the periodic extension of the solution, odd where it
vanishes on both walls of an axis and even where its slope does, as long as the equations keep that
parity: derivatives along the axis of even order.
"""

from __future__ import annotations

from dataclasses import dataclass

from piop.errors import NotSupportedError
from piop.forms.axis_conditions import Extension, axis_conditions
from piop.forms.linear_nonlinear_split import (
    EvolutionSystem,
    Split,
    require_successive_auxiliaries,
    split_linear,
)
from piop.forms.pde import PDE


@dataclass(frozen=True)
class LinearEvolution:
    """A linear part with constant coefficients, and how its solutions continue beyond the box.

    Attributes:
        split: The equations, term by term.
        extensions: Of each axis of space.
    """

    split: Split
    extensions: tuple[Extension, ...]


def linear_evolution(pde: PDE) -> LinearEvolution:
    """Find the linear part whose waves evolve independently.

    Raises:
        NotSupportedError: If there is none, with the reason.
    """
    split = split_linear(pde)
    if not pde.space or not pde.domain.is_box:
        raise NotSupportedError("the waves of a box are needed, and the domain is none")
    extensions: tuple[Extension, ...] = tuple(_extension(pde, i) for i in range(len(pde.space)))
    for system in (split.right, split.auxiliary):
        for axis, extension in enumerate(extensions):
            if extension != "periodic":
                _require_even(pde, system, axis)
        held = {s for p in system.linear.values() for c in p.values() for s in c.free_symbols}
        if held:
            raise NotSupportedError(f"a coefficient is not a number: {min(map(str, held))}")
    if split.auxiliary.products:
        raise NotSupportedError("an auxiliary equation is not linear in the unknowns alone")
    require_successive_auxiliaries(split)
    if not any(row < len(pde.unknowns) for row, _ in split.right.linear):
        raise NotSupportedError("no term is linear in the unknowns with constant coefficients")
    return LinearEvolution(split, extensions)


def _extension(pde: PDE, axis: int) -> Extension:
    """Find how all channels continue beyond an axis."""
    found = axis_conditions(pde, axis).extension
    if found is None:
        raise NotSupportedError(
            f"along {pde.space[axis].name} all unknowns vanish on one wall, and their slopes on "
            f"the other"
        )
    return found


def _require_even(pde: PDE, system: EvolutionSystem, axis: int) -> None:
    """Require derivatives of even order along an axis with walls."""
    if any(order[axis] % 2 for p in system.linear.values() for order in p):
        raise NotSupportedError(
            f"a derivative of odd order along {pde.space[axis].name} does not keep a wave between "
            f"its walls"
        )
