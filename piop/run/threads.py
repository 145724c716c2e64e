"""The CPU threads of a run: those requested, torch's number, or fewer where cores are busy."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from piop.denormals import start_torch_threads
from piop.training.config import MachineConfig

logger = logging.getLogger(__name__)

PROCESSOR_TIMES = Path("/proc/stat")
"""Linux's ticks of each core so far: busy in several ways, the fourth and fifth idle."""


def default_threads() -> int:
    """Return torch's choice of threads, or as many as there are free cores where others are busy.

    Threads wait for each other actively: with more of them than free cores, all are slowed down.
    """
    own = torch.get_num_threads()
    free = own if own == 1 else free_cores()
    found = own if free >= own else max(1, round(free))
    if found < own:
        logger.info(
            "other processes keep cores busy: %d of %d threads are used. To use more: --threads %d",
            *(found, own, own),
        )
    return found


def free_cores(seconds: float = 0.2) -> float:
    """Return how many of the cores that this process may use are idle while it sleeps.

    Infinite where the system does not tell.
    """
    before = _ticks()
    time.sleep(seconds if before else 0.0)
    passed = [
        [b - a for a, b in zip(first, last, strict=True)]
        for first, last in zip(before, _ticks(), strict=True)
    ]
    known = [core for core in passed if sum(core)]
    return sum((core[3] + core[4]) / sum(core) for core in known) if known else math.inf


def _ticks() -> list[list[int]]:
    """Read the ticks of each core that this process may use; none where they are not told."""
    try:
        mine = {f"cpu{n}" for n in os.sched_getaffinity(0)}
        rows = [line.split() for line in PROCESSOR_TIMES.read_text().splitlines()]
        return [[int(n) for n in row[1:9]] for row in rows if row and row[0] in mine]
    except (AttributeError, OSError, ValueError):
        return []


@contextmanager
def threads_of(machine: MachineConfig) -> Iterator[None]:
    """Run a block with the threads of a run, and give torch's own number back after it.

    The threads that it starts count denormal numbers as zero, since networks are evaluated on them.

    Setting their number, even to what it is, turns MKL's own choice of threads off
    (``MKL_DYNAMIC=FALSE``). A run that requested none is left alone therefore, unless it began with
    another number than torch has now: the numbers of a resumed run depend on it.
    """
    before = torch.get_num_threads()
    own = machine.threads or machine.default_threads
    if machine.threads is None and own in (None, before):
        start_torch_threads()
        yield
        return
    torch.set_num_threads(own or before)
    try:
        start_torch_threads()
        yield
    finally:
        torch.set_num_threads(before)
