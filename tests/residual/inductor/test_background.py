"""A graph compiled in a process of its own is loaded here; the process ends with what began it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from piop.residual import compiled_step
from piop.residual.compiled_step import TracedStep, trace
from piop.residual.inductor import BackgroundCompilation, background

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere training waits")
SHIFT = torch.tensor([0.5, -1.5, 2.0])


def loss(params, inputs):
    return ((params[0] * inputs[0]).sin() + SHIFT).square().sum()


def tensors():
    return [torch.tensor([0.3, -2.0, 1.1])], [torch.tensor([1.5, 0.2, -0.7])]


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.usefixtures("one_thread")
def test_what_the_process_compiled_is_loaded_without_a_compiler(cache, monkeypatch):
    step = TracedStep(loss)
    assert step.foresee(*tensors()) is not None
    assert step.start_background(*tensors(), limit=60.0)
    assert step.background_runs
    wait_for(lambda: not step.background_runs)
    step.close()
    built = len(list(cache.rglob("*.so")))
    assert built
    monkeypatch.setenv("CXX", "/no/compiler")  # would be started for what is not in the cache
    (found,), (gradient,) = step(*tensors())
    assert step.eager_because is None
    assert len(list(cache.rglob("*.so"))) == built
    (expected,), (wanted,) = TracedStep(loss, compiled=False)(*tensors())
    torch.testing.assert_close((found, gradient), (expected, wanted))


def test_nothing_begins_where_it_cannot_be_shared(cache, monkeypatch):
    from torch._inductor import config

    cpu, step = torch.device("cpu"), TracedStep(loss)
    assert step.may_use_background(cpu)
    assert not step.may_use_background(torch.device("cuda"))
    assert not TracedStep(loss, graphs=True).may_use_background(cpu)
    with config.patch(force_disable_caches=True):
        assert not step.may_use_background(cpu)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert not step.may_use_background(cpu)


def test_nothing_begins_where_no_process_can_be_started(cache, monkeypatch):
    def refuse(*_):
        raise OSError("no memory for another process")

    step = TracedStep(loss)
    step.foresee(*tensors())
    with monkeypatch.context() as patch:
        patch.setattr(compiled_step.BackgroundCompilation, "__init__", refuse)
        assert not step.start_background(*tensors(), limit=60.0)
    assert not step.background_runs
    step.close()  # there is nothing to end


def sleeping(folder):
    """Return what stands for compiling: a compiler that takes long, as :class:`JoinedKernels`."""
    from piop.residual.inductor.processes import CompilerProcesses

    def compile_it(_graph, _threads, _compilers):
        processes = CompilerProcesses()
        try:
            processes.run(f"sh -c 'echo $$ > {folder}/compiler; exec sleep 600'", str(folder))
        except BaseException:
            processes.stop()
            raise

    return compile_it


def compiler_of(folder):
    wait_for(lambda: (folder / "compiler").exists() and (folder / "compiler").read_text())
    return int((folder / "compiler").read_text())


def test_stopping_it_ends_its_compilers(tmp_path, monkeypatch, runs):
    monkeypatch.setattr(background, "compile_graph", sleeping(tmp_path))
    process = BackgroundCompilation(trace(lambda t: (t[0] * 2,), tensors()[0]), 1, limit=60.0)
    compiler = compiler_of(tmp_path)
    assert process.runs
    process.stop()
    wait_for(lambda: not runs(compiler))
    assert not multiprocessing.active_children()


def test_one_that_takes_too_long_is_given_up(tmp_path, monkeypatch, runs):
    monkeypatch.setattr(background, "compile_graph", sleeping(tmp_path))
    process = BackgroundCompilation(trace(lambda t: (t[0] * 2,), tensors()[0]), 1, limit=3.0)
    compiler = compiler_of(tmp_path)
    assert process.runs
    wait_for(lambda: not process.runs)
    assert runs(compiler), "it did not end by itself"
    process.stop()


def test_ctrl_c_in_the_terminal_does_not_end_it(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "compile_graph", sleeping(tmp_path))
    process = BackgroundCompilation(trace(lambda t: (t[0] * 2,), tensors()[0]), 1, limit=60.0)
    compiler_of(tmp_path)
    os.kill(process._process.pid, signal.SIGINT)
    time.sleep(0.2)
    assert process.runs
    process.stop()


PROGRAM = """
import sys, time
import torch
sys.path[:0] = sys.argv[2:]
from test_background import sleeping, tensors
from piop.residual.compiled_step import trace
from piop.residual.inductor import BackgroundCompilation, background
background.compile_graph = sleeping(sys.argv[1])
BackgroundCompilation(trace(lambda t: (t[0] * 2,), tensors()[0]), 1, limit=60.0)
time.sleep(60)
"""


def test_it_ends_when_the_process_that_began_it_is_killed(tmp_path, runs):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(Path(__file__).parent)]
    running = subprocess.Popen(command)
    try:
        compiler = compiler_of(tmp_path)
    finally:
        running.kill()
        running.wait()
    wait_for(lambda: not runs(compiler))
