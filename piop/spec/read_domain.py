"""The sections that say where a problem holds: domain and boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from piop.boundary import CONDITIONS, GeneralCondition
from piop.errors import did_you_mean
from piop.spec.model import ConditionSpec
from piop.spec.reader import Bad, Reader
from piop.spec.shapes import OPERATIONS, SHAPES
from piop.spec.tree import MappingNode, Node, ScalarNode, child, entries

_CHOICE = ("choose", "of")


def read_domain(reader: Reader, node: Node, path: str) -> Node:
    """Check a domain and give it back as it is written."""
    if isinstance(node, ScalarNode) and node.text == "sphere":
        message = "domain: sphere is not supported yet"
        raise reader.fail(node.place, message, "Use a box or a polygon.")
    if not _chooses(node):
        _shape(reader, node, path, top=True)
    elif reader.dimensions != 2:
        raise reader.fail(node.place, "domain: shapes to choose from need two space dimensions")
    else:
        readers = {"choose": Reader.text, "of": _alternatives}
        hint = "Such as {choose: k, of: {square: {box: …}, disk: {disk: …}}}."
        reader.record(node, path, readers, _CHOICE, "a choice needs {}", hint)
    return node


def chooser(node: Node | None) -> ScalarNode | None:
    """What chooses between the shapes of a domain that was read; None where it has one shape."""
    return child(node, "choose")


def alternatives(node: Node) -> dict[str, Node]:
    """The shapes that a domain which was read may have: where each stands, to its words."""
    of = child(node, "of")
    return {f"domain.of.{n.text}": shape for n, shape in of.items} if of else {"domain": node}


def part_names(node: Node | None) -> tuple[str, ...]:
    """The names of the holes, which are faces that conditions may be given on."""
    shapes = () if node is None else alternatives(node).values()
    holes = [child(shape, "holes") for shape in shapes]
    return tuple(dict.fromkeys(name.text for found in holes if found for name, _ in found.items))


def _chooses(node: Node) -> bool:
    return isinstance(node, MappingNode) and any(key.text in _CHOICE for key, _ in node.items)


def _alternatives(reader: Reader, node: Node, path: str) -> None:
    shapes = reader.mapping(node, path)
    if len(shapes) < 2:
        raise reader.fail(node.place, f"{path}: two or more shapes are needed")
    for name, shape, place in shapes:
        reader.name(ScalarNode(name, place), path)
        if _chooses(shape):
            message = f"{path}.{name}: a choice is of shapes, and this is another choice"
            raise reader.fail(shape.place, message, "Write its shapes in its place.")
        _shape(reader, shape, f"{path}.{name}", top=True)


def _shape(reader: Reader, node: Node, path: str, top: bool = False) -> None:
    holes = ("holes",) if top else ()
    found = reader.keys(node, path, (*SHAPES, *OPERATIONS, *holes, "sphere"))
    if "sphere" in found:
        raise reader.fail(found["sphere"].place, f"{path}: sphere is not supported yet")
    kinds = [k for k in found if k != "holes"]
    if len(kinds) != 1:
        names = ", ".join((*SHAPES, *OPERATIONS))
        raise reader.fail(node.place, f"{path}: exactly one of {names} is needed")
    kind, inner = kinds[0], f"{path}.{kinds[0]}"
    if reader.dimensions != 2 and [*found] != ["box"]:
        raise reader.fail(node.place, f"{path}: shapes other than a box need two space dimensions")
    if kind in SHAPES:
        SHAPES[kind].check(reader, found[kind], inner)
    elif len(parts := reader.items(found[kind], inner)) < 2:
        raise reader.fail(found[kind].place, f"{inner}: two or more shapes are needed")
    else:
        for part in parts:
            _shape(reader, part, inner)
    inner = f"{path}.holes"
    for name, hole, _ in reader.mapping(found["holes"], inner) if "holes" in found else ():
        _shape(reader, hole, f"{inner}.{name}")


def _leaves(node: Node | None, path: str) -> Iterator[tuple[str, str, Any]]:
    """(path, kind, words) of every shape of a domain that was read, in the order of the text."""
    for key, value in entries(node):
        if key.text in OPERATIONS:
            for number, part in enumerate(value.items):
                yield from _leaves(part, f"{path}.{key.text}.{number}")
        elif key.text in ("holes", "of"):
            for name, shape in value.items:
                yield from _leaves(shape, f"{path}.{key.text}.{name.text}")
        elif key.text in SHAPES:
            yield path, key.text, value


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


def stars(node: Node | None) -> Iterator[StarText]:
    """The stars of a domain that was read, in the order they are written."""
    for path, kind, words in _leaves(node, "domain"):
        if kind == "star":
            found = {k.text: v for k, v in words.items}
            yield StarText(path, found["angle"], found["radius"])


def bounding_boxes(
    node: Node, number: Callable[[ScalarNode], float]
) -> Iterator[tuple[str, list[tuple[float, float]], Node]]:
    """(kind, interval per axis, node) of every box, polygon and disk of a domain that was read."""
    for _, kind, words in _leaves(node, "domain"):
        if bounds := SHAPES[kind].bounds(words, number):
            yield kind, bounds, words


_BY_UNKNOWN = {word: kind for word, kind in CONDITIONS.items() if kind.arguments}


def read_conditions(reader: Reader, node: Node, path: str) -> tuple[ConditionSpec, ...]:
    """Read the conditions of a face; the faces themselves are checked by the problem."""
    return tuple(chain.from_iterable(reader.several(node, path, _conditions)))


def _conditions(reader: Reader, node: Node, path: str) -> list[ConditionSpec]:
    if isinstance(node, MappingNode):
        found = reader.keys(node, path, _BY_UNKNOWN)
        if len(found) < len(node.items):
            raise Bad
        return [c for k, v in found.items() for c in _by_unknown(reader, v, f"{path}.{k}", k)]
    scalar = reader.text(node, path)
    word = scalar.text
    if "=" in word:
        return [ConditionSpec(GeneralCondition, "", (scalar,), scalar.place)]
    if word in _BY_UNKNOWN:
        hint = f"Write {{{word}: {{u: 0}}}}."
        raise reader.fail(scalar.place, f"{path}: {word} needs an unknown and a value", hint)
    if word not in CONDITIONS:
        message = f"{path}: '{word}' is not a boundary condition; one of {', '.join(CONDITIONS)}"
        hint = did_you_mean(word, list(CONDITIONS))
        raise reader.fail(scalar.place, f"{message}, or an equation.", hint)
    return [ConditionSpec(CONDITIONS[word], "", (), scalar.place)]


def _by_unknown(reader: Reader, node: Node, path: str, word: str) -> list[ConditionSpec]:
    result, arguments = [], CONDITIONS[word].arguments
    for unknown, value, place in reader.mapping(node, path):
        parts = [value] if len(arguments) == 1 else reader.items(value, path)
        if len(parts) != len(arguments):
            message = f"{path}.{unknown}: {word} takes [{', '.join(arguments)}]"
            raise reader.fail(value.place, message)
        texts = tuple(reader.text(p, f"{path}.{unknown}") for p in parts)
        result.append(ConditionSpec(CONDITIONS[word], unknown, texts, place))
    if not result:
        raise reader.fail(node.place, f"{path}: no unknown is named")
    return result
