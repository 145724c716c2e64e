"""Denormal numbers, whose arithmetic is slow on some processors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Count numbers below 1.2e-38 (float32) and 2.2e-308 (float64) as zero in a block.

    The weights of sharp attention, and products with them, are that small all the time. A
    step that keeps them takes up to 2.4 times as long on an Intel processor (docs/training.md).

    The mode belongs to a thread, and new threads inherit it. Those that torch started before the
    block keep theirs; those that it starts within the block keep the block's.
    """
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
