"""Results to stdout, everything else to stderr."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from piop.arguments import LARGEST_SEED, MOST, MOST_THREADS
from piop.json_values import json_value

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


class _Integer(click.IntRange):
    name = "integer"  # what messages call it


COUNT, COUNT_OR_ZERO = _Integer(1, MOST), _Integer(0, MOST)
SEED, THREADS = _Integer(0, LARGEST_SEED), _Integer(1, MOST_THREADS)
PORT = _Integer(1, 65535)
DEVICE = click.Choice(["cpu", "cuda"])


def prepare_output() -> None:
    """Let every symbol be printed on any terminal, and show piop's log on stderr.

    A stream that was closed before the start (``>&-``) is as good as ``/dev/null``, which also
    keeps its number from the next file that is opened.
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 (never closed)
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for file in (sys.stdout, sys.stderr):
        if isinstance(file, io.TextIOWrapper):
            file.reconfigure(errors="replace")
    logger = logging.getLogger("piop")
    logger.handlers = [_Stderr()]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Stderr(logging.Handler):
    """A handler that looks stderr up each time, since a progress bar replaces it while shown."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        line = f"piop: {level}{record.getMessage()}"
        print(styled(line, sys.stderr, fg="yellow") if level else line, file=sys.stderr)


def say(text: str) -> None:
    """Print a message for the user on stderr."""
    print(text, file=sys.stderr, flush=True)


def example(*commands: str) -> str:
    """Return the end of the help of a command: examples of its use, a line each."""
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {command}" for command in commands)])


def has_colours(file: TextIO) -> bool:
    """Whether colours are shown: on a terminal alone, and not where NO_COLOR is set."""
    return is_terminal(file) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, file: TextIO, **style: Any) -> str:
    """Return text with a style of :func:`click.style`, where the file shows colours."""
    return click.style(text, **style) if has_colours(file) else text


def print_results(text: str) -> None:
    """Print results on stdout, warnings among them in yellow where it shows colours."""
    for line in text.splitlines():
        warns = line.startswith("Warning:")
        print(styled(line, sys.stdout, fg="yellow") if warns else line)
    sys.stdout.flush()


def is_terminal(file: TextIO) -> bool:
    """Whether output goes to a terminal; a closed file is none."""
    try:
        return file.isatty()
    except ValueError:
        return False


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return a line per row, the columns aligned to the left but for those in ``right``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def print_json(body: Any) -> None:
    """Print one JSON object on stdout; NaN, which JSON lacks, becomes null."""
    print(json.dumps(json_value(body), indent=2, ensure_ascii=False, allow_nan=False))


def common_options(command: F) -> F:
    """Give a command ``--json`` and ``--debug``; :mod:`piop.cli.failures` reads the second."""
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
    return as_json(debug_option(command))


force_option = click.option("--force", is_flag=True, help="Replace an existing file.")
device_option = click.option("--device", type=DEVICE, help="By default the run's own.")


def debug_option(command: F) -> F:
    """Give a command ``--debug``."""
    help_text = "Show the traceback of an error."
    return click.option("--debug", is_flag=True, expose_value=False, help=help_text)(command)
