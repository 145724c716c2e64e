"""The conditions on the faces of a box, one by one and as residuals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sympy as sp

from piop.problem.differentiate import differentiate

if TYPE_CHECKING:
    from piop.problem.parts import BoundaryCondition, Coordinate
    from piop.problem.problem import Problem

ENDS = {"min": -1, "max": 1}
"""End of an axis → where the outward normal points."""


def wall_conditions(problem: Problem) -> Iterator[tuple[str, BoundaryCondition]]:
    """Give each face of the box with each of its conditions; none where the domain is a shape."""
    if problem.shape is not None:
        return
    for axis in problem.space:
        for end in ENDS:
            face = f"{axis.name}.{end}"
            for condition in problem.boundary.get(face, ()):
                yield face, condition


def axis_of(problem: Problem, face: str) -> Coordinate:
    """The axis that a face stands across."""
    return next(c for c in problem.space if c.name == face.split(".")[0])


def place_of(problem: Problem, face: str) -> float:
    """Where along its axis a face is, units of the axis."""
    axis = axis_of(problem, face)
    return axis.low if face.endswith(".min") else axis.high


def condition_residual(problem: Problem, face: str, condition: BoundaryCondition) -> sp.Expr:
    """Write a condition as left side minus right side, the normal being that of the face.

    Args:
        problem: The problem.
        face: Where it holds.
        condition: ``dirichlet``, ``neumann``, ``robin`` or ``general``.
    """
    axis, sign = axis_of(problem, face), ENDS[face.split(".")[1]]
    if condition.kind == "general":
        normal: dict[Any, Any] = {
            sp.Symbol(f"n{c.name}", real=True): sp.Integer(sign if c is axis else 0)
            for c in problem.space
        }
        turned: Any = condition.values[0].xreplace(normal)
        return differentiate(turned)
    u: Any = problem.function(condition.unknown)
    outward = sign * sp.Derivative(u, axis.symbol)
    if condition.kind == "robin":
        alpha, beta, g = condition.values
        return differentiate(alpha * u + beta * outward - g)
    if condition.kind not in ("dirichlet", "neumann"):
        raise ValueError(f"{condition.kind} is no condition on values or slopes")
    return differentiate((u if condition.kind == "dirichlet" else outward) - condition.values[0])


def value_on(problem: Problem, channel: str, face: str) -> sp.Expr | None:
    """The prescribed value of a channel on a face; None without one."""
    for condition in problem.boundary.get(face, ()):
        if condition.kind == "dirichlet" and condition.unknown == channel:
            return condition.values[0]
    return None
