"""Whether the linear part of an evolution is solved exactly, and why: symbolic, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from piop.errors import NotSupportedError
from piop.forms.linear_evolution import linear_evolution
from piop.problem.classify import is_linear

if TYPE_CHECKING:
    from piop.problem.constraints import Constraints
    from piop.problem.problem import Problem

LinearPartMode = Literal["auto", "exact", "learned"]
"""Solve it exactly where the equations are linear (``auto``), always or an error, or never."""


@dataclass(frozen=True)
class LinearPartDecision:
    """What solves the linear part of the equations.

    Attributes:
        exact: True where hard initial data evolve by it, False where the network learns it.
        why: The reason, a clause.
    """

    exact: bool
    why: str

    def __str__(self) -> str:
        return f"{'solved exactly' if self.exact else 'learned'}, {self.why}"


def decide_linear_part(
    problem: Problem, constraints: Constraints, mode: LinearPartMode = "auto"
) -> LinearPartDecision:
    """Decide whether the linear part of the equations is solved exactly.

    Args:
        problem: The problem.
        constraints: Which conditions are hard constraints.
        mode: As requested.

    Raises:
        ValueError: If it is to be solved exactly and cannot be.
    """
    obstacle = _obstacle(problem, constraints, mode)
    if obstacle is None:
        return LinearPartDecision(True, "each wave of the initial data by itself")
    if mode == "exact":
        raise ValueError(f"linear_part: exact is not possible: {obstacle}; use auto or learned")
    return LinearPartDecision(False, obstacle)


def _obstacle(problem: Problem, constraints: Constraints, mode: LinearPartMode) -> str | None:
    """Say why the linear part is left to the network; None where it is not."""
    if mode == "learned":
        return "as requested"
    if problem.time is None:
        return "the problem is steady"
    if not constraints.initial or constraints.soft_initial:
        return "the initial data are not a hard constraint"
    if mode == "auto" and not is_linear(problem):
        return "the equations are not linear"
    if problem.infer:
        return "parameters of the equations are to be inferred"
    if any(a.mean for a in problem.pde.auxiliaries):
        return "an auxiliary unknown has a mean of its own"
    try:
        linear_evolution(problem.pde)
    except NotSupportedError as error:
        return str(error)
    return None
