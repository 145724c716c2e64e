"""Whatever goes wrong: a message, an exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from piop.cli import cli
from piop.cli.failures import run_command


def outside(*arguments, **options):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "piop", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_an_unexpected_error_is_called_a_bug_and_shown_only_on_demand(capsys, monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("piop.problem.Problem.from_file", broken)
    assert run_command(cli, ["check", "heat"]) == 1
    err = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oops" in err
    assert "report" in err
    assert "Traceback" not in err
    assert run_command(cli, ["check", "heat", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_running_out_of_memory_says_what_to_do(piop, monkeypatch, error):
    def broken(*args):
        raise error

    monkeypatch.setattr("piop.problem.Problem.from_file", broken)
    code, _, err = piop("check", "heat")
    assert code == 1
    assert "out of memory: use fewer functions" in err


def test_an_interrupt_ends_with_130(piop, monkeypatch):
    def stopped(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("piop.problem.Problem.from_file", stopped)
    code, out, err = piop("check", "heat")
    assert (code, out.strip(), err.strip()) == (130, "", "piop: interrupted; nothing was written")


def test_a_reader_that_stops_reading_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "piop", "check", "burgers"]
    run = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (run.returncode, run.stderr) == (1, "")


@pytest.mark.parametrize(("spec", "code"), [("heat", 0), ("missing.yaml", 2)])
def test_output_that_is_closed_from_the_start_is_no_error(spec, code):
    shell = f"{sys.executable} -m piop check {spec} >&-"
    run = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, text=True)
    assert run.returncode == code
    assert "Traceback" not in run.stderr
    assert ("no such file" in run.stderr) == (code == 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_on_stdout_is_told():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "piop", "check", "heat"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1
    assert run.stderr.strip() == "piop: output: No space left on device"


def test_symbols_are_replaced_where_the_terminal_has_none():
    run = outside("check", "heat", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0, run.stderr
