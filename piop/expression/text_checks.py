"""Limits on the text of a formula, checked before it is parsed."""

from __future__ import annotations

import re

MAX_LENGTH = 2000  # characters
MAX_DEPTH = 40  # brackets, and levels of the tree
MAX_NODES = 500  # operations and operands
MAX_EXPONENT = 16
MAX_DEGREE = 32  # total degree in everything that is not a number
MAX_TERMS = 2000  # terms after expansion
MAX_ORDER = 8  # of a derivative
MAX_NESTING = 5  # functions inside of functions; SymPy asks of each whether it is real, or zero

_IMPLICIT = re.compile(
    r"(?<![\w.])((?>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[ \t\n]*([A-Za-z_(][\w]*)"
)
_FOREIGN_NUMBER = re.compile(r"(?<![\w.])(?:0[xXoObB]\w+|\d[\d_.]*_\d\w*|[\d.]+[jJ](?!\w))")
"""Hexadecimal, octal, binary, grouped and imaginary numbers of Python."""
_JUXTAPOSED = re.compile(r"\)[ \t\n]*([A-Za-z_(\d][\w]*)")
_UNARY = re.compile(r"(?:[-+~!][ \t\n]*){12,}")


class Refusal(Exception):
    """A formula that cannot be used.

    Attributes:
        message: What is wrong.
        offset: 0-based place of it in the text.
        hint: What to write instead; may be empty.
        placed: Whether the offset is final, not that of whatever encloses the part.
        declared: Whether the part is a name that is declared, and so no unit.
    """

    def __init__(
        self,
        message: str,
        offset: int = 0,
        hint: str = "",
        placed: bool = False,
        declared: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.offset, self.hint, self.placed = message, offset, hint, placed
        self.declared = declared


def check_text(text: str) -> None:
    """Refuse text that is too long, not ASCII, too deeply bracketed, or in another notation.

    Raises:
        Refusal: With the offset of the first character that is refused.
    """
    if len(text) > MAX_LENGTH:
        raise Refusal(
            f"an expression of {len(text)} characters; at most {MAX_LENGTH} are allowed",
            0,
            "Name parts of it under 'definitions'.",
        )
    for offset, character in enumerate(text):
        if not (character.isascii() and (character.isprintable() or character in "\n\t")):
            raise Refusal(f"{character!r} is not allowed; expressions are ASCII", offset)
    if not text.strip():
        raise Refusal("an empty expression", 0)
    _check_brackets(text)
    if match := _UNARY.search(text):
        raise Refusal("too many signs in a row", match.start())
    if text.count("**") > MAX_DEPTH:
        raise Refusal(f"more than {MAX_DEPTH} powers", text.index("**"))
    _check_notation(text)


def _check_brackets(text: str) -> None:
    stack: list[int] = []
    for offset, character in enumerate(text):
        if character == "(":
            stack.append(offset)
            if len(stack) > MAX_DEPTH:
                raise Refusal(f"brackets nested deeper than {MAX_DEPTH}", offset)
        elif character == ")":
            if not stack:
                raise Refusal("')' closes nothing", offset, _comma_hint(text))
            stack.pop()
        elif character in "[]{}":
            raise Refusal(f"{character!r} is not allowed; group with parentheses", offset)
    if stack:
        raise Refusal("'(' is never closed", stack[-1], _comma_hint(text))


def _comma_hint(text: str) -> str:
    """A bracket that YAML cut off: no comma is left in the text."""
    return "" if "," in text else "In {…} of YAML an expression with a comma must be quoted."


def _check_notation(text: str) -> None:
    if "^" in text:
        raise Refusal("'^' is not a power here", text.index("^"), "Write '**'.")
    if "#" in text:  # the parser of Python would take the rest for a comment
        raise Refusal("'#' is not allowed", text.index("#"), "Write comments outside of quotes.")
    if match := _FOREIGN_NUMBER.search(text):
        raise Refusal(
            f"{match.group(0)!r} is not a number here",
            match.start(),
            "Write decimal digits alone, such as 1000 or 1e3.",
        )
    if match := _IMPLICIT.search(text):
        factor, rest = match.group(1), match.group(2)
        raise Refusal(
            f"{match.group(0)!r} is not a number or a product",
            match.start(),
            f"Write '{factor}*{rest}'.",
        )
    if match := _JUXTAPOSED.search(text):
        raise Refusal(
            "an operator is missing after ')'", match.start(), f"Write ')*{match.group(1)}'."
        )
