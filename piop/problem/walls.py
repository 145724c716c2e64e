"""The conditions on the faces of a box or a shape, one by one and as residuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from piop.boundary import normal_symbols
from piop.domain import Segment
from piop.forms.differentiate import differentiate

if TYPE_CHECKING:
    from piop.boundary import BoundaryCondition
    from piop.forms.parts import Coordinate
    from piop.problem.problem import Problem

ENDS = {"min": -1, "max": 1}
"""End of an axis → where the outward normal points."""
STRAIGHT = 1e-12
"""Directions that differ by less are one."""


def faces_of(problem: Problem) -> list[str]:
    """Names of the parts of the boundary, those of a box axis by axis, of all shapes to choose."""
    if problem.shape is not None:
        return list(dict.fromkeys(face for own in problem.outlines for face in own.faces))
    return [f"{axis.name}.{end}" for axis in problem.space for end in ENDS]


def wall_conditions(problem: Problem) -> Iterator[tuple[str, BoundaryCondition]]:
    """Give each face of the box, or of the shape, with each of its conditions."""
    for face in faces_of(problem):
        for condition in problem.boundary.get(face, ()):
            yield face, condition


def axis_of(problem: Problem, face: str) -> Coordinate:
    """The axis that a face stands across."""
    return next(c for c in problem.space if c.name == face.split(".")[0])


def place_of(problem: Problem, face: str) -> float:
    """Where along its axis a face is, units of the axis."""
    axis = axis_of(problem, face)
    return axis.low if face.endswith(".min") else axis.high


def normal_names(problem: Problem) -> list[str]:
    """Names under which the components of an outward normal that turns stand in residuals."""
    return [f"outward {c.name}" for c in problem.space]


def normal_on(problem: Problem, face: str) -> tuple[sp.Expr, ...]:
    """The outward normal on a face, one component per axis.

    Numbers where the face is straight. Elsewhere functions of the place, whose names
    :func:`normal_names` gives and whose values ``Outline.normals`` of the problem's shape.
    """
    if problem.shape is None:
        axis, sign = axis_of(problem, face), ENDS[face.split(".")[1]]
        return tuple(sp.Integer(sign if c is axis else 0) for c in problem.space)
    pieces = [c for own in problem.outlines for c in own.curves if c.face == face]
    along = np.array([c.direction(0.0) for c in pieces])
    straight = all(isinstance(c, Segment) for c in pieces)
    if straight and np.ptp(along, axis=0).max() < STRAIGHT:
        return _numbers((along[0, 1], -along[0, 0]))
    symbols = [c.symbol for c in problem.space]
    return tuple(sp.Function(name, real=True)(*symbols) for name in normal_names(problem))


def condition_residual(
    problem: Problem, face: str, condition: BoundaryCondition, normal: Sequence[sp.Expr] = ()
) -> sp.Expr:
    """Write a condition as left side minus right side.

    Args:
        problem: The problem.
        face: Where it holds.
        condition: The condition.
        normal: The outward normal; by default that of the face.
    """
    normal = normal or normal_on(problem, face)
    written = condition.residual(problem.function, [c.symbol for c in problem.space])
    symbols = normal_symbols(c.name for c in problem.space)
    found: Any = differentiate(written)
    return found.xreplace(dict(zip(symbols, normal, strict=True)))


def value_on(problem: Problem, channel: str, face: str) -> sp.Expr | None:
    """The prescribed value of a channel on a face; None without one."""
    for condition in problem.boundary.get(face, ()):
        if condition.unknown == channel and condition.prescribed is not None:
            return condition.prescribed
    return None


def _numbers(vector: tuple[float, float]) -> tuple[sp.Expr, ...]:
    """Whole numbers where a direction is along an axis."""
    whole = np.round(vector)
    if np.abs(whole - vector).max() < STRAIGHT:
        return tuple(sp.Integer(int(v)) for v in whole)
    return tuple(sp.Float(float(v)) for v in vector)
