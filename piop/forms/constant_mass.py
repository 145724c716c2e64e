"""Factors of time derivatives that are constant in time, as implicit steps need them."""

from __future__ import annotations

from typing import Any

from piop.errors import NotSupportedError
from piop.expression import write
from piop.forms.differentiate import partial
from piop.forms.pde import PDE
from piop.forms.terms import applied, derivative_counts, name_of, outermost_atoms, symbols_named


def require_constant_mass(pde: PDE) -> None:
    """Make sure that the highest time derivatives have factors constant in time.

    Raises:
        NotSupportedError: If a factor holds an unknown, the time or an input that depends on it, or
            a condition at a wall holds such a derivative.
    """
    if pde.time is None:
        return
    time = pde.time.symbol
    for residual in pde.residuals:
        for atom in _highest(pde, residual, time):
            if _changes(pde, factor := partial(residual, atom), time):
                raise NotSupportedError(
                    f"the factor {write(factor)} of the time derivative of {name_of(atom)}, and "
                    "it takes factors that are constant in time, without unknowns"
                )
    for face, condition in pde.face_conditions:
        if _highest(pde, pde.condition_residual(face, condition), time):
            raise NotSupportedError(f"a time derivative in the condition at {face}")


def _highest(pde: PDE, expression: Any, time: Any) -> list[Any]:
    """Find the time derivatives of the order of their unknown's equation."""
    found = [(a, derivative_counts(a).get(time, 0)) for a in outermost_atoms(expression)]
    return [a for a, times in found if 0 < times == pde.time_order.get(name_of(a), 0)]


def _changes(pde: PDE, factor: Any, time: Any) -> bool:
    """Whether a factor holds unknowns or changes in time."""
    held = outermost_atoms(factor)
    if time in symbols_named([factor]) or any(time in applied(a).args for a in held):
        return True
    return any(name_of(a) in pde.channels for a in held)
