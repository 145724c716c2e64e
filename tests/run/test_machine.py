import logging
import math

import pytest
import torch

from piop.errors import UsageError
from piop.run import configuration, fit, resume
from piop.run.configuration import move_to_device, require_graphs, threads_of
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig


def test_a_run_that_moves_to_the_cpu_leaves_the_gpu_kernel_behind():
    config = TrainingConfig(
        BudgetConfig(steps=1), machine=MachineConfig(device="cuda", kernel="triton")
    )
    machine = move_to_device(config, "cpu").machine
    assert (machine.device, machine.kernel) == ("cpu", "torch")


def test_a_run_that_moves_to_the_cpu_leaves_cuda_graphs_behind():
    config = TrainingConfig(
        BudgetConfig(steps=1), machine=MachineConfig(device="cuda", cuda_graphs=True)
    )
    machine = move_to_device(config, "cpu").machine
    assert (machine.device, machine.cuda_graphs) == ("cpu", False)


def test_cuda_graphs_are_refused_where_nothing_can_be_recorded(heat, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UsageError, match=r"cuda_graphs: true .* on the CPU.*--device cuda"):
        heat.fit(steps=1, device="cpu", settings={"cuda_graphs": "true"}, compile=True, out=out)
    assert not out.exists()
    with pytest.raises(UsageError, match=r"cuda_graphs: true .*not compiled\. Use --compile"):
        require_graphs(MachineConfig(device="cuda", cuda_graphs=True))
    require_graphs(MachineConfig(device="cuda", compile=True, cuda_graphs=True))
    require_graphs(MachineConfig())


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
    monkeypatch.setattr(configuration, "free_cores", lambda: free)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(logging.getLogger("piop"), "propagate", True)
    with caplog.at_level(logging.INFO):
        assert configuration.default_threads() == used
    assert bool(caplog.messages) is (used < 4)


def test_idle_time_of_the_own_cores_is_counted(monkeypatch, tmp_path):
    stat = tmp_path / "stat"
    monkeypatch.setattr(configuration, "PROCESSOR_TIMES", stat)
    monkeypatch.setattr(configuration.os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    cores = ("9 9 9 9 9 9 9 9", "{} 0 0 {} 0 0 0 0", "0 0 0 0 0 0 0 0", "0 5 0 {} {} 0 0 0")
    rows = "\n".join(f"cpu{n} {core}" for n, core in zip(("", 0, 1, 2), cores, strict=True))
    stat.write_text(rows.format(100, 50, 7, 1))
    later = rows.format(103, 51, 10, 2)  # a quarter idle, and idle or waiting all the time
    monkeypatch.setattr(configuration.time, "sleep", lambda _: stat.write_text(later))
    assert configuration.free_cores() == 0.25 + 1.0


def test_a_system_that_does_not_tell_has_every_core_free(monkeypatch, tmp_path):
    monkeypatch.setattr(configuration, "PROCESSOR_TIMES", tmp_path / "none")
    assert configuration.free_cores() == math.inf


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
