"""Point-wise derivatives of inputs that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Derivative

from piop.errors import Issue
from piop.expression import write
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_rough(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse ``dot(grad(a), grad(u))`` with a rough a; ``div(a*grad(u))`` has a meaning."""
    rough = [i for i in problem.inputs if not i.smooth and i.of]
    unknowns = [problem.function(n) for n in problem.channels]
    for raw, equation in zip(
        problem.residuals_raw, [*resolved.equations, *resolved.auxiliary.values()], strict=True
    ):
        for derivative in sorted(raw.atoms(Derivative), key=str):
            inputs = [i.name for i in rough if derivative.has(i.symbol)]
            if inputs and not any(derivative.has(u) for u in unknowns):
                message = (
                    f"equations: '{write(derivative)}' is the derivative of {inputs[0]}, which is "
                    "not smooth, so the strong form has no meaning"
                )
                hint = f"Write div({inputs[0]}*grad(u)), or say 'smooth: true' if it is."
                refuse(issues, equation.place, message, hint)
                break
