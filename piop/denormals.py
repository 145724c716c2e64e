"""Denormal numbers, whose arithmetic is slow on some processors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

LEAST_PER_THREAD = 2**15
"""Numbers that torch gives one of its threads at least, where it shares an operation among them."""


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Count numbers below 1.2e-38 (float32) and 2.2e-308 (float64) as zero in a block.

    The weights of sharp attention, and products with them, are that small all the time. A
    step that keeps them takes up to 2.4 times as long on an Intel processor (docs/training.md).

    For networks and their optimisers alone: other libraries need these numbers. ``KDTree`` of SciPy
    1.17 recurses without end where the number next to zero is zero.

    The mode belongs to a thread, and new threads inherit it: see :func:`start_torch_threads`.
    """
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def start_torch_threads() -> None:
    """Start the threads among which torch shares operations, with denormal numbers as zero.

    Those that torch started before keep theirs.
    """
    with flush_denormals():
        torch.zeros(LEAST_PER_THREAD * torch.get_num_threads(), dtype=torch.uint8).add_(1)
