"""Progress of a job: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import math
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self, final

from piop.cli.console import is_terminal, say
from piop.inferred_parameters import parameters_of
from piop.job_phases import JobPhase, JobPhases
from piop.training.torchrun import launched_first

Row = Mapping[str, float]
EVERY, QUIET = 10.0, 12.0  # seconds between plain lines; after which the phase alone is shown


class Progress(JobPhases, ABC):
    """Shows the phases of a job, and the rows of the metrics as training writes them.

    Args:
        steps: The budget in steps, or None.
        time: The budget in seconds, or None.

    Attributes:
        run: The run folder, to be named at the first row; None where that is done.
    """

    def __init__(self, steps: int | None = None, time: float | None = None) -> None:
        super().__init__()
        self.steps, self.time = steps, time
        self.run: Path | None = None

    def fraction(self, row: Row) -> float | None:
        """Return the spent fraction of the budget; None without a budget."""
        if self.steps:
            return min(row["step"] / self.steps, 1.0)
        return min(row["seconds"] / self.time, 1.0) if self.time else None

    def __call__(self, row: Row) -> None:
        """Take a row."""
        if self.run is not None:
            say(f"Run folder: {self.run}")
            self.run = None
        self.show(row)

    @abstractmethod
    def show(self, row: Row) -> None:
        """Show a row."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()


@final
class PlainProgress(Progress):
    """A line where a phase begins, and one every ten seconds while it goes on."""

    def __enter__(self) -> Self:
        """Begin to say every ten seconds that a phase goes on, whatever it does."""
        self._over = threading.Event()
        threading.Thread(target=self._go_on, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop."""
        super().__exit__(*error)
        self._over.set()

    _last, _line, _rows = -math.inf, "", False

    def _go_on(self) -> None:
        while not self._over.wait(1.0):
            if self.current is not None and time.monotonic() - self._last >= QUIET:
                self._say(f"{self._line}  {time.perf_counter() - self._since:.0f} s")

    def _is_time(self) -> bool:
        return time.monotonic() - self._last >= EVERY

    def _say(self, line: str) -> None:
        self._last = time.monotonic()
        say(line)

    def enter(self, phase: JobPhase, detail: str = "") -> None:
        """Print the phase, the first time it is entered."""
        first = phase not in self.seconds
        super().enter(phase, detail)
        self._line = f"{phase} ({detail})" if detail else phase
        if first:
            self._say(self._line)

    def advance(self, done: int, total: int, what: str) -> None:
        """Print how much is done if it is time for a line."""
        self._line = f"{self.current}: {done} of {total} {what}"
        if self._is_time():
            self._say(self._line)

    def show(self, row: Row) -> None:
        """Show a row if it is time for one."""
        fraction = self.fraction(row)
        first, self._rows = not self._rows, True
        if not (first or fraction == 1.0 or self._is_time()):
            return
        part = "" if fraction is None else f" ({100 * fraction:.0f} %)"
        loss = f"loss {row['loss']:.3e}{parameters(row)}"
        self._say(f"step {row['step']:.0f}{part}  {loss}  {row['seconds']:.0f} s")


@final
class ProgressBar(Progress):
    """A bar with the phase, how far it is, the time gone and the time left."""

    def __enter__(self) -> Self:
        """Show the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=None, text="")
        return self

    def enter(self, phase: JobPhase, detail: str = "") -> None:
        """Name the phase beside the bar, which begins anew."""
        again = phase in self.seconds
        super().enter(phase, detail)
        self._bar.update(self._task, description=phase, text=detail)
        if not again:
            self._bar.reset(self._task, total=None)

    def advance(self, done: int, total: int, what: str) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, total=total, text=f"{done} of {total} {what}")

    def show(self, row: Row) -> None:
        """Move the bar."""
        fraction = self.fraction(row)
        text = f"step {row['step']:.0f}  loss {row['loss']:.3e}{parameters(row)}"
        spent = {"completed": fraction or 0.0, "total": None if fraction is None else 1.0}
        self._bar.update(self._task, **spent, text=text)

    def __exit__(self, *error: object) -> None:
        """Leave the last state of the bar on the terminal."""
        super().__exit__(*error)
        self._bar.stop()


def parameters(row: Row) -> str:
    """Return the text of the inferred parameters, empty where there are none."""
    return "".join(f"  {name} {value:.4g}" for name, value in parameters_of(row).items())


@final
class NoProgress(Progress):
    """Shows nothing, as all but the first of several processes."""

    def show(self, row: Row) -> None:
        """Show nothing."""


def progress(steps: int | None = None, seconds: float | None = None) -> Progress:
    """Return the progress display that suits this process and stderr."""
    kind = ProgressBar if is_terminal(sys.stderr) else PlainProgress
    return (kind if launched_first() else NoProgress)(steps, seconds)
