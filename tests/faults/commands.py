"""Commands in processes of their own, forked from one that has imported everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

SERVER = """
import ctypes, json, os, resource, sys
import matplotlib
matplotlib.use("Agg")
os.fsync = lambda _: None  # what a process has written outlives it, if not the machine
import piop.generation, piop.report, piop.run
piop.report.draw_run = lambda *_, **__: []  # seconds of processor time, from what is compared here
from piop.cli import cli
from piop.cli.failures import run_command
begin, main, outputs = os.pipe(), cli.main, {}
def begun(**options):
    os.write(begin[1], b".")
    return main(**options)
cli.main = begun
for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        code = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        with os.fdopen(outputs.pop(request["wait"]), errors="replace") as output:
            answer = code, output.read()
    else:
        output, end = os.pipe()  # which no limit on files concerns, and holds 64 kB
        answer = os.fork()
        if not answer:
            sys.stdout, sys.stderr = (open(os.dup2(end, number), "w") for number in (1, 2))
            no_capability = (ctypes.c_uint32 * 6)()  # permissions hold for root too
            ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), no_capability)
            if request["largest"] is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"],) * 2)
            code = run_command(cli, request["arguments"])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        os.close(end)
        outputs[answer] = output
        os.read(begin[0], 1)
    print(json.dumps(answer), flush=True)
"""


@dataclass
class Command:
    """A command that runs.

    Attributes:
        pid: Its process.
        commands: Where it was started.
        began: When, by the monotonic clock.
    """

    pid: int
    commands: Commands
    began: float

    def sleep_until(self, seconds: float) -> None:
        """Wait until so long after its start."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    def end_after(self, seconds: float, by: signal.Signals) -> None:
        """Send a signal so long after its start."""
        self.sleep_until(seconds)
        os.kill(self.pid, by)  # nobody else has its number until it is waited for

    def wait(self) -> tuple[int, str]:
        """Give its exit code and what it printed."""
        code, text = self.commands.ask({"wait": self.pid})
        return code, text


class Commands:
    """Starts commands of piop in milliseconds."""

    def __init__(self) -> None:
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

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request to the server and take its answer."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def start(self, *arguments: object, largest: int | None = None) -> Command:
        """Start a command.

        Args:
            arguments: Of the command line.
            largest: Bytes that a file may have, beyond which the system refuses to write.
        """
        pid = self.ask({"arguments": [str(a) for a in arguments], "largest": largest})
        return Command(pid, self, time.monotonic())

    def run(self, *arguments: object) -> float:
        """Run a command that must succeed; give the seconds that it took."""
        started = self.start(*arguments)
        code, text = started.wait()
        assert code == 0, text
        return time.monotonic() - started.began
