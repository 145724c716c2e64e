"""Known functions of the coordinates and inputs, such as those that hard constraints add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp

from piop.fields import InputFunction
from piop.forms.hard_constraints import lift_expression
from piop.problem import Problem
from piop.problem.constraints import Constraints
from piop.problem.linear_part import is_solved_by_modes
from piop.residual import DerivedFunctions, KnownField
from piop.training.loss.linear_inversion import LinearInversion
from piop.training.loss.linear_propagation import LinearPropagation
from piop.training.loss.varying_propagation import VaryingPropagation

Functions = Mapping[str, InputFunction]
"""The functions of a batch, by the names of the inputs."""


def known_field(problem: Problem, expressions: Sequence[sp.Expr]) -> KnownField:
    """Compile expressions of a problem's coordinates and inputs."""
    return KnownField(expressions, problem.inputs, [c.symbol for c in problem.coordinates])


def hard_constraint_lift(
    problem: Problem,
    constraints: Constraints,
    mean: Sequence[float],
    exact: bool = False,
    varying: bool = True,
) -> KnownField | None:
    """Return the functions that are added to a network to meet initial data and boundary values.

    Args:
        problem: The problem.
        constraints: Which conditions are hard constraints.
        mean: Constant that is added to each channel without hard initial data, in its units.
        exact: Whether initial data evolve by the linear part of the equations, or the source of a
            steady problem is solved for.
        varying: Whether coefficients that vary in space are part of it.

    Returns:
        For each channel what :func:`piop.forms.hard_constraints.lift_expression` writes; None where
        nothing is added.
    """
    if not exact and not any((*constraints.lift_orders, *constraints.hard_faces)):
        return None
    mean = [0.0] * len(mean) if exact and problem.time is None else mean  # solved for, too
    expressions = [
        lift_expression(problem.pde, channel, order, faces, 0.0 if order else constant)
        for channel, order, faces, constant in zip(
            problem.channels, constraints.lift_orders, constraints.hard_faces, mean, strict=True
        )
    ]
    added = [e for e in expressions if e is not None]
    if not exact:
        return known_field(problem, added)
    solved = _exact_solution(problem, varying)
    added = [e + item.symbol for e, item in zip(added, solved.inputs, strict=True)]
    return KnownField(added, problem.inputs, [c.symbol for c in problem.coordinates], solved)


def _exact_solution(problem: Problem, varying: bool) -> DerivedFunctions:
    """Choose what solves the linear part of the equations."""
    if problem.time is None:
        return LinearInversion(problem)
    if varying and is_solved_by_modes(problem):
        return VaryingPropagation(problem)
    return LinearPropagation(problem)
