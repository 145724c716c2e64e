"""Domains that do not fit their space, and faces with too few or too many conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piop.boundary import BoundaryCondition
from piop.domain import Coordinate
from piop.errors import Issue
from piop.expression import Scope, as_number, parse
from piop.expression.parse import did_you_mean
from piop.forms.terms import multipliers, orders
from piop.spec.distributions import Integer
from piop.spec.read_domain import alternatives, bounding_boxes, chooser
from piop.spec.reader import refuse
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
            "points it is observed at, since one never observed has no number"
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


def check_boundary(problem: Problem, resolved: Resolved, issues: list[Issue]) -> None:
    """Count the conditions of every face that is not periodic."""
    if not problem.domain.is_box:
        _check_shape(problem, issues)
        return
    for axis in problem.space:
        faces = [f"{axis.name}.{end}" for end in ("min", "max")]
        if axis.periodic or not all(f in problem.boundary for f in faces):
            continue
        found = [problem.boundary[f] for f in faces]
        if not _by_kind(problem, faces, found, axis, issues):
            for name in problem.channels:
                _count(problem, name, axis, found, issues)
    del resolved


def _check_shape(problem: Problem, issues: list[Issue]) -> None:
    """Count the conditions of every face of a shape, which any axis may cross."""
    needed = {
        name: max(_order(problem, name, axis) for axis in problem.space) // 2
        for name in problem.channels
    }
    for face, conditions in problem.boundary.items():
        if any(c.exclusive for c in conditions):
            continue
        if not any(c.equation for c in conditions):
            for name in problem.channels:
                _compare(problem, face, name, _of(conditions, name), needed[name], issues)
        elif len(conditions) != sum(needed.values()):
            total = sum(needed.values())
            message = f"{len(conditions)} conditions where the equations ask for {total}"
            refuse(issues, problem.spec.place(f"boundary.{face}"), f"boundary.{face}: {message}")


def _order(problem: Problem, name: str, axis: Coordinate) -> int:
    position = problem.coordinates.index(axis)
    found = [o[position] for r in problem.residuals for o in orders(problem.pde, r, name)]
    return max(found, default=0)


def _of(conditions: tuple[BoundaryCondition, ...], name: str) -> list[BoundaryCondition]:
    return [c for c in conditions if c.unknown == name]


def _by_kind(
    problem: Problem,
    faces: list[str],
    found: list[tuple[BoundaryCondition, ...]],
    axis: Coordinate,
    issues: list[Issue],
) -> bool:
    """Faces with ``outflow``, ``wall`` or a general equation, which name no unknown."""
    asking = [name for name in problem.channels if name not in multipliers(problem.pde)]
    total = sum(_order(problem, name, axis) for name in asking)
    highest = max(_order(problem, name, axis) for name in problem.channels)
    done = False
    for face, conditions in zip(faces, found, strict=True):
        sole = next((c for c in conditions if c.exclusive), None)
        if sole is not None:
            done = True
            what = f"boundary.{face}: {sole.keyword}"
            if sole.conservation_law and highest > 1:
                message = f"{what} is for conservation laws; these equations are of order {highest}"
                refuse(issues, sole.place, message, "Use neumann or dirichlet.")
            elif len(conditions) > 1:
                refuse(issues, sole.place, f"{what} excludes others")
        elif any(c.equation for c in conditions):
            done = True
            if 2 * len(conditions) != total + total % 2:
                message = f"{len(conditions)} conditions where the equations ask for {total // 2}"
                refuse(
                    issues, problem.spec.place(f"boundary.{face}"), f"boundary.{face}: {message}"
                )
    return done


def _count(
    problem: Problem,
    name: str,
    axis: Coordinate,
    found: list[tuple[BoundaryCondition, ...]],
    issues: list[Issue],
) -> None:
    order = _order(problem, name, axis)
    given = [_of(conditions, name) for conditions in found]
    faces = [f"{axis.name}.{end}" for end in ("min", "max")]
    if order % 2 == 0:
        for face, conditions in zip(faces, given, strict=True):
            _compare(problem, face, name, conditions, order // 2, issues)
        return
    total = len(given[0]) + len(given[1])
    system = order == 1 and len(problem.channels) > 1  # such as a pressure: the system decides
    fits = all(len(g) <= order // 2 + 1 for g in given) and (system or total == order)
    if not fits:
        message = (
            f"{name} is of order {order} along {axis.name}, so its two faces need {order} "
            f"condition{'' if order == 1 else 's'} in all; {total} given"
        )
        place = problem.spec.place(f"boundary.{axis.name}")
        refuse(issues, place, f"boundary.{axis.name}: {message}")


def _compare(
    problem: Problem,
    face: str,
    name: str,
    conditions: list[BoundaryCondition],
    needed: int,
    issues: list[Issue],
) -> None:
    if len(conditions) == needed:
        return
    message = f"boundary.{face}: {name} needs {needed} condition{'' if needed == 1 else 's'} here"
    hint = ""
    if len(conditions) < needed:
        hint = f"Add one such as {{dirichlet: {{{name}: 0}}}}, or make the axis periodic."
        axis = face.split(".")[0]
        path = (
            f"boundary.{face}" if f"boundary.{face}" in problem.spec.places else f"boundary.{axis}"
        )
        place = problem.spec.place(path)
        if not problem.spec.boundary:
            place = problem.spec.place(f"space.{axis}")
    else:
        place = conditions[needed].place
    refuse(issues, place, f"{message}; {len(conditions)} given", hint)
