"""The sections that say where a problem holds: domain and boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from piop.boundary import CONDITIONS, BoundaryCondition, GeneralCondition
from piop.expression.parse import did_you_mean
from piop.spec.model import ConditionSpec
from piop.spec.reader import Bad, Reader
from piop.spec.shapes import OPERATIONS, SHAPES
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode, entries

_CHOICE = ("choose", "of")


def read_domain(reader: Reader, node: Node, dimensions: int) -> Node:
    """Check a domain and give it back as it is written."""
    if isinstance(node, ScalarNode) and node.text == "sphere":
        raise reader.fail(
            node.place, "domain: sphere is not supported yet", "Use a box or a polygon."
        )
    if _chooses(node):
        _choice(reader, node, dimensions)
    else:
        _shape(reader, node, "domain", dimensions, top=True)
    return node


def chooser(node: Node | None) -> ScalarNode | None:
    """What chooses between the shapes of a domain that was read; None where it has one shape."""
    return next((v for k, v in entries(node) if k.text == "choose"), None)


def alternatives(node: Node) -> dict[str, Node]:
    """The shapes that a domain which was read may have: where each stands, to its words."""
    for key, value in entries(node):
        if key.text == "of":
            return {f"domain.of.{name.text}": shape for name, shape in value.items}
    return {"domain": node}


def part_names(node: Node | None) -> tuple[str, ...]:
    """The names of the holes, which are faces that conditions may be given on."""
    found: dict[str, None] = {}
    for shape in () if node is None else alternatives(node).values():
        for key, value in entries(shape):
            if key.text == "holes":
                found |= dict.fromkeys(name.text for name, _ in value.items)
    return tuple(found)


def _chooses(node: Node) -> bool:
    return isinstance(node, MappingNode) and any(key.text in _CHOICE for key, _ in node.items)


def _choice(reader: Reader, node: Node, dimensions: int) -> None:
    found = reader.keys(node, "domain", _CHOICE)
    if missing := [key for key in _CHOICE if key not in found]:
        hint = "Such as {choose: k, of: {square: {box: …}, disk: {disk: …}}}."
        raise reader.fail(node.place, f"domain: a choice needs {missing[0]}", hint)
    if dimensions != 2:
        raise reader.fail(node.place, "domain: shapes to choose from need two space dimensions")
    reader.text(found["choose"], "domain.choose")
    shapes = reader.mapping(found["of"], "domain.of")
    if len(shapes) < 2:
        raise reader.fail(found["of"].place, "domain.of: two or more shapes are needed")
    for name, shape, place in shapes:
        reader.name(ScalarNode(name, place), "domain.of")
        if _chooses(shape):
            message = f"domain.of.{name}: a choice is of shapes, and this is another choice"
            raise reader.fail(shape.place, message, "Write its shapes in its place.")
        _shape(reader, shape, f"domain.of.{name}", dimensions, top=True)


def _shape(reader: Reader, node: Node, path: str, dimensions: int, top: bool = False) -> None:
    allowed = (*SHAPES, *OPERATIONS, *(("holes",) if top else ()), "sphere")
    found = reader.keys(node, path, allowed)
    if "sphere" in found:
        raise reader.fail(found["sphere"].place, f"{path}: sphere is not supported yet")
    kinds = [k for k in found if k != "holes"]
    if len(kinds) != 1:
        names = ", ".join((*SHAPES, *OPERATIONS))
        raise reader.fail(node.place, f"{path}: exactly one of {names} is needed")
    kind = kinds[0]
    if dimensions != 2 and not (kind == "box" and "holes" not in found):
        raise reader.fail(node.place, f"{path}: shapes other than a box need two space dimensions")
    inner = f"{path}.{kind}"
    if kind in OPERATIONS:
        parts = reader.items(found[kind], inner)
        if len(parts) < 2:
            raise reader.fail(found[kind].place, f"{inner}: two or more shapes are needed")
        for part in parts:
            _shape(reader, part, inner, dimensions)
    else:
        SHAPES[kind].check(reader, found[kind], inner, dimensions)
    for name, hole, _ in (
        reader.mapping(found["holes"], f"{path}.holes") if "holes" in found else ()
    ):
        _shape(reader, hole, f"{path}.holes.{name}", dimensions)


@dataclass(frozen=True)
class StarText:
    """A star as it is written.

    Attributes:
        path: Where it stands, such as ``domain.holes.cavity``; what its radius is known by.
        angle: Name of its angle.
        radius: An expression of the angle, and of inputs of the angle.
    """

    path: str
    angle: ScalarNode
    radius: ScalarNode


def stars(node: Node | None, path: str = "domain") -> Iterator[StarText]:
    """The stars of a domain that was read, in the order they are written."""
    for key, value in entries(node):
        if key.text in OPERATIONS:
            for number, part in enumerate(value.items):
                yield from stars(part, f"{path}.{key.text}.{number}")
        elif key.text in ("holes", "of"):
            for name, shape in value.items:
                yield from stars(shape, f"{path}.{key.text}.{name.text}")
        elif key.text == "star":
            found = {k.text: v for k, v in value.items}
            yield StarText(path, found["angle"], found["radius"])


def bounding_boxes(
    node: Node, number: Callable[[ScalarNode], float]
) -> Iterator[tuple[str, list[tuple[float, float]], Node]]:
    """(kind, interval per axis, node) of every box, polygon and disk of a domain that was read."""
    for key, value in entries(node):
        if key.text in OPERATIONS:
            for part in value.items:
                yield from bounding_boxes(part, number)
        elif key.text in ("holes", "of"):
            for _, shape in value.items:
                yield from bounding_boxes(shape, number)
        elif key.text != "choose":
            bounds = SHAPES[key.text].bounds(value, number)
            if bounds:
                yield key.text, bounds, value


BY_UNKNOWN = {word: kind for word, kind in CONDITIONS.items() if kind.arguments}
WITHOUT_UNKNOWN = {word: kind for word, kind in CONDITIONS.items() if not kind.arguments}


def read_boundary(reader: Reader, node: Node) -> dict[str, tuple[ConditionSpec, ...]]:
    """Read every face's conditions; the faces themselves are checked by the problem."""
    result = {}
    for face, value, _ in reader.mapping(node, "boundary"):
        path = f"boundary.{face}"
        found = reader.attempt(_conditions, reader, value, path)
        if found is not None:
            result[face] = found
    return result


def _conditions(reader: Reader, node: Node, path: str) -> tuple[ConditionSpec, ...]:
    if isinstance(node, SequenceNode):
        return tuple(c for item in node.items for c in _one(reader, item, path))
    return _one(reader, node, path)


def _one(reader: Reader, node: Node, path: str) -> tuple[ConditionSpec, ...]:
    if isinstance(node, MappingNode):
        found = reader.keys(node, path, BY_UNKNOWN)
        if len(found) < len(node.items):
            raise Bad
        return tuple(
            condition
            for word, values in found.items()
            for condition in _by_unknown(reader, BY_UNKNOWN[word], values, f"{path}.{word}")
        )
    scalar = reader.text(node, path)
    if "=" in scalar.text:
        return (ConditionSpec(GeneralCondition, "", (scalar,), scalar.place),)
    if scalar.text in BY_UNKNOWN:
        hint = f"Write {{{scalar.text}: {{u: 0}}}}."
        raise reader.fail(scalar.place, f"{path}: {scalar.text} needs an unknown and a value", hint)
    return (_without_unknown(reader, scalar, path),)


def _without_unknown(reader: Reader, scalar: ScalarNode, path: str) -> ConditionSpec:
    if scalar.text not in WITHOUT_UNKNOWN:
        allowed = ", ".join(CONDITIONS)
        message = f"{path}: '{scalar.text}' is not a boundary condition; one of {allowed}"
        message += ", or an equation."
        raise reader.fail(scalar.place, message, did_you_mean(scalar.text, list(CONDITIONS)))
    return ConditionSpec(WITHOUT_UNKNOWN[scalar.text], "", (), scalar.place)


def _by_unknown(
    reader: Reader, kind: type[BoundaryCondition], node: Node, path: str
) -> list[ConditionSpec]:
    result = []
    for unknown, value, place in reader.mapping(node, path):
        parts = [value] if len(kind.arguments) == 1 else list(reader.items(value, path))
        if len(parts) != len(kind.arguments):
            names = ", ".join(kind.arguments)
            raise reader.fail(value.place, f"{path}.{unknown}: {kind.keyword} takes [{names}]")
        texts = tuple(reader.text(p, f"{path}.{unknown}") for p in parts)
        result.append(ConditionSpec(kind, unknown, texts, place))
    if not result:
        raise reader.fail(node.place, f"{path}: no unknown is named")
    return result
