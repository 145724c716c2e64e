"""Reads typed values out of a tree, collecting every issue instead of stopping at the first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from piop.errors import Issue, Place, SpecError, UsageError, check_file_name, did_you_mean
from piop.expression import Quantity, Refusal, Scope, as_number, parse
from piop.spec.model import issue_at
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode
from piop.spec.units import split_unit

T = TypeVar("T")
EXAMPLES = {
    "time": "{t: [0, 1]}",
    "space": "{x: [0, 1]}",
    "parameters": "{nu: 0.1}",
    "inputs": "{a: {law: uniform, low: 0, high: 1}}",
    "definitions": "{flux: -nu*dx(u)}",
    "initial": "{u: u0}",
    "boundary": "{x: periodic}",
    "sensors": "{u0: {count: 64}}",
    "save": "{t: 51, x: 64}",
    "units": "{x: m, t: s}",
    "solve": "{backbone: pit}",
}
"""Section → how one is written."""
FARTHEST = 1e50  # a coordinate: its powers up to the order of an equation are numbers
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
NAME_HINT = "A name is a letter, then letters, digits or _, 64 in all at most."
_LABEL = re.compile(r"\w([\w .,+()'-]{0,98}[\w)])?\Z")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z")


class Bad(Exception):
    """A value that was refused; its issue is already recorded."""


def refuse(issues: list[Issue], place: Place, message: str, hint: str = "") -> None:
    """Record an issue."""
    issues.append(issue_at(place, message, hint))


def evaluate(text: ScalarNode, scope: Scope, issues: list[Issue], path: str) -> Quantity | None:
    """Parse one text, recording what is wrong with it."""
    try:
        return parse(text.text, scope)
    except Refusal as refusal:
        record(refusal, text, issues, path)
        return None


def record(refusal: Refusal, text: ScalarNode, issues: list[Issue], path: str) -> None:
    """Turn a refusal into an issue at its place in the file."""
    if refusal.message and not refusal.declared and (parts := split_unit(text.text)):
        number, unit = parts
        hint = f"Write {number} here, and {unit} under 'units' beside the name it belongs to."
        refuse(issues, text.place, f"{path}: numbers and parameters take no unit", hint)
    elif refusal.message:
        refuse(issues, text.at(refusal.offset), f"{path}: {refusal.message}", refusal.hint)


class Reader:
    """Cursor over a tree.

    Attributes:
        issues: What was found wrong so far.
        places: Dotted path of every key read.
        folder: Folder that files must lie in; None allows any.
        constants: Scope in which numbers such as ``2*pi`` or ``L/2`` are read.
        dimensions: Number of axes of space, once they are read.
    """

    def __init__(self, issues: list[Issue], folder: Path | None) -> None:
        self.issues, self.folder, self.dimensions = issues, folder, 0
        self.places: dict[str, Place] = {}
        self.constants = Scope({})

    def fail(self, place: Place, message: str, hint: str = "") -> Bad:
        """Record an issue and give the exception to raise (or not)."""
        refuse(self.issues, place, message, hint)
        return Bad(message)

    def mapping(self, node: Node, path: str) -> list[tuple[str, Node, Place]]:
        """The entries of a mapping as (key, value, place of the key)."""
        if not isinstance(node, MappingNode):
            message = f"{path}: {shown(node)} where 'key: value' pairs are needed"
            example = EXAMPLES.get(path, "")
            raise self.fail(node.place, message, example and f"Such as {path}: {example}.")
        _refuse_split_expression(self, node, path)
        self.places.setdefault(path, node.place)
        self.places |= {f"{path}.{k.text}" if path else k.text: k.place for k, _ in node.items}
        return [(key.text, value, key.place) for key, value in node.items]

    def keys(self, node: Node, path: str, allowed: Iterable[str]) -> dict[str, Node]:
        """The entries of a mapping all of whose keys must be known."""
        allowed = list(allowed)
        found = {}
        for key, value, place in self.mapping(node, path):
            if key in allowed:
                found[key] = value
            else:
                hint = did_you_mean(key, allowed) or f"One of {', '.join(allowed)}."
                where = f"{path}: " if path else ""
                self.fail(place, f"{where}'{key}' is not a key that is known here", hint)
        return found

    def entries(
        self, node: Node, section: str, read: Callable[..., T], declares: bool = False
    ) -> dict[str, T]:
        """The entries of a mapping, those that are refused left out.

        Args:
            node: The mapping.
            section: Where it stands.
            read: Takes the reader, a value and its path.
            declares: Whether the keys are names that are declared.
        """
        found = {}
        for key, value, place in self.mapping(node, section):
            with suppress(Bad):
                if declares:
                    self.name(ScalarNode(key, place), section)
                found[key] = read(self, value, f"{section}.{key}")
        return found

    def record(
        self,
        node: Node,
        path: str,
        readers: Mapping[str, Callable[..., Any]],
        required: Sequence[str] = (),
        lacks: str = "'{}' is missing",
        hint: str = "",
    ) -> dict[str, Any]:
        """The values of a mapping whose keys are known, each by its own reader.

        Args:
            node: The mapping.
            path: Where it stands.
            readers: Key → what takes the reader, a value and its path.
            required: Keys that must be there.
            lacks: What a mapping without them does wrong, with a place for their names.
            hint: What to do then.
        """
        found = self.keys(node, path, readers)
        values = {}
        for key, value in found.items():
            with suppress(Bad):
                values[key] = readers[key](self, value, f"{path}.{key}")
        if missing := ", ".join(key for key in required if key not in found):
            raise self.fail(node.place, f"{path}: {lacks.format(missing)}", hint)
        if len(values) < len(found):
            raise Bad
        return values

    def several(self, node: Node, path: str, read: Callable[..., T]) -> tuple[T, ...]:
        """The elements of a list, or a single value, each by ``read``."""
        nodes = node.items if isinstance(node, SequenceNode) else (node,)
        return tuple(read(self, item, path) for item in nodes)

    def items(self, node: Node, path: str) -> tuple[Node, ...]:
        """The elements of a list."""
        if not isinstance(node, SequenceNode):
            raise self.fail(node.place, f"{path}: {shown(node)} where a list is needed")
        return node.items

    def text(self, node: Node, path: str) -> ScalarNode:
        """A single value that is not empty."""
        if isinstance(node, SequenceNode) and any(isinstance(n, ScalarNode) for n in node.items):
            hint = "'- -a' is a nested list in YAML; quote an expression that starts with '- '."
            raise self.fail(node.place, f"{path}: a list where one value is needed", hint)
        if not isinstance(node, ScalarNode):
            _refuse_split_expression(self, node, path)
            hint = "A value that contains ': ' must be quoted." * isinstance(node, MappingNode)
            raise self.fail(node.place, f"{path}: {shown(node)} where one value is needed", hint)
        if not node.text.strip() or (not node.quoted and node.text in ("~", "null")):
            raise self.fail(node.place, f"{path}: a value is missing")
        return node

    def word(self, node: Node, path: str, allowed: Iterable[str]) -> str:
        """One of a few words."""
        allowed = list(allowed)
        scalar = self.text(node, path)
        if scalar.text not in allowed:
            hint = did_you_mean(scalar.text, allowed)
            message = f"{path}: '{scalar.text}' is not one of {', '.join(allowed)}."
            raise self.fail(scalar.place, message, hint)
        return scalar.text

    def name(self, scalar: ScalarNode, path: str) -> None:
        """Refuse a name that cannot be declared."""
        if not NAME.match(scalar.text):
            message = f"{path}: '{shortened(scalar.text)}' is not a name"
            raise self.fail(scalar.place, message, NAME_HINT)

    def label(self, node: Node, path: str) -> str:
        """The name of the problem, after which run folders are called."""
        scalar = self.text(node, path)
        if not _LABEL.match(scalar.text):
            message = f"{path}: '{shortened(scalar.text)}' is not a name"
            hint = (
                "It begins with a letter or digit, ends with one or ')', has _ . , + - ( ) ' and "
                "spaces in between, and 100 characters at most: run folders are called after it."
            )
            raise self.fail(scalar.place, message, hint)
        try:
            check_file_name(scalar.text)
        except UsageError as error:
            raise self.fail(scalar.place, f"{path}: {error}") from None
        return scalar.text

    def boolean(self, node: Node, path: str) -> bool:
        """``true`` or ``false``, and no other spelling."""
        scalar = self.text(node, path)
        if scalar.boolean is None:
            message = f"{path}: '{shortened(scalar.text)}' is neither true nor false"
            raise self.fail(scalar.place, message, "Write true or false.")
        return scalar.boolean

    def number(self, node: Node, path: str) -> float:
        """A number, or an expression of numbers, ``pi`` and constant parameters."""
        scalar = self.text(node, path)
        try:
            return as_number(parse(scalar.text, self.constants))
        except Refusal as refusal:
            record(refusal, scalar, self.issues, path)
            raise Bad from None

    def coordinate(self, node: Node, path: str) -> float:
        """A position or a length."""
        value = self.number(node, path)
        if abs(value) > FARTHEST:
            message = f"{path}: {value:g} is too far from zero; at most {FARTHEST:g} is possible"
            raise self.fail(node.place, message, "Choose larger units.")
        return value

    def integer(self, node: Node, path: str, least: int = 0, most: int = 10**9) -> int:
        """A whole number within bounds."""
        value = self.number(node, path)
        if value != int(value) or not least <= value <= most:
            message = f"{path}: {value:g} is not a whole number from {least} to {most}"
            raise self.fail(node.place, message)
        return int(value)

    def interval(
        self, node: Node, path: str, read: Callable[..., float] = number
    ) -> tuple[float, float]:
        """``[low, high]`` with low ≤ high, each by ``read``."""
        items = self.items(node, path)
        if len(items) != 2:
            message = f"{path}: [low, high] needs two numbers; {len(items)} given"
            raise self.fail(node.place, message)
        low, high = (read(self, item, path) for item in items)
        if low > high:
            raise self.fail(node.place, f"{path}: low {low:g} is above high {high:g}")
        return low, high


def raise_issues(issues: list[Issue]) -> None:
    """Raise every distinct issue, sorted by place, unless there is none.

    Raises:
        SpecError: If there is any.
    """
    if issues:
        unique = dict.fromkeys(sorted(issues, key=lambda i: (i.line, i.column)))
        raise SpecError(tuple(unique))


def is_number(scalar: ScalarNode) -> bool:
    """Whether an unquoted value reads as a number."""
    return not scalar.quoted and bool(_NUMBER.match(scalar.text))


def shown(node: Node) -> str:
    """How messages call a value."""
    if isinstance(node, ScalarNode):
        return f"'{shortened(node.text)}'" if node.text else "nothing"
    return "a list" if isinstance(node, SequenceNode) else "a mapping"


def shortened(text: str) -> str:
    """Cut a text that is quoted in a message."""
    return text if len(text) <= 40 else text[:37] + "..."


def _refuse_split_expression(reader: Reader, node: Node, path: str) -> None:
    """Recognise an unquoted comma: ``{v: (a, -b)}`` loads as the keys ``v`` and ``-b)``."""
    for key, value in node.items if isinstance(node, MappingNode) else ():
        empty = isinstance(value, ScalarNode) and not value.text and not value.quoted
        if empty and (")" in key.text or not NAME.match(key.text)):
            hint = "An expression with a comma inside {…} must be quoted."
            message = f"{path}: '{shortened(key.text)}' is half of an expression"
            raise reader.fail(key.place, message, hint)
