"""Trees of nodes with their places, read from YAML text or from Python objects.

Only the structure is YAML's. Every scalar stays text until the key it belongs to says what it must
be, so ``1e-3`` is a number, ``no`` a name and ``1:30`` an error, whatever YAML makes of them.
"""

from __future__ import annotations

import collections.abc
import re
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any, TypeAlias

import sympy
import yaml

from piop.errors import Issue, Place, SpecError
from piop.expression import write

_LOST = re.compile(
    "[^\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML forbids or reads as ends of lines."""


MAX_SIZE = 65_536  # characters
MAX_DEPTH = 12
MAX_NODES = 5_000
_BITS = 2048  # of a whole number, beyond a double's range


@dataclass(frozen=True)
class ScalarNode:
    """One value, not yet interpreted.

    Attributes:
        text: As it reads.
        place: Where it starts.
        quoted: Whether it stood in quotes, so that ``"true"`` is a word.
        places: Place of every character of the text, where they are not in one row.
    """

    text: str
    place: Place = field(default_factory=Place, compare=False)
    quoted: bool = field(default=False, compare=False)
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse characters that neither YAML nor a data file gives back.

        Raises:
            SpecError: At the first of them.
        """
        if match := _LOST.search(self.text):
            message = f"the character {match[0]!r} is not allowed"
            raise SpecError(Issue(message, *astuple(self.at(match.start()))))

    @property
    def boolean(self) -> bool | None:
        """The value of ``true`` and ``false`` without quotes; None of any other text."""
        return None if self.quoted else {"true": True, "false": False}.get(self.text)

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


def entries(node: Node | None) -> tuple[tuple[ScalarNode, Any], ...]:
    """Keys and values of a mapping; none of any other node."""
    return node.items if isinstance(node, MappingNode) else ()


def child(node: Node | None, key: str) -> Any:
    """The value of a key; None where a mapping has none, and of any other node."""
    return next((value for name, value in entries(node) if name.text == key), None)


def read_objects(value: Any, where: str = "Problem", depth: int = 1) -> Node:
    """Turn strings, numbers, lists, dicts and SymPy expressions into a tree.

    Args:
        value: As passed to ``piop.Problem``. A SymPy ``Eq`` is an equation.
        where: How messages call the value.
        depth: Levels down to the value.

    Raises:
        SpecError: For an object that a spec cannot hold.
    """
    if depth > MAX_DEPTH:
        raise SpecError(Issue(f"{where}: nested deeper than {MAX_DEPTH} levels"))
    inner = partial(read_objects, depth=depth + 1)
    if isinstance(value, bool):
        return ScalarNode("true" if value else "false")
    if isinstance(value, str):
        return ScalarNode(value, quoted=True)
    if isinstance(value, float):
        return ScalarNode(repr(float(value)))
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise SpecError(Issue(f"{where}: a number too large to be finite"))
    if isinstance(value, (int, PurePath)):
        return ScalarNode(str(value))
    if isinstance(value, (sympy.Basic, sympy.MatrixBase)):
        return ScalarNode(_text(value, where))
    if isinstance(value, collections.abc.Mapping):
        keys = [k if isinstance(k, str) else _text(k, where) for k in value]
        values = [inner(v, f"{where}.{k}") for k, v in value.items()]
        return MappingNode(tuple(zip(map(ScalarNode, keys), values, strict=True)))
    if isinstance(value, (list, tuple)):
        return SequenceNode(tuple(inner(v, f"{where}[{i}]") for i, v in enumerate(value)))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy number
        return inner(value.item(), where)
    raise _unreadable(value, where)


def _unreadable(value: Any, where: str) -> SpecError:
    message = f"{type(value).__name__} cannot be part of a spec; give text, a number or SymPy"
    return SpecError(Issue(f"{where}: {message}"))


def _text(value: Any, where: str) -> str:
    try:
        if isinstance(value, sympy.Equality):
            return f"{_text(value.lhs, where)} = {_text(value.rhs, where)}"
        if isinstance(value, (sympy.Tuple, sympy.MatrixBase)):
            return f"({', '.join(_text(v, where) for v in value)},)"
        if isinstance(value, sympy.FunctionClass):
            return value.__name__
        return write(value)
    except sympy.SympifyError:
        raise _unreadable(value, where) from None
    except (TypeError, AttributeError) as error:
        raise SpecError(Issue(f"{where}: {error}")) from None


class _Refused(yaml.MarkedYAMLError):
    """A construct of YAML that a spec must not use."""


class _Loader(yaml.SafeLoader):
    """Composes nodes; refuses anchors, aliases, tags, merge keys, and what is too deep or large."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = self.count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        self.depth += 1
        self.count += 1
        if isinstance(event, yaml.AliasEvent):
            hint = "an expression that starts with '*' must be quoted"
            message = f"aliases such as '*{event.anchor}' are not allowed; {hint}"
        elif event.anchor is not None:
            message = f"anchors such as '&{event.anchor}' are not allowed"
        elif event.tag is not None:
            message = f"tags such as {event.tag!r} are not allowed"
        elif self.depth > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
        elif self.count > MAX_NODES:
            message = f"more than {MAX_NODES} values"
        else:
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node
        raise _Refused(None, None, message, event.start_mark)


def read_yaml(text: str, file: str) -> Node:
    """Parse the structure of a spec.

    Args:
        text: At most 64 kB.
        file: Its name, for messages.

    Raises:
        SpecError: With the place, for anything that is not one plain YAML document.
    """
    if len(text) > MAX_SIZE:
        message = f"a spec of {len(text)} characters; at most {MAX_SIZE} are allowed"
        raise SpecError(Issue(message, file, 1, 1))
    try:
        node = _Loader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        message = f"the character {chr(error.character)!r} is not allowed"
        raise SpecError(Issue(message, file, line, column)) from None
    except yaml.MarkedYAMLError as error:
        raise SpecError(_issue(error, text, file)) from None
    except (RecursionError, ValueError, IndexError, OverflowError) as error:
        message = f"this is not YAML that can be read ({type(error).__name__})"
        raise SpecError(Issue(message, file, 1, 1)) from None
    if node is None:
        hint = "See 'piop new' for one to start from."
        raise SpecError(Issue("the spec is empty", file, 1, 1, hint))
    return _convert(node, text, file)


def _issue(error: yaml.MarkedYAMLError, text: str, file: str) -> Issue:
    mark: Any = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    rows = text.splitlines()
    row = rows[line - 1] if line <= len(rows) else ""
    hint = ""
    if not isinstance(error, _Refused):
        if "\t" in row[:column]:
            hint = "Indent with spaces, not tabs."
        elif "{" in row or "[" in row:
            hint = "An expression with a comma or ': ' inside {…} or […] must be quoted."
        else:
            hint = "Quote values that start with one of * & ! % @ ` { [ or contain ': '."
    return Issue(error.problem or "this is not YAML", file, line, column, hint)


def _convert(node: yaml.Node, text: str, file: str) -> Node:
    mark: Any = node.start_mark
    place = Place(file, mark.line + 1, mark.column + 1)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, text, place)
    if isinstance(node, yaml.SequenceNode):
        return SequenceNode(tuple(_convert(n, text, file) for n in node.value), place)
    items = []
    seen: dict[str, Place] = {}
    for key, value in node.value:
        name = _convert(key, text, file)
        if not isinstance(name, ScalarNode):
            raise SpecError(Issue("a key must be a plain word", *astuple(name.place)))
        if name.text in seen:
            message = f"'{name.text}' is given twice; first in line {seen[name.text].line}"
            raise SpecError(Issue(message, *astuple(name.place)))
        seen[name.text] = name.place
        items.append((name, _convert(value, text, file)))
    return MappingNode(tuple(items), place)


def _scalar(node: yaml.ScalarNode, text: str, place: Place) -> ScalarNode:
    start: Any = node.start_mark
    end: Any = node.end_mark
    raw = text[start.index : end.index]
    quoted = node.style in ("'", '"')
    if node.style is None and raw.rstrip() == node.value:
        return ScalarNode(node.value, place)
    return ScalarNode(node.value, place, quoted, _align(raw, node.value, node.style, place))


def _align(raw: str, value: str, style: str | None, place: Place) -> tuple[tuple[int, int], ...]:
    """Place of every character of a scalar that is quoted, folded or spread over several lines."""
    row, column, start = place.line, place.column, 0
    spots = []
    for character in raw:
        spots.append((row, column))
        row, column = (row + 1, 1) if character == "\n" else (row, column + 1)
    if style in ("|", ">"):
        start = raw.find("\n") + 1
    elif style in ("'", '"'):
        start = 1
    result, cursor = [], start
    for character in value:
        while cursor < len(raw) and raw[cursor] != character and raw[cursor] in " \t\n":
            cursor += 1
        if cursor < len(raw) and raw[cursor] == character:
            result.append(spots[cursor])
            cursor += 1
        elif character in " \n" and cursor:
            result.append(spots[min(cursor, len(spots)) - 1])
        else:  # an escape sequence: only the start is certain
            result.append((place.line, place.column))
    return tuple(result)
