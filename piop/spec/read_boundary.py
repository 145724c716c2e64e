"""The ``boundary:`` part: which conditions each key asks for."""

from __future__ import annotations

from piop.spec.model import ConditionSpec
from piop.spec.reader import Bad, Reader
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode

BY_UNKNOWN = {"dirichlet": 1, "neumann": 1, "robin": 3}
WHOLE = ("periodic", "outflow", "wall")
KINDS = (*WHOLE[:1], *BY_UNKNOWN, *WHOLE[1:])


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
            for kind, values in found.items()
            for condition in _by_unknown(reader, kind, values, f"{path}.{kind}")
        )
    scalar = reader.text(node, path)
    if "=" in scalar.text:
        return (ConditionSpec("general", "", (scalar,), scalar.place),)
    if scalar.text in BY_UNKNOWN:
        hint = f"Write {{{scalar.text}: {{u: 0}}}}."
        raise reader.fail(scalar.place, f"{path}: {scalar.text} needs an unknown and a value", hint)
    return (_whole(reader, scalar, path),)


def _whole(reader: Reader, scalar: ScalarNode, path: str) -> ConditionSpec:
    if scalar.text not in WHOLE:
        from piop.expression.parse import did_you_mean

        message = (
            f"{path}: '{scalar.text}' is not a boundary condition; one of {', '.join(KINDS)}, "
            "or an equation."
        )
        raise reader.fail(scalar.place, message, did_you_mean(scalar.text, KINDS))
    return ConditionSpec(scalar.text, "", (), scalar.place)


def _by_unknown(reader: Reader, kind: str, node: Node, path: str) -> list[ConditionSpec]:
    result = []
    for unknown, value, place in reader.mapping(node, path):
        parts = [value] if BY_UNKNOWN[kind] == 1 else list(reader.items(value, path))
        if len(parts) != BY_UNKNOWN[kind]:
            raise reader.fail(value.place, f"{path}.{unknown}: robin takes [alpha, beta, g]")
        texts = tuple(reader.text(p, f"{path}.{unknown}") for p in parts)
        result.append(ConditionSpec(kind, unknown, texts, place))
    if not result:
        raise reader.fail(node.place, f"{path}: no unknown is named")
    return result
