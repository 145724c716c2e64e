"""Compiled training in processes of its own: what they share, and how Ctrl-C ends them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

SETTINGS = ["functions=2", "queries=16", "blocks=1", "width=16", "heads=2"]
SMALL = ["--device", "cpu", "--threads", 1, *(word for s in SETTINGS for word in ("--set", s))]
COMPILER = """#!/bin/sh
case "$*" in
*.cpp*) echo $$ >> "{log}"; {action};;
esac
exec g++ "$@"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="the compiler is wrapped in a script"),
]


class Compiler:
    """A C++ compiler that notes which of its processes compile, after an action in the shell."""

    def __init__(self, folder) -> None:
        self.path, self.log, self.cache = folder / "g++", folder / "log", folder / "cache"
        self.does("true")
        self.log.touch()

    def does(self, action: str) -> None:
        """Replace the action."""
        self.path.write_text(COMPILER.format(log=self.log, action=action))
        self.path.chmod(0o755)

    def started(self) -> list[int]:
        """Return the processes that compiled so far."""
        return [int(line) for line in self.log.read_text().split()]

    def entries(self) -> int:
        """Return the number of graphs in the cache."""
        return len(list((self.cache / "fxgraph").glob("*/*")))

    def run(self, *arguments, **environment) -> subprocess.Popen:
        """Start a command of piop."""
        own = {"CXX": str(self.path), "TORCHINDUCTOR_CACHE_DIR": str(self.cache)}
        return subprocess.Popen(
            [sys.executable, "-m", "piop", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **own, **environment},
        )


@pytest.fixture
def compiler(tmp_path):
    return Compiler(tmp_path)


def finish(process):
    """Wait for a command; return what it wrote to stderr."""
    _, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    return err


def losses(run):
    return [json.loads(row)["loss"] for row in (run / "metrics.jsonl").read_text().splitlines()]


def test_another_seed_loads_the_compiled_step_and_starts_no_compiler(compiler, tmp_path):
    def solve(name, *arguments, **environment):
        options = ["--compile", "--steps", 4, "--samples", 2, *SMALL, *arguments]
        finish(compiler.run("solve", "heat", "--out", tmp_path / name, *options, **environment))
        return losses(tmp_path / name), len(compiler.started()), compiler.entries()

    first, compiled, graphs = solve("first")
    assert compiled
    assert graphs == 1
    again, after, same = solve("again")
    assert (again, after, same) == (first, compiled, graphs)
    other, after, same = solve("other", "--seed", 1)
    assert (after, same) == (compiled, graphs)
    assert other != first
    # without vector instructions: another graph in the cache, the same numbers up to rounding,
    # which the optimiser magnifies later (1e-7 at the second step, 1e-2 at the third)
    scalar, after, more = solve("scalar", ATEN_CPU_CAPABILITY="default")
    assert after > compiled
    assert more > graphs
    assert scalar[:2] == pytest.approx(first[:2], rel=1e-4)


def test_ctrl_c_ends_compiling_and_the_run_goes_on(compiler, tmp_path):
    run = tmp_path / "run"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        compiler.does("sleep 600")
        process = compiler.run("solve", "heat", "--compile", "--steps", 4, "--out", run, *SMALL)
    finally:
        signal.signal(signal.SIGINT, before)
    while not compiler.started():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)  # not the 600 s of the compiler
    assert process.returncode == 130, err
    assert err.strip().endswith(f"Continue with: piop resume {run}")
    assert "eager" not in err
    assert "without the cache" not in err
    assert len(compiler.started()) == 1, "compiled once"
    with pytest.raises(ProcessLookupError):
        os.kill(compiler.started()[0], 0)
    compiler.does("true")
    finish(compiler.run("resume", run, "--samples", 2))
    assert len(losses(run)) == 4
    assert len(compiler.started()) > 1
