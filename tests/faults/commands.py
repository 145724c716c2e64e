"""Commands in processes of their own, forked from one that has imported everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = """
import json, os, sys
import matplotlib
matplotlib.use("Agg")
os.fsync = lambda _: None  # what a process has written outlives it, if not the machine
import piop.generation, piop.report, piop.run
piop.report.draw_run = lambda *_, **__: []  # seconds of processor time, from what is compared here
from piop.cli import cli
from piop.cli.failures import run_command
for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
    else:
        answer = os.fork()
        if not answer:
            log = os.open(request["log"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            code = run_command(cli, request["arguments"])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(json.dumps(answer), flush=True)
"""


@dataclass
class Command:
    """A command that runs.

    Attributes:
        pid: Its process.
        log: What it prints.
        commands: Where it was started.
        began: When, by the monotonic clock.
    """

    pid: int
    log: Path
    commands: Commands
    began: float

    def sleep_until(self, seconds: float) -> None:
        """Wait until so long after its start."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    def kill_after(self, seconds: float) -> None:
        """Kill it, with no chance to clean up, so long after its start."""
        self.sleep_until(seconds)
        os.kill(self.pid, signal.SIGKILL)  # nobody else has its number until it is waited for

    def wait(self) -> tuple[int, str]:
        """Give its exit code and what it printed."""
        return self.commands.ask({"wait": self.pid}), self.log.read_text(errors="replace")


class Commands:
    """Starts commands of piop in milliseconds.

    Args:
        folder: Where their output goes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()

    def ask(self, request: dict[str, Any]) -> int:
        """Send a request to the server and take its answer."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def start(self, *arguments: object) -> Command:
        """Start a command."""
        self.count += 1
        log = self.folder / f"{self.count}.log"
        request = {"arguments": [str(a) for a in arguments], "log": str(log)}
        return Command(self.ask(request), log, self, time.monotonic())

    def run(self, *arguments: object) -> float:
        """Run a command that must succeed; give the seconds that it took."""
        started = self.start(*arguments)
        code, text = started.wait()
        assert code == 0, text
        return time.monotonic() - started.began
