"""Nested values that know their place in the text, read from YAML or from Python objects."""

from __future__ import annotations

import collections.abc
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeAlias

import sympy

from piop.errors import Issue, Place, SpecError
from piop.expression import write


@dataclass(frozen=True)
class ScalarNode:
    """One value, not yet interpreted.

    Attributes:
        text: As it reads.
        place: Where it starts.
        quoted: Whether it stood in quotes, so that ``"true"`` is a word.
        places: Place of every character of the text, where they are not in one row.
        label: How a value that was not text was given, for messages; empty for text.
    """

    text: str
    place: Place = field(default_factory=Place, compare=False)
    quoted: bool = field(default=False, compare=False)
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    def at(self, offset: int) -> Place:
        """The place of one character of the text."""
        if offset < len(self.places):
            line, column = self.places[offset]
            return Place(self.place.file, line, column)
        if self.places or not self.place.line:
            return self.place
        return Place(self.place.file, self.place.line, self.place.column + offset)


@dataclass(frozen=True)
class MappingNode:
    """Keys, each with its own place, and values."""

    items: tuple[tuple[ScalarNode, Node], ...]
    place: Place = field(default_factory=Place, compare=False)


@dataclass(frozen=True)
class SequenceNode:
    """Values in order."""

    items: tuple[Node, ...]
    place: Place = field(default_factory=Place, compare=False)


Node: TypeAlias = ScalarNode | MappingNode | SequenceNode


_PLAIN = (str, bool, int, float, PurePath)


def read_objects(value: Any, where: str = "Problem") -> Node:
    """Turn strings, numbers, lists, dicts and SymPy expressions into a tree.

    Args:
        value: As passed to ``piop.Problem``. A SymPy ``Eq`` is an equation.
        where: How messages call the value.

    Raises:
        SpecError: For an object that a spec cannot hold.
    """
    if isinstance(value, bool):
        return ScalarNode("true" if value else "false")
    if isinstance(value, str):
        return ScalarNode(value, quoted=True)
    if isinstance(value, float):
        return ScalarNode(repr(float(value)))
    if isinstance(value, (int, PurePath)):
        return ScalarNode(str(value))
    if isinstance(value, (sympy.Basic, sympy.MatrixBase)):
        return ScalarNode(_text(value, where))
    if isinstance(value, collections.abc.Mapping):
        items = tuple(
            (ScalarNode(_key(k, where)), read_objects(v, f"{where}.{k}")) for k, v in value.items()
        )
        return MappingNode(items)
    if isinstance(value, (list, tuple)):
        return SequenceNode(tuple(read_objects(v, f"{where}[{i}]") for i, v in enumerate(value)))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy number
        return read_objects(value.item(), where)
    kind = type(value).__name__
    raise SpecError(
        Issue(f"{where}: {kind} cannot be part of a spec; give text, a number or SymPy")
    )


def _key(key: Any, where: str) -> str:
    return key if isinstance(key, str) else _text(key, where)


def _text(value: Any, where: str) -> str:
    try:
        if isinstance(value, sympy.Equality):
            return f"{_text(value.lhs, where)} = {_text(value.rhs, where)}"
        if isinstance(value, (sympy.Tuple, sympy.MatrixBase)):
            return f"({', '.join(_text(v, where) for v in value)},)"
        if isinstance(value, sympy.FunctionClass):
            return value.__name__
        return write(value)
    except (TypeError, AttributeError) as error:
        raise SpecError(Issue(f"{where}: {error}")) from None
