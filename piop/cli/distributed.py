"""A command in several processes: one of them speaks, all end with the same exit code."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout

from piop.training.launch import launched_first

TOGETHER = ("solve", "resume", "data")
"""Commands that share their work; of any other only the first process does something."""

Attempt = Callable[[], tuple[int, BaseException | None]]
Tell = Callable[[BaseException], None]


def run_together(arguments: Sequence[str], attempt: Attempt, tell: Tell) -> int:
    """Run a command as one of several processes.

    Args:
        arguments: Of the command line.
        attempt: Runs the command and gives its exit code and what it raised.
        tell: Tells the user of an error.

    Returns:
        The exit code.
    """
    if not set(TOGETHER) & set(arguments[:1]):
        code, error = attempt() if launched_first() else (0, None)
        if error is not None:
            tell(error)
        return code
    from piop.training.distributed import ProcessGroup, joined

    with joined() as processes, ExitStack() as silence:
        if not processes.leads:
            silence.enter_context(redirect_stdout(io.StringIO()))
            silence.enter_context(redirect_stderr(io.StringIO()))
        code, error = attempt()
        silence.close()
        if error is None:
            return code
        # torchrun ends the others as soon as one has left: all go by themselves, after the message
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tells, code = processes.tell(code) if isinstance(processes, ProcessGroup) else (True, code)
        if tells:
            tell(error)
        return code
