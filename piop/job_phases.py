"""The phases of a job: what it does now, how far it is, and how long each phase took."""

from __future__ import annotations

import time
from enum import StrEnum


class JobPhase(StrEnum):
    """A phase of training or evaluating a run; the value is how it is shown."""

    PREPARING = "preparing"
    COMPILING = "compiling"
    TRAINING = "training"
    EVALUATING = "evaluating"
    CALIBRATING = "calibrating"
    DRAWING = "drawing"


class JobPhases:
    """The wall time of each phase of one job. It shows nothing; a subclass may.

    A job is in one phase at a time, and may return to one.

    Attributes:
        seconds: Phase → seconds so far, in the order in which they began.
        current: The present phase; None before the first and after the last.
    """

    def __init__(self) -> None:
        self.seconds: dict[JobPhase, float] = {}
        self.current: JobPhase | None = None
        self._since = 0.0

    def enter(self, phase: JobPhase, detail: str = "") -> None:
        """Begin a phase, which ends the one before.

        Args:
            phase: The phase.
            detail: What else is known of it, such as how long it is expected to take.
        """
        self.finish()
        self.current, self._since = phase, time.perf_counter()
        self.seconds.setdefault(phase, 0.0)

    def advance(self, done: int, total: int, what: str) -> None:
        """Take how much of the present phase is done, such as 12 of 64 references."""

    def finish(self) -> None:
        """End the present phase; without one nothing changes."""
        if self.current is not None:
            self.seconds[self.current] += time.perf_counter() - self._since
        self.current = None

    def summary(self) -> str:
        """Return the seconds of each phase in one line; empty where there was none."""
        parts = [f"{phase} {seconds:.0f}" for phase, seconds in self.seconds.items()]
        return f"Seconds: {', '.join(parts)}" if parts else ""
