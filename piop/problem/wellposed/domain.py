"""A domain whose shapes do not fit the space they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.errors import Issue
from piop.expression import Scope, as_number, parse
from piop.spec.names import refuse
from piop.spec.read_domain import bounding_boxes
from piop.spec.resolve import Resolved

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_domain(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Every shape must lie inside ``space``, and a box must be all of it."""
    if problem.spec.domain is None:
        return
    values = resolved.names.values
    constants = Scope({n: values[n] for n in resolved.names.constants if n in values})
    slack = 1e-9 * max(c.length for c in problem.space)
    top = [value for _, value in problem.spec.domain.items]  # type: ignore[union-attr]
    for kind, box, node in bounding_boxes(
        problem.spec.domain, lambda text: as_number(parse(text.text, constants))
    ):
        for axis, (low, high) in zip(problem.space, box, strict=True):
            whole = kind == "box" and any(node is value for value in top)
            outside = low < axis.low - slack or high > axis.high + slack
            inside = whole and (low > axis.low + slack or high < axis.high - slack)
            if outside or inside:
                wrong = "is not" if whole else "reaches out of"
                message = (
                    f"domain: the {kind} [{low:g}, {high:g}] along {axis.name} {wrong} "
                    f"the interval [{axis.low:g}, {axis.high:g}] of space"
                )
                refuse(issues, node.place, message)
