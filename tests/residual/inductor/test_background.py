"""A graph compiled in a process of its own is loaded here; the process ends with what began it."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from piop.residual import compiled_step
from piop.residual.compiled_step import TracedStep
from piop.residual.inductor import BackgroundCompilation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere training waits")
SHIFT = torch.tensor([0.5, -1.5, 2.0])


def loss(params, inputs):
    size = ((params[0] * inputs[0]).sin() + SHIFT).square().sum()
    return {"loss": size, "others": [size / 2]}


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
    monkeypatch.setattr(compiled_step, "trace", by_process(compiled_step.trace, os.getpid()))
    assert step.start_background(*tensors(), limit=60.0)
    assert step.background_foresees is None
    assert step.background_runs()
    wait_for(lambda: not step.background_runs())
    assert step.background_foresees > 0
    step.close()
    built = len(list(cache.rglob("*.so")))
    assert built
    monkeypatch.setenv("CXX", "/no/compiler")  # would be started for what is not in the cache
    found, gradient = step(*tensors())
    assert step.eager_because is None
    assert step.concurrent
    assert len(list(cache.rglob("*.so"))) == built
    assert step.structure == {"loss": 0, "others": [1]}
    torch.testing.assert_close((found, gradient), TracedStep(loss, compiled=False)(*tensors()))
    assert len([*cache.glob("piop/*")]) == 1, "it is not noted as compiled"


def by_process(trace, own):
    """Return what traces in other processes than this."""

    def trace_elsewhere(*arguments):
        assert os.getpid() != own, "it is traced twice"
        return trace(*arguments)

    return trace_elsewhere


@pytest.mark.usefixtures("one_thread")
def test_what_left_the_cache_meanwhile_is_compiled_here(cache, caplog):
    step = TracedStep(loss)
    step.start_background(*tensors(), limit=60.0)
    wait_for(lambda: not step.background_runs())
    step.close()
    shutil.rmtree(cache)
    found = step(*tensors())
    assert "compiling again: KeyError: 'the cache has no compiled graph " in caplog.text
    torch.testing.assert_close(found, TracedStep(loss, compiled=False)(*tensors()))


@pytest.mark.usefixtures("one_thread")
def test_what_cannot_be_traced_ends_it(cache):
    def branching(params, inputs):
        return params[0].sum() if inputs[0].sum() > 0 else inputs[0].sum()

    step = TracedStep(branching)
    assert step.start_background(*tensors(), limit=60.0)
    wait_for(lambda: not step.background_runs())
    assert step.background_foresees is None
    step.close()
    with pytest.warns(RuntimeWarning, match="the training step stays eager"):
        assert step.foresee(*tensors()) is None


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
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # autograd has threads there
    assert not step.may_use_background(cpu)


def test_nothing_begins_where_no_process_can_be_started(cache, monkeypatch):
    def refuse(*_):
        raise OSError("no memory for another process")

    step = TracedStep(loss)
    with monkeypatch.context() as patch:
        patch.setattr(compiled_step.BackgroundCompilation, "__init__", refuse)
        assert not step.start_background(*tensors(), limit=60.0)
    assert not step.background_runs()
    step.close()  # there is nothing to end


def sleeping(folder):
    """Return what stands for compiling: a compiler that takes long, as :class:`JoinedKernels`."""
    from piop.residual.inductor.processes import CompilerProcesses

    def compile_it(_report):
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


def test_stopping_it_ends_its_compilers(tmp_path, runs):
    process = BackgroundCompilation(sleeping(tmp_path), limit=60.0)
    compiler = compiler_of(tmp_path)
    assert process.runs
    process.stop()
    wait_for(lambda: not runs(compiler))
    assert not multiprocessing.active_children()


def test_one_that_takes_too_long_is_given_up(tmp_path, runs):
    process = BackgroundCompilation(sleeping(tmp_path), limit=0.0)
    process.extend(3.0)
    compiler = compiler_of(tmp_path)
    assert process.runs
    wait_for(lambda: not process.runs)
    assert runs(compiler), "it did not end by itself"
    process.stop()


def test_ctrl_c_in_the_terminal_does_not_end_it(tmp_path):
    process = BackgroundCompilation(sleeping(tmp_path), limit=60.0)
    compiler_of(tmp_path)
    os.kill(process._process.pid, signal.SIGINT)
    time.sleep(0.2)
    assert process.runs
    process.stop()


PROGRAM = """
import sys, time
import torch
sys.path[:0] = sys.argv[2:]
from test_background import sleeping
from piop.residual.inductor import BackgroundCompilation
BackgroundCompilation(sleeping(sys.argv[1]), limit=60.0)
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
