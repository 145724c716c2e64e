"""Unknowns that are there for a constraint alone, as a pressure is for incompressibility.

Such a Lagrange multiplier stands in the equations of others with first derivatives at most, and
some equation does not hold it: that is the constraint. It takes no condition of its own at walls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.problem.terms import orders

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def multipliers(problem: Problem) -> tuple[str, ...]:
    """Name the multipliers of a steady problem, fewer than the equations that lack them or as many.

    What they act on is of second order along every axis, so that its conditions at walls are there
    without them.
    """
    if problem.time is not None:
        return ()
    found = []
    for name in problem.unknowns:
        own = [orders(problem, r, name) for r in problem.residuals]
        holds = [r for r, o in zip(problem.residuals, own, strict=True) if o]
        steep = max((sum(o) for each in own for o in each), default=0)
        if steep == 1 and len(holds) < len(own) and all(_second(problem, r, name) for r in holds):
            found.append(name)
    return tuple(found)


def _second(problem: Problem, residual: object, name: str) -> bool:
    """Whether another unknown stands in an equation with a second derivative along each axis."""
    return any(
        all(max((o[i] for o in found), default=0) == 2 for i in range(len(problem.coordinates)))
        for other in problem.unknowns
        if other != name and (found := orders(problem, residual, other))  # type: ignore[arg-type]
    )
