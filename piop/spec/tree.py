"""What a spec is before its words are understood: nested values that know where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Place:
    """A position in a file; line 0 means there is no text, as for a spec built in Python."""

    file: str = "<python>"
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Scalar:
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
class Mapping:
    """Keys, each with its own place, and values."""

    items: tuple[tuple[Scalar, Node], ...]
    place: Place = field(default_factory=Place, compare=False)


@dataclass(frozen=True)
class Sequence:
    """Values in order."""

    items: tuple[Node, ...]
    place: Place = field(default_factory=Place, compare=False)


Node: TypeAlias = Scalar | Mapping | Sequence
