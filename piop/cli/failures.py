"""Every way a command can end badly: a message for people, an exit code for scripts."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from piop.cli.console import prepare_streams, print_json
from piop.errors import PiopError, SpecError

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def guarded(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, turn whatever it raises into a message on stderr, and give the exit code.

    A traceback is shown with ``--debug`` only. With ``--json`` the error is also one JSON object on
    stdout.
    """
    prepare_streams()
    debug, as_json = "--debug" in arguments, "--json" in arguments
    try:
        code = command.main(args=list(arguments), prog_name="piop", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        _detach_stdout()  # the reader, such as head, has had enough
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("piop: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _report(error, as_json, debug)


def _report(error: Exception, as_json: bool, debug: bool) -> int:
    code = error.exit_code if isinstance(error, PiopError) else 1
    if isinstance(error, SpecError):
        print(error, file=sys.stderr)
    elif isinstance(error, PiopError):
        print(f"piop: {error}", file=sys.stderr)
    elif isinstance(error, OSError):
        print(f"piop: {_system_text(error)}", file=sys.stderr)
    elif isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        text = "out of memory: use fewer functions or queries (--set functions=8 --set queries=128)"
        print(f"piop: {text}", file=sys.stderr)
    else:
        text = f"unexpected {type(error).__name__}: {error}"
        advice = "This is a bug in piop. Please report it with the command and its traceback"
        how = "" if debug else ", which --debug shows"
        print(f"piop: {text}\n{advice}{how}.", file=sys.stderr)
    if as_json:
        _try_json(_as_json(error, code))
    if isinstance(error, OSError):
        _drop_unwritten_stdout()
    return code


def _as_json(error: Exception, code: int) -> dict[str, Any]:
    body: dict[str, Any] = {"type": type(error).__name__, "message": str(error), "exit_code": code}
    if isinstance(error, SpecError):
        body["issues"] = [
            {
                "file": i.file,
                "line": i.line,
                "column": i.column,
                "message": i.message,
                "hint": i.hint,
            }
            for i in error.issues
        ]
    return {"error": body}


def _try_json(body: dict[str, Any]) -> None:
    try:
        print_json(body)
        sys.stdout.flush()
    except OSError:  # stdout itself is what failed
        _detach_stdout()


def _system_text(error: OSError) -> str:
    """Say which file and what; the operating system knows no more."""
    name = error.filename if error.filename is not None else "output"
    return f"{name}: {error.strerror or error}"


def _drop_unwritten_stdout() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _detach_stdout()


def _detach_stdout() -> None:
    """Point stdout nowhere, so that Python does not fail again when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
