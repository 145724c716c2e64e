"""Domains that do not fit their space, and faces with too few or too many conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from piop.boundary import BoundaryCondition
from piop.domain import Coordinate
from piop.errors import Issue, did_you_mean
from piop.expression import as_number, parse
from piop.forms.terms import multipliers, orders
from piop.spec.distributions import Integer
from piop.spec.formulas import Resolved
from piop.spec.model import issue_at
from piop.spec.read_domain import alternatives, bounding_boxes, chooser
from piop.spec.tree import Node, ScalarNode, child

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def check_domain(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Every shape must lie inside ``space``, and a box must be all of it."""
    words = problem.spec.domain
    if words is None:
        return
    constants = resolved.names.numbers
    slack = 1e-9 * max(c.length for c in problem.space)
    boxes = bounding_boxes(words, lambda text: as_number(parse(text.text, constants)))
    for kind, box, node in boxes:
        for axis, (low, high) in zip(problem.space, box, strict=True):
            whole = node is child(words, "box")
            outside = low < axis.low - slack or high > axis.high + slack
            inside = whole and (low > axis.low + slack or high < axis.high - slack)
            if outside or inside:
                wrong = "is not" if whole else "reaches out of"
                yield issue_at(
                    node.place,
                    f"domain: the {kind} [{low:g}, {high:g}] along {axis.name} {wrong} "
                    f"the interval [{axis.low:g}, {axis.high:g}] of space",
                )
    by = chooser(words)
    if by is not None and by.text not in resolved.names.broken:
        yield from _check_choice(problem, words, by)


def _check_choice(problem: Problem, words: Node, by: ScalarNode) -> Iterator[Issue]:
    """What chooses must be a number that is drawn, from the shapes there are, and not shown."""
    shapes = [*alternatives(words)]
    name, last = by.text, len(shapes) - 1
    path, what = f"inputs.{name}", f"domain.choose: '{name}'"
    item = next((i for i in problem.inputs if i.name == name), None)
    usual = f"Write inputs: {{{name}: {{law: integer, low: 0, high: {last}, hidden: true}}}}."
    if item is None:
        hint = did_you_mean(name, [i.name for i in problem.inputs]) or usual
        yield issue_at(by.place, f"{what} is not an input", hint)
    elif item.of or not isinstance(item.distribution, Integer):
        found = f"depends on {', '.join(item.of)}" if item.of else "is not drawn as a whole number"
        yield issue_at(by.place, f"{what} {found}, and is to be the number of a shape", usual)
    elif not item.hidden:
        message = (
            f"{what} is shown to the network, which is to know a shape by the points it is "
            "observed at, since one never observed has no number"
        )
        yield issue_at(by.place, message, usual)
    elif (low := item.distribution.low) < 0 or item.distribution.high > last:
        message = (
            f"{path}: is drawn from {low} to {item.distribution.high}, and domain.of has the "
            f"shapes 0 to {last}"
        )
        yield issue_at(problem.spec.place(f"{path}.{'low' if low < 0 else 'high'}"), message)
    else:
        for number, shape in enumerate(shapes):
            if not low <= number <= item.distribution.high:
                message = f"is never drawn, since {name}, its number {number}, is not"
                hint = f"Leave it out, or let {name} reach {number}."
                yield problem.spec.issue(shape, message, hint)


def check_boundary(problem: Problem, resolved: Resolved) -> Iterator[Issue]:
    """Count the conditions of every face that is not periodic."""
    if not problem.domain.is_box:
        yield from _check_shape(problem)
        return
    for axis in problem.space:
        faces = {f: c for f, c in problem.boundary.items() if f.startswith(f"{axis.name}.")}
        if axis.periodic or len(faces) < 2:
            continue
        if any(c.exclusive or c.equation for found in faces.values() for c in found):
            yield from _check_kinds(problem, faces, axis)
        else:
            for name in problem.channels:
                yield from _check_unknown(problem, name, axis, faces)


def _check_shape(problem: Problem) -> Iterator[Issue]:
    """Count the conditions of every face of a shape, which any axis may cross."""
    needed = {
        name: max(_order(problem, name, axis) for axis in problem.space) // 2
        for name in problem.channels
    }
    for face, conditions in problem.boundary.items():
        if any(c.exclusive for c in conditions):
            continue
        if any(c.equation for c in conditions):
            yield from _check_total(problem, face, conditions, sum(needed.values()))
        else:
            for name in problem.channels:
                yield from _compare(problem, face, name, conditions, needed[name])


def _check_total(
    problem: Problem, face: str, conditions: Sequence[BoundaryCondition], needed: int
) -> Iterator[Issue]:
    if len(conditions) != needed:
        message = f"{len(conditions)} conditions where the equations ask for {needed}"
        yield problem.spec.issue(f"boundary.{face}", message)


def _order(problem: Problem, name: str, axis: Coordinate) -> int:
    position = problem.coordinates.index(axis)
    found = [o[position] for r in problem.residuals for o in orders(problem.pde, r, name)]
    return max(found, default=0)


Faces = dict[str, tuple[BoundaryCondition, ...]]


def _check_kinds(problem: Problem, faces: Faces, axis: Coordinate) -> Iterator[Issue]:
    """Faces with ``outflow``, ``wall`` or a general equation, which name no unknown."""
    order_of = {name: _order(problem, name, axis) for name in problem.channels}
    highest = max(order_of.values())
    total = sum(order_of[name] for name in order_of.keys() - multipliers(problem.pde))
    for face, conditions in faces.items():
        sole = next((c for c in conditions if c.exclusive), None)
        if sole is None and any(c.equation for c in conditions):
            yield from _check_total(problem, face, conditions, (total + 1) // 2)
        elif sole is not None and sole.conservation_law and highest > 1:
            message = f"is for conservation laws; these equations are of order {highest}"
            what = f"boundary.{face}: {sole.keyword} {message}"
            yield issue_at(sole.place, what, "Use neumann or dirichlet.")
        elif sole is not None and len(conditions) > 1:
            yield issue_at(sole.place, f"boundary.{face}: {sole.keyword} excludes others")


def _check_unknown(problem: Problem, name: str, axis: Coordinate, faces: Faces) -> Iterator[Issue]:
    order = _order(problem, name, axis)
    if order % 2 == 0:
        for face, conditions in faces.items():
            yield from _compare(problem, face, name, conditions, order // 2)
        return
    given = [sum(c.unknown == name for c in conditions) for conditions in faces.values()]
    system = order == 1 and len(problem.channels) > 1  # such as a pressure: the system decides
    if max(given) > order // 2 + 1 or not (system or sum(given) == order):
        yield problem.spec.issue(
            f"boundary.{axis.name}",
            f"{name} is of order {order} along {axis.name}, so its two faces need {order} "
            f"condition{'s' * (order != 1)} in all; {sum(given)} given",
        )


def _compare(
    problem: Problem, face: str, name: str, conditions: Sequence[BoundaryCondition], needed: int
) -> Iterator[Issue]:
    own = [condition for condition in conditions if condition.unknown == name]
    if (given := len(own)) == needed:
        return
    many = "s" * (needed != 1)
    message = f"boundary.{face}: {name} needs {needed} condition{many} here; {given} given"
    if given > needed:
        yield issue_at(own[needed].place, message)
        return
    axis, spec = face.split(".")[0], problem.spec
    path = f"boundary.{face if f'boundary.{face}' in spec.places else axis}"
    hint = f"Add one such as {{dirichlet: {{{name}: 0}}}}, or make the axis periodic."
    yield issue_at(spec.place(path if spec.boundary else f"space.{axis}"), message, hint)
