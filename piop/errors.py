"""Errors, whose messages give the place, the value, what is allowed and what to do next."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|(com|lpt)\d)(\..*)?\Z|.*[^.][. ]+\Z")
_LONGEST = 100  # characters of a value in a message
_BITS = 1000  # of a whole number, of which Python writes out no more than 4300 digits


class PiopError(Exception):
    """Base of every error that piop raises on purpose; commands print it without a traceback."""

    exit_code = 1


class UsageError(PiopError):
    """A command, argument or file that cannot be used as given. Exit code 2."""

    exit_code = 2


class DataError(UsageError):
    """A data file whose content does not fit: names, shapes, NaN, points outside the domain."""


class DamagedFileError(UsageError):
    """A file of a run folder whose content is not what was written."""


class NotSupportedError(UsageError):
    """Something the spec language knows but this version cannot run yet, and why."""


class SolverError(PiopError):
    """The reference solver failed: it met NaN, or cannot reach the stated tolerance."""


class TrainingError(PiopError):
    """Training failed: the loss is not finite, or a checkpoint does not fit."""


class ExportError(PiopError):
    """An exported graph that does not give the predictions of its run."""


class OutOfMemory(PiopError):
    """Memory ran out; the message says which setting to lower, and by how much."""


@contextmanager
def noting_interrupt(kept: Callable[[], str]) -> Iterator[None]:
    """Note on an interrupt of a block what is kept and how to go on, where nothing is noted yet.

    Args:
        kept: Says so; called when the interrupt has left the block. Empty where nothing is kept.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if not hasattr(error, "__notes__") and (text := kept()):
            error.add_note(text)
        raise


@dataclass(frozen=True)
class Place:
    """A position in a file; line 0 means there is no text, as for a spec built in Python."""

    file: str = "<python>"
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Issue:
    """One thing wrong with a spec.

    Attributes:
        message: What is wrong, with the offending value and what is allowed.
        file: Path of the spec, or ``"<python>"`` for a spec built in Python.
        line: 1-based line, or 0 where there is no text.
        column: 1-based column, or 0 where there is no text.
        hint: What to do next, such as ``"Did you mean 'periodic'?"``; may be empty.
    """

    message: str
    file: str = "<python>"
    line: int = 0
    column: int = 0
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{place}: {self.message}" + (f"{stop} {self.hint}" if self.hint else "")


class SpecError(PiopError):
    """A spec that cannot be used; holds every issue found, in the order of the file.

    Args:
        issues: At least one issue.
    """

    exit_code = 2

    def __init__(self, issues: tuple[Issue, ...] | Issue) -> None:
        self.issues = issues if isinstance(issues, tuple) else (issues,)
        super().__init__("\n".join(map(str, self.issues)))


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Propose the nearest known name for a message, or nothing where none is near.

    Args:
        name: An unknown name.
        known: The names there are.
        cutoff: Similarity, up to 1, below which a name is not proposed.

    Example:
        >>> did_you_mean("perodic", ["periodic", "dirichlet"])
        "Did you mean 'periodic'?"
    """
    near = difflib.get_close_matches(name, known, 1, cutoff)
    return f"Did you mean '{near[0]}'?" if near else ""


def check_file_name(name: str) -> None:
    """Refuse the name of a file or folder that Windows keeps for devices, or changes.

    Raises:
        UsageError: Naming it.
    """
    if _RESERVED.match(name):
        raise UsageError(
            f"{excerpt(name)}: Windows has no files of this name; it must not be one of CON, PRN, "
            "AUX, NUL, COM1 … and LPT1 …, with any ending, and not end with a dot or space"
        )


def check_path(path: Path, argument: str = "") -> None:
    """Refuse a path that the system cannot look up, such as one that is too long.

    Args:
        path: The path.
        argument: Name of the argument that gives it, for the message.

    Raises:
        UsageError: Naming it and the reason.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:  # ValueError: a character that no path has
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{argument and f'{argument}: '}{excerpt(str(path))}: cannot be used as a path "
            f"({reason}); give another"
        ) from None


def excerpt(value: object) -> str:
    """Show a value that was refused, as Python writes it, without the middle where it is long.

    Example:
        >>> excerpt("a" * 1000)
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    if isinstance(value, int) and value.bit_length() > _BITS:  # Python may refuse to write it
        return "an integer of more than 300 digits"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:30]}...{text[-30:]}"
