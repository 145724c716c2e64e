"""Whether equations are trained at points or integrated over time, and why; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from piop.errors import NotSupportedError
from piop.forms.linear_evolution import linear_evolution
from piop.problem.classify import is_linear

if TYPE_CHECKING:
    from piop.problem.constraints import Mode
    from piop.problem.problem import Problem

FormMode = Literal["auto", "strong", "integral"]
"""At points (``strong``), integrated over time or an error (``integral``), or what pays."""


@dataclass(frozen=True)
class FormDecision:
    """In which form the equations of a problem are trained.

    Attributes:
        integral: True where they are integrated over time on lattices; False for random points.
        why: The reason, a clause.
        requested: Whether the integral form is requested, whatever the solutions are like.
    """

    integral: bool
    why: str
    requested: bool = False

    def __str__(self) -> str:
        return f"{'integral' if self.integral else 'strong'}, {self.why}"


STRONG = FormDecision(False, "as requested")
"""At random points, whatever the problem."""


def decide_form(
    problem: Problem, constraints: Mode = "auto", requested: FormMode = "auto"
) -> FormDecision:
    """Decide in which form the equations are trained, as far as the symbols tell.

    Whether a lattice resolves the solutions is decided by some of them: see
    :mod:`piop.training.integration_lattice`.

    Args:
        problem: The problem.
        constraints: How conditions are to be met.
        requested: As requested.

    Raises:
        ValueError: If the integral form is requested and is not possible.
    """
    if requested == "strong":
        return STRONG
    obstacle = _obstacle(problem, constraints)
    if requested == "integral":
        if obstacle:
            raise ValueError(f"form: integral is not possible: {obstacle}; use auto or strong")
        return FormDecision(True, "as requested", requested=True)
    if obstacle is None and is_linear(problem):
        obstacle = "the equations are linear"
    if obstacle is not None:
        return FormDecision(False, obstacle)
    return FormDecision(True, "where a lattice of few points resolves reference solutions")


def evolution_obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why a problem is no evolution of first order on a periodic box from hard initial data."""
    if problem.time is None:
        return "the problem is steady"
    if not problem.residuals or not problem.space:
        return "there is no evolution in space"
    if not problem.pde.periodic:
        return "an axis of space is not periodic"
    if constraints == "soft":
        return "the initial data are a soft constraint"
    if any(order > 1 for order in problem.pde.time_order.values()):
        return "the equations are of second order in time"
    if problem.infer:
        return "parameters of the equations are to be inferred"
    return None


def _obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why the equations cannot be integrated over time; None where they can."""
    if obstacle := evolution_obstacle(problem, constraints):
        return obstacle
    if problem.pde.auxiliaries:
        return f"{problem.pde.auxiliaries[0].name} does not evolve by itself"
    try:
        split = linear_evolution(problem.pde).split
    except NotSupportedError as error:
        return str(error)
    if any(row != column for row, column in split.mass):
        return "an equation holds the time derivative of another unknown than its own"
    return None
