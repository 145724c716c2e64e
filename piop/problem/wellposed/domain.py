"""A domain whose shapes do not fit the space they stand in, or cannot be chosen from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.errors import Issue
from piop.expression import Scope, as_number, parse
from piop.expression.parse import did_you_mean
from piop.spec.distributions import Integer
from piop.spec.names import refuse
from piop.spec.read_domain import alternatives, bounding_boxes, chooser
from piop.spec.resolve import Resolved
from piop.spec.tree import ScalarNode

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
    by = chooser(problem.spec.domain)
    if by is not None and by.text not in resolved.names.broken:
        _check_choice(problem, by, issues)


def _check_choice(problem: Problem, by: ScalarNode, issues: list[Issue]) -> None:
    """What chooses must be a number that is drawn, from the shapes there are, and not shown."""
    shapes = [*alternatives(problem.spec.domain)]  # type: ignore[arg-type]
    name, last = by.text, len(shapes) - 1
    path = f"inputs.{name}"
    item = next((i for i in problem.inputs if i.name == name), None)
    usual = f"{name}: {{law: integer, low: 0, high: {last}, hidden: true}}"
    if item is None:
        hint = did_you_mean(name, [i.name for i in problem.inputs]) or f"Write inputs: {{{usual}}}."
        refuse(issues, by.place, f"domain.choose: '{name}' is not an input", hint)
    elif item.of or not isinstance(item.distribution, Integer):
        what = f"depends on {', '.join(item.of)}" if item.of else "is not drawn as a whole number"
        message = f"domain.choose: '{name}' {what}, and is to be the number of a shape"
        refuse(issues, by.place, message, f"Write inputs: {{{usual}}}.")
    elif not item.hidden:
        message = (
            f"domain.choose: '{name}' is shown to the network, which is to know a shape by the "
            "points it is seen at, since one never seen has no number"
        )
        refuse(issues, by.place, message, f"Write inputs: {{{usual}}}.")
    elif item.distribution.low < 0 or item.distribution.high > last:
        key = "low" if item.distribution.low < 0 else "high"
        message = (
            f"{path}: is drawn from {item.distribution.low} to {item.distribution.high}, and "
            f"domain.of has the shapes 0 to {last}"
        )
        refuse(issues, problem.spec.place(f"{path}.{key}"), message)
    else:
        for number, shape in enumerate(shapes):
            if not item.distribution.low <= number <= item.distribution.high:
                message = f"{shape}: is never drawn, since {name}, its number {number}, is not"
                place = problem.spec.place(shape)
                refuse(issues, place, message, f"Leave it out, or let {name} reach {number}.")
