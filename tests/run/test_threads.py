"""A run takes the threads it was given, or as many as there are free cores."""

import logging
import math

import pytest
import torch

from piop.run import fit, resume, threads
from piop.run.threads import threads_of
from piop.training.config import MachineConfig
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


def test_denormals_are_zero_in_training_and_predictions_alone(heat, tmp_path):
    seen = []

    def look(*_):
        seen.append(is_flushed())

    run = fit(heat, steps=2, out=tmp_path / "run", samples=0, device="cpu", progress=look)
    run = resume(run.path, steps=3, samples=0, progress=look)
    trained = len(seen)
    assert not is_flushed()
    watched = run.model.operator.register_forward_pre_hook(look)
    run.predict(heat.sample(1, seed=0))
    run.evaluate(1, write=False)
    watched.remove()
    assert 2 <= trained < len(seen)
    assert all(seen)
    assert not is_flushed()
