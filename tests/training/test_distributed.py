"""Two processes take the steps of one."""

from __future__ import annotations

import importlib.util
import threading
import time
from pathlib import Path

import pytest
import torch

from piop.errors import TrainingError, UsageError
from piop.training import distributed
from piop.training.distributed import SingleProcess, checksum, joined, require_device
from piop.training.loop import phases
from piop.training.torchrun import launched_first, launched_together

SCRIPT = Path(__file__).parent / "steps.py"
_spec = importlib.util.spec_from_file_location("steps", SCRIPT)
steps = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(steps)


@pytest.fixture(scope="module", autouse=True)
def few_batches():
    """The L-BFGS of both sides sums over the same few batches, in steps as short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phases, "FROZEN_BATCHES", steps.FROZEN_BATCHES)
        patch.setattr(phases, "ITERATIONS", steps.ITERATIONS)
        yield


@pytest.fixture(scope="module")
def two(together, tmp_path_factory):
    """What each of two processes saw of every case; they go on with what one process began."""
    folder = tmp_path_factory.mktemp("two")
    for name, stop in steps.RESUMED.items():
        steps.build_trainer(name, folder / f"begun by one, {name}", stop=stop).run()
    ends = together.run(2, SCRIPT, folder)
    assert [code for code, _, _ in ends] == [0, 0], ends
    return folder


def seen(folder, name, rank):
    return torch.load(folder / f"{name} {rank}.pt")["weights"]


@pytest.mark.parametrize("name", steps.CASES)
def test_two_processes_take_the_steps_of_one(two, tmp_path, name):
    """Five functions, so three here and two there; rounding stays below 1e-10."""
    one = steps.weights_by_step(steps.build_trainer(name, tmp_path))
    first, second = seen(two, name, 0), seen(two, name, 1)
    assert torch.equal(first, second)
    assert len(one) == len(first) > 5
    torch.testing.assert_close(one, first, rtol=0, atol=1e-10)
    assert (one[-1] - one[0]).abs().max() > 1e-3  # and they did learn


@pytest.mark.parametrize("name", steps.RESUMED)
def test_a_run_goes_on_with_fewer_or_more_processes(two, name):
    unbroken = seen(two, name, 0)[-1]
    trainer = steps.build_trainer(name, two / f"begun by two, {name}")
    trainer.resume(torch.device("cpu"))
    assert steps.RESUMED[name] <= trainer.step < steps.CASES[name].budget.steps
    trainer.run()
    fewer = steps.weights_of(trainer)
    more = steps.build_trainer(name, two / f"begun by one, {name}")
    more.resume(torch.device("cpu"))
    assert more.step >= steps.CASES[name].budget.steps
    for found in (fewer, steps.weights_of(more)):
        torch.testing.assert_close(found, unbroken, rtol=0, atol=1e-10)


def test_a_step_sends_the_gradients_the_parts_and_the_news_once(two):
    """float64: 1806 gradients, two parts, three numbers of news."""
    found = torch.load(two / "soap 0.pt")
    assert found["bytes"] == 7 * 8 * (found["weights"].shape[1] + 2 + 3)


def test_parts_cover_everything_once_and_differ_by_one_at_most():
    class Rank(SingleProcess.__base__):
        def __init__(self, rank, count):
            self.rank, self.count = rank, count

        add = lead = agree = collect = None

    parts = [Rank(rank, 3).part(8) for rank in range(3)]
    assert parts == [range(3), range(3, 6), range(6, 8)]
    with pytest.raises(UsageError, match=r"functions: 2 for 3 processes.*--set functions=3"):
        Rank(0, 3).require(2, "functions")
    Rank(0, 3).require(3, "functions")


def test_one_flipped_bit_changes_the_checksum():
    weights = [torch.ones(3), torch.zeros(2)]
    before = checksum(weights)
    weights[1][0] = -0.0
    assert checksum(weights) != before


def test_weights_that_differ_between_processes_end_the_run(tmp_path, monkeypatch):
    trainer = steps.build_trainer("soap", tmp_path)
    monkeypatch.setattr(trainer.processes, "agree", lambda _: False)
    with pytest.raises(TrainingError, match=r"no longer the same at step 1; no checkpoint"):
        trainer.run()
    assert not (trainer.folder / "state" / "checkpoint.pt").exists()


def test_the_environment_says_how_many_there_are(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert not launched_together()
    assert launched_first()
    monkeypatch.setenv("WORLD_SIZE", "2")  # as some schedulers do, without a rank
    assert not launched_together()
    for name, value in {"RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert launched_together()
    assert not launched_first()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not launched_together()
    with joined() as processes:
        assert isinstance(processes, SingleProcess)


def test_a_process_without_heartbeats_is_silent_to_those_that_observe_it(monkeypatch):
    monkeypatch.setattr(distributed, "BEAT", 0.02)
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    beats = [distributed.Heartbeats(store, rank, 3) for rank in range(3)]
    time.sleep(1)
    assert [each.silent for each in beats] == [[], [], []]
    beats[2].end()
    time.sleep(1)
    assert [each.silent for each in beats] == [[2], [], []], "only the first observes it"
    beats[0].end()
    time.sleep(1)
    assert beats[1].silent == [0]
    beats[1].end()


def test_nested_blocks_share_one_group_with_its_heartbeats(monkeypatch):
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setattr(distributed, "_get_default_store", lambda: store)
    for name, value in {"is_initialized": True, "get_world_size": 2, "get_rank": 0}.items():
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    before = threading.active_count()
    with joined() as outer:
        with joined() as inner:
            assert inner is outer
            assert threading.active_count() == before + 1
        assert not outer._heartbeats._ended.is_set()
    assert outer._heartbeats._ended.is_set()
    with joined() as later:
        assert later is not outer


def test_each_process_needs_a_device_of_its_own(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match="3 processes on this machine, but 2 CUDA devices"):
        require_device("cuda")
    require_device("cpu")
