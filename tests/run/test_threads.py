"""A run takes the threads it was given, or as many as there are free cores."""

import logging
import math
import subprocess
import sys

import pytest
import torch

from piop.models.pit.network import PIT
from piop.run import fit, references, resume, threads
from piop.run.threads import threads_of
from piop.training.config import MachineConfig
from piop.training.loop import phases
from piop.training.optimisers.build import clip_gradients
from tests.denormals import is_flushed


@pytest.fixture
def counts(monkeypatch):
    """Numbers of threads that torch is told, one after another."""
    told = []
    set_threads = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (told.append(n), set_threads(n)))
    return told


def test_threads_are_left_alone_unless_asked_for(heat, tmp_path, counts):
    run = fit(heat, steps=1, out=tmp_path / "own", samples=0, device="cpu")
    machine = run.config.machine
    assert (machine.threads, machine.default_threads) == (None, torch.get_num_threads())
    resume(run.path, steps=2, samples=0)
    assert counts == []


@pytest.mark.parametrize(("free", "used"), [(3.9, 4), (2.6, 3), (0.2, 1), (math.inf, 4)])
def test_a_run_takes_the_cores_that_are_free(monkeypatch, caplog, free, used):
    monkeypatch.setattr(threads, "free_cores", lambda: free)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(logging.getLogger("piop"), "propagate", True)
    with caplog.at_level(logging.INFO):
        assert threads.default_threads() == used
    assert bool(caplog.messages) is (used < 4)


def test_idle_time_of_the_own_cores_is_counted(monkeypatch, tmp_path):
    stat = tmp_path / "stat"
    monkeypatch.setattr(threads, "PROCESSOR_TIMES", stat)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    cores = ("9 9 9 9 9 9 9 9", "{} 0 0 {} 0 0 0 0", "0 0 0 0 0 0 0 0", "0 5 0 {} {} 0 0 0")
    rows = "\n".join(f"cpu{n} {core}" for n, core in zip(("", 0, 1, 2), cores, strict=True))
    stat.write_text(rows.format(100, 50, 7, 1))
    later = rows.format(103, 51, 10, 2)  # a quarter idle, and idle or waiting all the time
    monkeypatch.setattr(threads.time, "sleep", lambda _: stat.write_text(later))
    assert threads.free_cores() == 0.25 + 1.0


def test_a_system_that_does_not_tell_has_every_core_free(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "PROCESSOR_TIMES", tmp_path / "none")
    assert threads.free_cores() == math.inf


def test_threads_asked_for_are_set_also_on_a_resume(heat, tmp_path, counts):
    own = torch.get_num_threads()
    run = fit(heat, steps=1, out=tmp_path / "asked", samples=0, device="cpu", threads=own)
    machine = run.config.machine
    assert (machine.threads, machine.default_threads) == (own, None)
    resume(run.path, steps=2, samples=0)
    assert counts == [own] * 4  # each sets them and gives torch's own number back


def test_a_resume_takes_the_threads_its_run_began_with(counts):
    own = torch.get_num_threads()
    with threads_of(MachineConfig(default_threads=own + 1)):
        assert torch.get_num_threads() == own + 1
    assert counts == [own + 1, own]


class Watched:
    """Calls a function, and keeps whether denormal numbers were zero at each call."""

    def __init__(self, function):
        self.function, self.flushed = function, []

    def __call__(self, *args, **options):
        self.flushed.append(is_flushed())
        return self.function(*args, **options)


def test_denormals_are_zero_in_steps_and_predictions_alone(heat, tmp_path, monkeypatch):
    within, outside = Watched(PIT.forward), Watched(references.solve_reference)
    gradients, callback = Watched(clip_gradients), Watched(lambda _: None)
    monkeypatch.setattr(PIT, "forward", lambda *args: within(*args))
    monkeypatch.setattr(phases, "clip_gradients", gradients)
    monkeypatch.setattr(references, "solve_reference", outside)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # no reference is kept
    run = fit(heat, steps=2, out=tmp_path / "run", samples=2, device="cpu", progress=callback)
    assert gradients.flushed == [True, True]
    assert callback.flushed == [False, False]
    assert outside.flushed
    assert not any(outside.flushed)
    evaluated = len(within.flushed)
    run.predict(heat.sample(1, seed=0))
    assert 2 < evaluated < len(within.flushed)
    assert all(within.flushed)
    assert not is_flushed()


THREADS_OF_A_RUN = """
import torch
from piop.run.threads import threads_of
from piop.training.config import MachineConfig
with threads_of(MachineConfig(threads=2)):
    products = torch.full((2**20,), 1e-30) * 1e-10
zeros = products == 0
assert not zeros[: 2**18].any() and zeros[-(2**18) :].all()
"""


def test_the_threads_of_a_run_flush_and_the_one_that_asks_does_not():
    subprocess.run([sys.executable, "-c", THREADS_OF_A_RUN], check=True)
