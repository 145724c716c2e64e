"""Times as ratios on a machine that others use too, and the memory that a step needs at most.

Steps that are compared run in turns, A B C A B C …, so that whoever else uses the machine slows
all of them alike; the median of each is kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Run = Callable[[], object]


@dataclass(frozen=True)
class Options:
    """How to measure.

    Attributes:
        device: Where the steps run.
        rounds: How often each step is timed.
        compiled: Whether compiled steps are measured; compilation takes minutes.
    """

    device: torch.device
    rounds: int = 15
    compiled: bool = True


def interleaved(
    runs: Mapping[str, Run],
    options: Options,
    warm: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Time steps in turns.

    Args:
        runs: Name → step.
        options: Device and number of rounds.
        warm: Untimed rounds before.
        clock: Returns seconds. ``time.process_time`` leaves out the time of other processes, which
            on a busy machine is most of it; it knows nothing of a GPU.

    Returns:
        Name → median seconds of one step.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(warm + options.rounds):
        for name, run in runs.items():
            wait(options.device)
            start = clock()
            run()
            wait(options.device)
            if turn >= warm:
                seconds[name].append(clock() - start)
    return {name: statistics.median(found) for name, found in seconds.items()}


def wait(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(run: Run, device: torch.device) -> int:
    """Measure the bytes of tensors that a step holds at most, beyond those there before.

    On a CPU the allocations of one step are recorded and added up, which is exact and does not
    depend on what the process did before, as its resident size would.
    """
    run()
    wait(device)
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        wait(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        run()
    found = profile.kineto_results.events()  # type: ignore[union-attr]
    changes = sorted((e.start_ns(), e.nbytes()) for e in found if e.name() == "[memory]")
    held = peak = 0
    for _, size in changes:
        held += size
        peak = max(peak, held)
    return peak
