"""C++ compilers as processes that can be stopped."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import final

from piop.residual.inductor.patches import replaced

GRACE = 2.0
"""Seconds in which a compiler that is told to end removes its unfinished files."""


@final
class CompilerProcesses:
    """The C++ compilers of one graph, each with the processes that it starts in a session.

    Ctrl-C in a terminal reaches all processes of the session that it belongs to. In one of their
    own compilers are not stopped by it while the process that waits for them goes on.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._lock = Lock()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let Inductor run its compilers here in a block."""
        from torch._inductor import cpp_builder

        with replaced(cpp_builder, "run_compile_cmd", self.run):
            yield

    def run(self, cmd_line: str, cwd: str) -> None:
        """Run a compiler to its end.

        Args:
            cmd_line: Its command line, as a shell has it.
            cwd: The folder in which it runs.

        Raises:
            CppCompileError: If it fails, or was stopped.
        """
        from torch._inductor.exc import CppCompileError

        command = shlex.split(cmd_line)
        with self._lock:
            if self._stopped:
                raise CppCompileError(command, "stopped before it began")
            process = subprocess.Popen(  # noqa: S603 - the command is Inductor's own
                command,
                cwd=cwd,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
        try:
            output, _ = process.communicate()
        except BaseException:
            self.stop()
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode:
            raise CppCompileError(command, output.decode(errors="replace"))

    def stop(self) -> None:
        """End all compilers that run, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            _end(process)
        for process in running:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                _end(process, by_force=True)


def _end(process: subprocess.Popen[bytes], by_force: bool = False) -> None:
    """End a process and those that it started; where there are no groups of processes, it alone."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL if by_force else signal.SIGTERM)
        else:
            process.terminate()
