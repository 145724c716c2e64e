"""The ``boundary:`` part: the conditions given under each key."""

from __future__ import annotations

from piop.boundary import CONDITIONS, BoundaryCondition, GeneralCondition
from piop.expression.parse import did_you_mean
from piop.spec.model import ConditionSpec
from piop.spec.reader import Bad, Reader
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode

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
