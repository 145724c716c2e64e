"""Compilers run to their end, or are stopped with all that they started."""

import os
import sys
import threading
import time

import pytest
from torch._inductor import cpp_builder
from torch._inductor.exc import CppCompileError

from piop.residual.inductor import processes as module
from piop.residual.inductor.processes import CompilerProcesses

SCRIPT = """import pathlib, signal, subprocess, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path("child").write_text(str(child.pid))
time.sleep(60)
"""


def start(processes, folder, *words):
    """Start a compiler that takes long, in a thread; return the thread and its child's number."""
    (folder / "g++").write_text(SCRIPT)
    failures = []

    def compile_it():
        try:
            processes.run(" ".join([sys.executable, "g++", *words]), cwd=str(folder))
        except CppCompileError as error:
            failures.append(error)

    thread = threading.Thread(target=compile_it)
    thread.start()
    while not ((folder / "child").exists() and (folder / "child").read_text()):
        time.sleep(0.01)
    return thread, int((folder / "child").read_text()), failures


@pytest.mark.parametrize("words", [(), ("deaf",)], ids=["at once", "by force"])
def test_compilers_are_stopped_with_what_they_started(tmp_path, words, monkeypatch, runs):
    monkeypatch.setattr(module, "GRACE", 0.5)
    processes = CompilerProcesses()
    thread, child, failures = start(processes, tmp_path, *words)
    assert os.getsid(child) != os.getsid(0), "Ctrl-C in the terminal does not reach it"
    processes.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert len(failures) == 1
    end = time.monotonic() + 20
    while runs(child):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_none_is_started_once_they_were_stopped(tmp_path):
    processes = CompilerProcesses()
    processes.stop()
    with pytest.raises(CppCompileError, match="stopped before it began"):
        processes.run("touch here", cwd=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_fails_is_reported_with_its_words(tmp_path):
    with pytest.raises(CppCompileError, match="no such thing"):
        CompilerProcesses().run("sh -c 'echo no such thing >&2; exit 3'", cwd=str(tmp_path))


def test_inductor_runs_its_compilers_here_in_a_block(tmp_path):
    processes, usual = CompilerProcesses(), cpp_builder.run_compile_cmd
    with processes.used():
        cpp_builder.run_compile_cmd("touch here", cwd=str(tmp_path))
        processes.stop()
        with pytest.raises(CppCompileError):
            cpp_builder.run_compile_cmd("touch there", cwd=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert cpp_builder.run_compile_cmd is usual
