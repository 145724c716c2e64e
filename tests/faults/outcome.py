"""What came of one injected fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """What came of one injected fault.

    Attributes:
        fault: Its class, a row of `docs/reliability.md`, as "flipped bit in checkpoint.pt".
        survived: Whether piop noticed, refused with a message, or went on right.
        detail: How to repeat it, and what was seen; read where it was lost.
    """

    fault: str
    survived: bool
    detail: str = ""


Attack = Callable[[int, int, Path], Iterator[Outcome]]
"""Inject so many faults, drawn from a seed, in an empty folder; same seed, same faults."""
