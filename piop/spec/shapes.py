"""The kinds of shapes in ``domain:``: how the words of each are checked and what they build."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, final

from piop.domain import Difference, Disk, Polygon, Radius, Shape, StarShaped, Union, box
from piop.expression import Scope, as_number, parse
from piop.spec.reader import Reader
from piop.spec.tree import Node, ScalarNode, child, entries

Intervals = list[tuple[float, float]]
Number = Callable[[ScalarNode], float]
_numbers = partial(Reader.several, read=Reader.coordinate)


class ShapeWords(ABC):
    """The words of one kind of shape.

    A new kind is a final subclass and an entry in ``SHAPES``, beside its shape in `piop.domain`.
    """

    @abstractmethod
    def check(self, reader: Reader, node: Node, path: str) -> None:
        """Refuse words that are no such shape."""

    @abstractmethod
    def build(self, builder: ShapeBuilder, node: Any, path: str, face: str) -> Shape:
        """Build the shape from words that were checked; its boundary has the name ``face``."""

    def bounds(self, node: Any, number: Number) -> Intervals:
        """Return the interval along each axis; nothing where it follows from the outline alone."""
        return []


@final
class BoxWords(ShapeWords):
    """``box: [[x0, x1], [y0, y1]]``."""

    def check(self, reader: Reader, node: Node, path: str) -> None:
        """See the base class."""
        sides = reader.items(node, path)
        if len(sides) != reader.dimensions:
            message = f"{path}: {reader.dimensions} intervals are needed, one per axis"
            raise reader.fail(node.place, message)
        for side in sides:
            low, high = reader.interval(side, path, Reader.coordinate)
            if low == high:
                raise reader.fail(side.place, f"{path}: the side has no length")

    def build(self, builder: ShapeBuilder, node: Any, path: str, face: str) -> Shape:
        """See the base class."""
        x, y = (builder.pair(row) for row in node.items)
        return box(x, y, face)

    def bounds(self, node: Any, number: Number) -> Intervals:
        """See the base class."""
        return [(number(row.items[0]), number(row.items[1])) for row in node.items]


@final
class PolygonWords(ShapeWords):
    """``polygon: [[x, y], …]``."""

    def check(self, reader: Reader, node: Node, path: str) -> None:
        """See the base class."""
        corners = reader.items(node, path)
        if len(corners) < 3:
            raise reader.fail(node.place, f"{path}: three or more corners are needed")
        for corner in corners:
            if len(_numbers(reader, corner, path)) != reader.dimensions:
                raise reader.fail(corner.place, f"{path}: a corner is [x, y]")

    def build(self, builder: ShapeBuilder, node: Any, path: str, face: str) -> Shape:
        """See the base class."""
        return Polygon(tuple(builder.pair(row) for row in node.items), face)

    def bounds(self, node: Any, number: Number) -> Intervals:
        """See the base class."""
        rows = [[number(v) for v in row.items] for row in node.items]
        return [(min(column), max(column)) for column in zip(*rows, strict=True)]


@final
class DiskWords(ShapeWords):
    """``disk: [x, y, radius]``."""

    def check(self, reader: Reader, node: Node, path: str) -> None:
        """See the base class."""
        values = _numbers(reader, node, path)
        if len(values) != reader.dimensions + 1 or values[-1] <= 0:
            message = f"{path}: a disk is [x, y, radius] with a positive radius"
            raise reader.fail(node.place, message)

    def build(self, builder: ShapeBuilder, node: Any, path: str, face: str) -> Shape:
        """See the base class."""
        x, y, radius = (builder.number(v) for v in node.items)
        return Disk((x, y), radius, face)

    def bounds(self, node: Any, number: Number) -> Intervals:
        """See the base class."""
        *centre, radius = (number(v) for v in node.items)
        return [(c - radius, c + radius) for c in centre]


@final
class StarWords(ShapeWords):
    """``star: {centre: [x, y], angle: phi, radius: EXPR}``."""

    def check(self, reader: Reader, node: Node, path: str) -> None:
        """See the base class."""
        readers = {"centre": _numbers, "angle": Reader.text, "radius": Reader.text}
        hint = "Such as {star: {centre: [0.5, 0.5], angle: phi, radius: 0.2 + 0.05*cos(3*phi)}}."
        found = reader.record(node, path, readers, (*readers,), "a star needs {}", hint)
        if len(found["centre"]) != reader.dimensions:
            message = f"{path}.centre: a centre is [x, y]"
            raise reader.fail(child(node, "centre").place, message)

    def build(self, builder: ShapeBuilder, node: Any, path: str, face: str) -> Shape:
        """See the base class."""
        centre = builder.pair(child(node, "centre"))
        return StarShaped(centre, builder.radius(path), path, face)


SHAPES: Mapping[str, ShapeWords] = MappingProxyType(
    {"box": BoxWords(), "polygon": PolygonWords(), "disk": DiskWords(), "star": StarWords()}
)
"""Keyword → the words of a shape."""
OPERATIONS: Mapping[str, Callable[[Sequence[Shape]], Shape]] = MappingProxyType(
    {
        "union": lambda parts: Union(tuple(parts)),
        "difference": lambda parts: Difference(parts[0], tuple(parts[1:])),
    }
)
"""Keyword → what puts two or more shapes together."""


@final
@dataclass(frozen=True)
class ShapeBuilder:
    """Builds shapes from words that were checked when the spec was read.

    Attributes:
        constants: Names of numbers.
        radius: Where a star stands in the spec → its radius.
    """

    constants: Scope
    radius: Callable[[str], Radius]

    def whole(self, node: Node, path: str) -> Shape:
        """Return the shape less its holes."""
        shape, holes = self.part(node, path), entries(child(node, "holes"))
        removed = [self.part(hole, f"{path}.holes.{n.text}", n.text) for n, hole in holes]
        return Difference(shape, tuple(removed)) if removed else shape

    def part(self, node: Node, path: str, face: str = "") -> Shape:
        """Return the shape that a mapping names, holes left aside."""
        kind, value = next((key.text, v) for key, v in entries(node) if key.text != "holes")
        if kind not in OPERATIONS:
            return SHAPES[kind].build(self, value, path, face)
        parts = enumerate(value.items)
        return OPERATIONS[kind]([self.part(p, f"{path}.{kind}.{n}", face) for n, p in parts])

    def pair(self, node: Any) -> tuple[float, float]:
        """Return two numbers."""
        first, second = (self.number(v) for v in node.items)
        return first, second

    def number(self, node: ScalarNode) -> float:
        """Return a number, or the value of an expression of constants."""
        return as_number(parse(node.text, self.constants))
