"""Every way a command can end badly: a message for people, an exit code for scripts."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from piop.cli.console import prepare_streams, print_json
from piop.cli.distributed import run_together
from piop.errors import PiopError, SpecError
from piop.training.launch import launched_together

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def guarded(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, turn whatever it raises into a message on stderr, and give the exit code.

    A traceback is shown with ``--debug`` only. With ``--json`` the error is also one JSON object on
    stdout.
    """
    prepare_streams()
    debug, as_json = "--debug" in arguments, "--json" in arguments

    def attempt() -> tuple[int, BaseException | None]:
        return _attempt(command, arguments)

    def tell(error: BaseException) -> None:
        _tell(error, as_json, debug)

    try:
        if launched_together():
            return run_together(arguments, attempt, tell)
        code, error = attempt()
    except PiopError as reason:  # the other processes cannot be reached
        code, error = reason.exit_code, reason
    if error is not None:
        tell(error)
    return code


def _attempt(command: click.Command, arguments: Sequence[str]) -> tuple[int, BaseException | None]:
    """Run a command: its exit code, and what it raised."""
    try:
        code = command.main(args=list(arguments), prog_name="piop", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _detach_stdout()  # the reader, such as head, has had enough
        return 1, None
    except click.ClickException as error:
        return error.exit_code, error
    except (click.Abort, KeyboardInterrupt) as error:
        return INTERRUPTED, error
    except Exception as error:
        return (error.exit_code if isinstance(error, PiopError) else 1), error
    return (code if isinstance(code, int) else 0), None


def _tell(error: BaseException, as_json: bool, debug: bool) -> None:
    if isinstance(error, click.ClickException):
        error.show()
    elif isinstance(error, Exception) and not isinstance(error, click.Abort):
        if debug:
            traceback.print_exception(error)
        _report(error, as_json, debug)
    else:
        print("piop: interrupted", file=sys.stderr)


def _report(error: Exception, as_json: bool, debug: bool) -> None:
    code = error.exit_code if isinstance(error, PiopError) else 1
    if isinstance(error, SpecError):
        print(error, file=sys.stderr)
    elif isinstance(error, PiopError):
        print(f"piop: {error}", file=sys.stderr)
    elif isinstance(error, OSError):
        print(f"piop: {_system_text(error)}", file=sys.stderr)
    elif _is_out_of_memory(error):
        text = (
            "out of memory: use fewer functions or queries (--set functions=8 --set queries=128), "
            "or fewer samples at a time"
        )
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


def _is_out_of_memory(error: Exception) -> bool:
    """Tell it without torch, which not every command loads."""
    name = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or name or "can't allocate memory" in str(error)


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
