"""Whether the linear part of the equations is solved exactly, and why: symbolic, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from piop.errors import NotSupportedError
from piop.forms.linear_evolution import linear_evolution
from piop.forms.linear_nonlinear_split import split_linear
from piop.forms.linear_steady import LinearSteady, linear_steady
from piop.forms.varying_evolution import varying_evolution
from piop.problem.classify import is_linear
from piop.problem.constraints import expression_smoothness

if TYPE_CHECKING:
    from piop.problem.constraints import Constraints
    from piop.problem.problem import Problem

LinearPartMode = Literal["auto", "exact", "learned"]
"""Solve it exactly where the equations are linear (``auto``), always or an error, or never."""


@dataclass(frozen=True)
class LinearPartDecision:
    """What solves the linear part of the equations.

    Attributes:
        exact: True where hard initial data evolve by it, or the solution of a steady problem is
            that for its source; False where the network learns it.
        why: The reason, a clause.
        by_modes: Whether waves do not evolve by themselves, but modes of the whole operator do.
    """

    exact: bool
    why: str
    by_modes: bool = False

    def __str__(self) -> str:
        return f"{'solved exactly' if self.exact else 'learned'}, {self.why}"


def decide_linear_part(
    problem: Problem,
    constraints: Constraints,
    mode: LinearPartMode = "auto",
    varying: bool = True,
) -> LinearPartDecision:
    """Decide whether the linear part of the equations is solved exactly.

    Args:
        problem: The problem.
        constraints: Which conditions are hard constraints.
        mode: As requested.
        varying: Whether coefficients that vary in space are solved for, too.

    Raises:
        ValueError: If it is to be solved exactly and cannot be.
    """
    by_modes = varying and is_solved_by_modes(problem)
    obstacle = _obstacle(problem, constraints, mode, by_modes)
    if obstacle is None and by_modes:
        return LinearPartDecision(True, "by the modes of its varying coefficients", True)
    if obstacle is None:
        waves = "the initial data" if problem.time else "the source"
        return LinearPartDecision(True, f"each wave of {waves} by itself")
    if mode == "exact":
        raise ValueError(f"linear_part: exact is not possible: {obstacle}; use auto or learned")
    return LinearPartDecision(False, obstacle)


def is_solved_by_modes(problem: Problem) -> bool:
    """Whether an evolution is linear and its coefficients vary in space, on a periodic box."""
    try:
        return _varies(problem) and bool(varying_evolution(problem.pde).terms)
    except NotSupportedError:
        return False


def _varies(problem: Problem) -> bool:
    """Whether an evolution is linear, and a coefficient of its unknowns is no number."""
    if problem.time is None or not problem.space or not is_linear(problem):
        return False
    return bool(split_linear(problem.pde).unknown_atoms)


def _obstacle(
    problem: Problem, constraints: Constraints, mode: LinearPartMode, by_modes: bool
) -> str | None:
    """Say why the linear part is left to the network; None where it is not."""
    if mode == "learned":
        return "as requested"
    if problem.infer:
        return "parameters of the equations are to be inferred"
    try:
        if problem.time is None:
            return _steady_obstacle(problem, constraints, linear_steady(problem.pde))
        return _evolution_obstacle(problem, constraints, mode, by_modes)
    except NotSupportedError as error:
        return str(error)


def _evolution_obstacle(
    problem: Problem, constraints: Constraints, mode: LinearPartMode, by_modes: bool
) -> str | None:
    """Say why initial data do not evolve by the linear part; None where they do."""
    if not constraints.initial or constraints.soft_initial:
        return "the initial data are not a hard constraint"
    if mode == "auto" and not is_linear(problem):
        return "the equations are not linear"
    if any(a.mean for a in problem.pde.auxiliaries):
        return "an auxiliary unknown has a mean of its own"
    if by_modes:
        return None
    if mode == "auto" and _varies(problem):
        varying_evolution(problem.pde)  # raises the reason
        return "the coefficients of the equations vary"
    linear_evolution(problem.pde)
    return None


def _steady_obstacle(
    problem: Problem, constraints: Constraints, linear: LinearSteady
) -> str | None:
    """Say why a steady problem is not solved for its source; None where it is."""
    prescribed = [c for c in constraints.faces if c.condition.prescribed is not None]
    for constraint in (*constraints.periodic, *prescribed):
        if not constraint.hard:
            return f"this is a soft constraint: {constraint.what}"
    for source in linear.sources:
        hidden = [i.name for i in problem.inputs if i.hidden and source.has(i.symbol)]
        if hidden:
            return f"the source depends on {hidden[0]}, which the network does not see"
        smoothness, reason = expression_smoothness(problem, source)
        if not smoothness > 1:
            return f"the source is not smooth enough to be interpolated: {reason}"
    return None
