"""The phases of a long job: what it does now, how far it is, and how long each phase took."""

from __future__ import annotations

import time


class Phases:
    """The wall time of each phase of a job. It shows nothing; a subclass may.

    A job is in one phase at a time, and may return to one.

    Attributes:
        seconds: Phase → seconds so far, in the order in which they began.
        name: The present phase; empty before the first and after the last.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.name, self._since = "", 0.0

    def enter(self, name: str, detail: str = "") -> None:
        """Begin a phase, which ends the one before.

        Args:
            name: Such as ``"training"``.
            detail: What else is known of it, such as how long it is expected to take.
        """
        self.finish()
        self.name, self._since = name, time.perf_counter()
        self.seconds.setdefault(name, 0.0)

    def advance(self, done: int, total: int, what: str) -> None:
        """Take how much of the present phase is done, such as 12 of 64 references."""

    def finish(self) -> None:
        """End the present phase."""
        if self.name:
            self.seconds[self.name] += time.perf_counter() - self._since
        self.name = ""
