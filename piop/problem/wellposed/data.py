"""What a problem without equations, known from its solutions alone, must not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.errors import Issue
from piop.spec.names import refuse
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem

OF_EQUATIONS = ("parameters", "definitions", "auxiliary", "gauge", "initial", "infer", "learn")
"""Sections that say something of equations."""


def check_data(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse what only equations could use; axes may still be periodic."""
    del resolved
    spec = problem.spec
    for section in OF_EQUATIONS:
        if getattr(spec, section):
            message = f"{section}: without equations (equations: data) nothing takes it"
            refuse(issues, spec.place(section), message, "Leave it out.")
    for face, conditions in problem.boundary.items():
        if conditions:
            message = f"boundary.{face}: without equations only 'periodic' means something"
            refuse(issues, conditions[0].place, message, "Leave it out.")
