"""Errors of commands as messages and exit codes, also in several processes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, final

import click

from piop.cli.console import prepare_output, print_json, styled
from piop.errors import PiopError, SpecError
from piop.training.torchrun import launched_first, launched_together

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
DISTRIBUTED = ("solve", "resume", "data")
"""Commands whose work several processes share; only the first process runs any other command."""
OUT_OF_MEMORY = (
    "out of memory: use fewer functions or queries (--set functions=8 --set queries=128), "
    "or fewer samples at a time"
)


@final
@dataclass(frozen=True)
class Failure:
    """The end of a command that failed.

    Attributes:
        code: Exit code.
        error: The exception.
        text: Message for people, written to stderr.
        details: Further entries of the JSON object; None where there is no such object.
        advice: Lines after the message, given whether a traceback was shown.
    """

    code: int
    error: BaseException
    text: str
    details: Mapping[str, Any] | None = field(default_factory=dict)
    advice: Callable[[bool], str] = lambda _: ""

    def report(self, as_json: bool, debug: bool) -> None:
        """Write the message, and with ``--json`` the error as one JSON object to stdout."""
        if debug and self.details is not None:
            traceback.print_exception(self.error)
        print(styled(self.text, sys.stderr, fg="red") + self.advice(debug), file=sys.stderr)
        try:
            if as_json and self.details is not None:
                kind, message = type(self.error).__name__, str(self.error)
                body = {"type": kind, "message": message, "exit_code": self.code, **self.details}
                print_json({"error": body})
            sys.stdout.flush()
        except OSError:  # stdout itself is what failed
            _detach_stdout()


Outcome = tuple[int, Failure | None]
"""Exit code, and what went wrong."""


def run_command(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, report whatever it raises on stderr, and return the exit code.

    A traceback is shown with ``--debug`` only. With ``--json`` the error is also one JSON object on
    stdout.
    """
    prepare_output()
    debug, as_json = "--debug" in arguments, "--json" in arguments
    attempt = partial(_attempt, command, arguments)

    def report(failure: Failure) -> None:
        failure.report(as_json, debug)

    try:
        with interrupting_on_termination():
            if launched_together():
                return run_distributed(arguments, attempt, report)
            code, failure = attempt()
    except PiopError as error:  # the other processes cannot be reached
        code, failure = error.exit_code, Failure(error.exit_code, error, f"piop: {error}")
    if failure is not None:
        report(failure)
    return code


@contextmanager
def interrupting_on_termination() -> Iterator[None]:
    """Let SIGTERM, by which schedulers end a job, do what Ctrl-C does: training saves first.

    Shells start commands in the background with Ctrl-C ignored, which is not to hold for SIGTERM.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_distributed(
    arguments: Sequence[str],
    attempt: Callable[[], Outcome],
    report: Callable[[Failure], None],
) -> int:
    """Run a command as one of several processes, which all end with the same exit code.

    Args:
        arguments: Arguments of the command line.
        attempt: Runs the command.
        report: Reports a failure to the user.

    Returns:
        The exit code.
    """
    if not set(DISTRIBUTED) & set(arguments[:1]):
        code, failure = attempt() if launched_first() else (0, None)
        if failure is not None:
            report(failure)
        return code
    from piop.training.distributed import joined

    with joined() as processes, ExitStack() as silence:
        if not processes.leads:
            silence.enter_context(redirect_stdout(io.StringIO()))
            silence.enter_context(redirect_stderr(io.StringIO()))
        code, failure = attempt()
        silence.close()
        if failure is None:
            return code
        # torchrun ends the others as soon as one has left: all leave after the report
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        reports, code = processes.tell(code)
        if reports:
            report(failure)
        return code


def _attempt(command: click.Command, arguments: Sequence[str]) -> Outcome:
    """Run a command: its exit code, and how it failed."""
    try:
        code = command.main(args=list(arguments), prog_name="piop", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _detach_stdout()  # the reader, such as head, has had enough
        return 1, None
    except (Exception, KeyboardInterrupt) as error:
        failure = _failure(error)
        return failure.code, failure
    return code or 0, None


def _failure(error: BaseException) -> Failure:
    """Describe an error by its kind."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            notes = getattr(error.__cause__ or error, "__notes__", ["nothing was written"])
            return Failure(INTERRUPTED, error, f"piop: interrupted; {notes[0]}", None)
        case click.ClickException():
            shown = io.StringIO()
            error.show(shown)
            return Failure(error.exit_code, error, shown.getvalue().rstrip("\n"), None)
        case SpecError():
            issues = [vars(issue) for issue in error.issues]
            return Failure(error.exit_code, error, str(error), {"issues": issues})
        case PiopError():
            return Failure(error.exit_code, error, f"piop: {error}")
        case OSError():  # the operating system gives no more than the file and the reason
            name = error.filename if error.filename is not None else "output"
            return Failure(1, error, f"piop: {name}: {error.strerror or error}")
    # torch's error is recognised without importing torch, which not every command needs
    torch_says = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    if torch_says or isinstance(error, MemoryError):
        return Failure(1, error, f"piop: {OUT_OF_MEMORY}")
    text = f"piop: unexpected {type(error).__name__}: {error}"
    return Failure(1, error, text, advice=_bug_advice)


def _bug_advice(debug: bool) -> str:
    how = "" if debug else ", which --debug shows"
    return f"\nThis is a bug in piop. Please report it with the command and its traceback{how}."


def _detach_stdout() -> None:
    """Redirect stdout to nowhere, so that Python does not fail again when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
