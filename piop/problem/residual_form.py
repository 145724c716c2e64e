"""In which form equations are trained: at points, integrated, of a potential; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from piop.errors import NotSupportedError
from piop.expression.functions import KINKS
from piop.forms.linear_evolution import linear_evolution
from piop.forms.potential import equations_of_slopes, potential_equations
from piop.forms.terms import highest_space_order, unknown_derivatives
from piop.problem.classify import is_linear
from piop.problem.constraints import decide_constraints
from piop.problem.linear_part import decide_linear_part

if TYPE_CHECKING:
    from piop.problem.constraints import Mode
    from piop.problem.linear_part import LinearPartMode
    from piop.problem.problem import Problem

FormMode = Literal["auto", "strong", "integral", "potential"]
"""At points (``strong``), integrated over time or an error (``integral``), of the potential or an
error (``potential``), or what pays."""


@dataclass(frozen=True)
class FormDecision:
    """In which form the equations of a problem are trained.

    Attributes:
        integral: True where they are integrated over time on lattices; False for random points.
        why: The reason, a clause.
        requested: Whether the integral form, or the potential, is requested, whatever the
            solutions are like.
        potential: True where, at random points, they are those of the potential.
    """

    integral: bool
    why: str
    requested: bool = False
    potential: bool = False

    def __str__(self) -> str:
        points = "potential" if self.potential else "strong"
        if not self.integral:
            return f"{points}, {self.why}"
        return f"integral, {self.why}{', else potential' if self.potential else ''}"


STRONG = FormDecision(False, "as requested")
"""At random points, whatever the problem."""
CONSERVED = "the equations are conservation laws on a periodic interval"
"""Why the potential is trained."""
FOREIGN = "an equation holds the time derivative of another unknown than its own"
"""A reason against the integral form, on periodic axes and between walls."""


def decide_form(
    problem: Problem,
    constraints: Mode = "auto",
    requested: FormMode = "auto",
    linear_part: LinearPartMode = "auto",
) -> FormDecision:
    """Decide in which form the equations are trained, as far as the symbols tell.

    Whether a lattice resolves the solutions is decided by some of them: see
    :mod:`piop.training.integration_lattice`.

    Args:
        problem: The problem.
        constraints: How conditions are to be met.
        requested: As requested.
        linear_part: How the linear part of the equations is solved, as requested.

    Raises:
        ValueError: If the integral form, or that of the potential, is requested and not possible.
    """
    if requested == "strong":
        return STRONG
    unlike = _potential_obstacle(problem, constraints, linear_part)
    if requested == "potential":
        if unlike:
            raise ValueError(f"form: potential is not possible: {unlike}; use auto or strong")
        return FormDecision(False, "as requested", requested=True, potential=True)
    potential = unlike is None and not is_linear(problem)
    obstacle = _obstacle(problem, constraints)
    if requested == "integral":
        if obstacle:
            raise ValueError(f"form: integral is not possible: {obstacle}; use auto or strong")
        return FormDecision(True, "as requested", requested=True)
    if obstacle is None:
        obstacle = _no_gain(problem, constraints)
    if obstacle is not None:
        why = CONSERVED if potential else obstacle
        return FormDecision(False, why, potential=potential)
    why = "where a lattice of few points resolves reference solutions"
    return FormDecision(True, why, potential=potential)


def _potential_obstacle(
    problem: Problem, constraints: Mode, linear_part: LinearPartMode
) -> str | None:
    """Say why the unknowns are not trained through their potentials; None where they can be."""
    if obstacle := evolution_obstacle(problem, constraints):
        return obstacle
    decided = decide_constraints(problem, constraints)
    if soft := [c for c in decided if not c.hard]:
        return f"this is a soft constraint: {soft[0].what}"
    try:
        potential_equations(problem.pde)
        equations_of_slopes(problem.pde)
    except (NotSupportedError, ArithmeticError) as error:
        return str(error)
    exact = linear_part == "exact" or decide_linear_part(problem, decided, linear_part).exact
    return "its linear part is solved exactly" if exact else None


def evolution_obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why it is no evolution in space, of first order in time, from hard initial data."""
    if problem.time is None:
        return "the problem is steady"
    if not problem.residuals or not problem.space:
        return "there is no evolution in space"
    if constraints == "soft":
        return "the initial data are a soft constraint"
    if any(order > 1 for order in problem.pde.time_order.values()):
        return "the equations are of second order in time"
    if problem.infer:
        return "parameters of the equations are to be inferred"
    return None


def _obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why the equations cannot be integrated over time; None where they can."""
    if problem.time is None:
        return linearisation_obstacle(problem, constraints)
    if not problem.pde.periodic:
        return _axis_obstacle(problem, constraints)
    if obstacle := _evolution_of_all_obstacle(problem, constraints):
        return obstacle
    try:
        split = linear_evolution(problem.pde).split
    except NotSupportedError as error:
        return str(error)
    if any(row != column for row, column in split.mass):
        return FOREIGN
    return None


def _evolution_of_all_obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why it is no evolution of all unknowns from hard initial data."""
    if obstacle := evolution_obstacle(problem, constraints):
        return obstacle
    if problem.pde.auxiliaries:
        return f"{problem.pde.auxiliaries[0].name} does not evolve by itself"
    return None


def linearisation_obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why equations, and conditions on walls, cannot be linearised on a lattice."""
    if problem.time is not None:
        return _axis_obstacle(problem, constraints)
    if not problem.residuals or not problem.domain.is_box:
        return "there are no equations on a box"
    if problem.infer:
        return "parameters of the equations are to be inferred"
    if problem.pde.auxiliaries:
        return f"{problem.pde.auxiliaries[0].name} has no condition of its own"
    return _expression_obstacle(problem)


def _axis_obstacle(problem: Problem, constraints: Mode) -> str | None:
    """Say why an evolution on one axis, and conditions on its walls, cannot be linearised."""
    if obstacle := _evolution_of_all_obstacle(problem, constraints):
        return obstacle
    if len(problem.space) > 1 or not problem.domain.is_box:
        return "space is neither periodic nor an interval"
    if decide_constraints(problem, constraints).soft_initial:
        return "the initial data are a soft constraint"
    order = highest_space_order(problem.pde, problem.residuals, problem.channels)
    if order > 2 and not problem.pde.periodic:
        return "the equations are of higher order in space than the second"
    if obstacle := _expression_obstacle(problem):
        return obstacle
    for face, condition in problem.pde.face_conditions:
        if not condition.unknown:
            return f"a general condition {problem.domain.where(face)} belongs to no unknown"
    symbols = [c.symbol for c in problem.coordinates]
    for number, residual in enumerate(problem.residuals):
        terms = unknown_derivatives([residual], symbols, problem.channels).values()
        if {channel for channel, index in terms if index[0]} != {number}:
            return FOREIGN
    return None


def _expression_obstacle(problem: Problem) -> str | None:
    """Say which equation or condition has no derivative with respect to the unknowns."""
    expressions = list(problem.residuals)
    try:
        for face, condition in problem.pde.face_conditions:
            expressions.append(problem.pde.condition_residual(face, condition))
    except NotSupportedError as error:
        return str(error)
    if any(expression.has(*KINKS) for expression in expressions):
        return "an equation or a condition has a kink or a jump"
    return None


def _no_gain(problem: Problem, constraints: Mode) -> str | None:
    """Say why the equations at points serve as well; None where they do not."""
    if problem.time is None:
        exact = decide_linear_part(problem, decide_constraints(problem, constraints)).exact
        return "its linear part is solved exactly" if exact else None
    if problem.pde.periodic:
        return "the equations are linear" if is_linear(problem) else None
    if not decide_constraints(problem, constraints).soft_faces:
        return "all conditions on walls are hard constraints"
    return None
