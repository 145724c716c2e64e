from dataclasses import replace

import pytest
import torch

from piop.errors import OutOfMemory
from piop.training.config import BudgetConfig, PointsConfig, TrainingConfig
from piop.training.loop import out_of_memory as memory
from piop.training.loop.out_of_memory import (
    as_settings,
    explain_out_of_memory,
    is_out_of_memory,
    smaller_batch,
)

CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 3221225472 bytes. Error code 12 (Cannot allocate memory)"
)
GPU = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 8.00 GiB"
)
NUMPY = MemoryError("Unable to allocate 512. MiB for an array with shape (2, 3)")


def config(**points):
    return TrainingConfig(BudgetConfig(steps=1), points=PointsConfig(**points))


@pytest.fixture
def at_hand(monkeypatch):
    """Let the machine have so much in use and so much free, in GiB."""

    def set_to(used, free):
        monkeypatch.setattr(memory, "memory_usage", lambda device: (used * 2.0**30, free * 2.0**30))

    return set_to


@pytest.mark.parametrize("error", [CPU, GPU, NUMPY, RuntimeError("std::bad_alloc")])
def test_allocations_that_fail_are_recognised(error):
    assert is_out_of_memory(error)


def test_other_errors_pass_as_they_are():
    with (
        pytest.raises(RuntimeError, match="shapes differ"),
        explain_out_of_memory(lambda _: "", "cpu"),
    ):
        raise RuntimeError("shapes differ")


@pytest.mark.parametrize(
    ("error", "asked"), [(CPU, "3.0 GiB"), (GPU, "2.5 GiB"), (NUMPY, "512 MiB")]
)
def test_the_message_says_how_much_was_asked_for_and_what_to_do(at_hand, error, asked):
    at_hand(1.5, 0.25)
    with pytest.raises(OutOfMemory) as caught, explain_out_of_memory(lambda _: "Do less", "cpu"):
        raise error
    assert str(caught.value) == (
        f"out of memory (asked for {asked} with 1.5 GiB in use and 256 MiB free). Do less"
    )


def test_a_batch_is_halved_at_least(at_hand):
    at_hand(10, 100)
    assert smaller_batch(CPU, config(functions=8), data=False) == {"functions": 4}


def test_a_batch_shrinks_by_what_is_asked_over_what_there_is(at_hand):
    at_hand(1, 0)  # a step needs 4 GiB or more where there is 1: a fifth of it, with the margin
    assert smaller_batch(CPU, config(functions=20), data=False) == {"functions": 4}


def test_points_shrink_where_functions_cannot(at_hand):
    at_hand(1, 0)
    lower = smaller_batch(CPU, config(functions=2, queries=100), data=False)
    assert lower == {"functions": 1, "queries": 40}
    assert smaller_batch(CPU, config(functions=1, queries=1), data=False) == {}


def test_a_grid_stays_and_its_functions_become_fewer(at_hand):
    at_hand(1, 0)
    some = config(functions=2, queries=100)
    assert smaller_batch(CPU, some, data=True, gridded=True) == {
        "functions": 1,
        "data_functions": 3,
    }
    assert smaller_batch(CPU, config(functions=1), data=False, gridded=True) == {}


def test_data_shrink_along_or_alone(at_hand):
    at_hand(10, 100)
    both = smaller_batch(CPU, config(functions=8, data_functions=16), data=True)
    assert both == {"functions": 4, "data_functions": 8}
    alone = replace(config(data_functions=16), physics=False)
    assert smaller_batch(CPU, alone, data=True) == {"data_functions": 8}
    assert as_settings(both) == "--set functions=4 --set data_functions=8"


def test_what_this_process_uses_is_known():
    used, free = memory.memory_usage("cpu")
    assert 2**24 < used < 2**45
    assert free > 0
