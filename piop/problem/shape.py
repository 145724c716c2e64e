"""The shape of a problem in the plane, from the words of ``domain:``."""

from __future__ import annotations

from typing import Any

from piop.errors import Issue
from piop.expression import Scope, as_number, parse
from piop.geometry import (
    Difference,
    Disk,
    GeometryError,
    Outline,
    Polygon,
    Shape,
    Union,
    box,
    named_by_sides,
    outline,
)
from piop.spec.model import Spec
from piop.spec.names import refuse
from piop.spec.read_domain import part_names
from piop.spec.resolve import Resolved
from piop.spec.tree import Node, Scalar

OUTLINE = "outline"
"""Face of what lies on no side of the box around a shape and belongs to no hole."""


def read_shape(spec: Spec, resolved: Resolved, issues: list[Issue]) -> Outline | None:
    """Trace the boundary of a shape in the plane, its pieces named by the faces they are part of.

    Returns:
        None for a problem without ``domain``, in other dimensions, or where it cannot be traced,
        which is then among the issues.
    """
    if spec.domain is None or len(spec.space) != 2 or resolved.failed & {"domain", "space"}:
        return None
    reserved = {*spec.space, "rest", OUTLINE} & set(part_names(spec.domain))
    for name in sorted(reserved):
        place = spec.place(f"domain.holes.{name}")
        refuse(issues, place, f"domain.holes: '{name}' has a meaning in boundary; choose another")
    names = resolved.names
    values = {n: names.values[n] for n in names.constants if n in names.values}
    constants = Scope(values, used=names.used)
    try:
        found = outline(_Reader(constants).whole(spec.domain))
    except GeometryError as error:
        refuse(issues, spec.place("domain"), f"domain: {error}")
        return None
    first, second = spec.space
    sides = names.bounds[first], names.bounds[second]
    return named_by_sides(found, *sides, (first, second), OUTLINE)


class _Reader:
    """Builds shapes from what was checked when the spec was read."""

    def __init__(self, constants: Scope) -> None:
        self.constants = constants

    def whole(self, node: Any) -> Shape:
        """The shape less its holes."""
        found = {key.text: value for key, value in node.items}
        holes = found.pop("holes", None)
        shape = self.shape(*next(iter(found.items())))
        if holes is None or not holes.items:
            return shape
        removed = tuple(self.named(hole, name.text) for name, hole in holes.items)
        return Difference(shape, removed)

    def named(self, node: Any, face: str = "") -> Shape:
        """A shape written as a mapping of one key."""
        ((kind, value),) = node.items
        return self.shape(kind.text, value, face)

    def shape(self, kind: str, node: Any, face: str = "") -> Shape:
        """A shape of a kind; its boundary has the name ``face``."""
        if kind in ("union", "difference"):
            first, *rest = (self.named(part, face) for part in node.items)
            return Union((first, *rest)) if kind == "union" else Difference(first, tuple(rest))
        if kind == "disk":
            x, y, radius = (self.number(v) for v in node.items)
            return Disk((x, y), radius, face)
        rows = tuple(self.pair(row) for row in node.items)
        return box(rows[0], rows[1], face) if kind == "box" else Polygon(rows, face)

    def pair(self, node: Any) -> tuple[float, float]:
        """Two numbers."""
        first, second = (self.number(v) for v in node.items)
        return first, second

    def number(self, node: Node) -> float:
        """A number, or an expression of constants."""
        assert isinstance(node, Scalar)  # noqa: S101 - checked when it was read
        return as_number(parse(node.text, self.constants))
