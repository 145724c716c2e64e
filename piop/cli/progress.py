"""Progress of training: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self, final

from piop.cli.console import is_terminal, say
from piop.inferred_parameters import parameters_of

Row = Mapping[str, float]
EVERY = 10.0  # seconds between plain lines


class Progress(ABC):
    """Shows the rows of the metrics as training writes them.

    Args:
        run: The run folder, named when training begins.
        steps: The budget in steps, or None.
        seconds: The budget in seconds, or None.
    """

    def __init__(self, run: Path, steps: int | None, seconds: float | None) -> None:
        self.run, self.steps, self.seconds = run, steps, seconds
        self._begun = False

    def fraction(self, row: Row) -> float | None:
        """Return the spent fraction of the budget; None without a budget."""
        if self.steps:
            return min(row["step"] / self.steps, 1.0)
        return min(row["seconds"] / self.seconds, 1.0) if self.seconds else None

    def __call__(self, row: Row) -> None:
        """Take a row."""
        if not self._begun:
            say(f"Run folder: {self.run}")
            self._begun = True
        self.show(row)

    @abstractmethod
    def show(self, row: Row) -> None:
        """Show a row."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


@final
class PlainProgress(Progress):
    """One line at the first row, then every ten seconds, and at the end of the budget."""

    _last = -EVERY

    def show(self, row: Row) -> None:
        """Show a row if it is time for one."""
        fraction, now = self.fraction(row), time.monotonic()
        if now - self._last < EVERY and fraction != 1.0:
            return
        self._last = now
        part = "" if fraction is None else f" ({100 * fraction:.0f} %)"
        loss = f"loss {row['loss']:.3e}{parameters(row)}"
        say(f"step {row['step']:.0f}{part}  {loss}  {row['seconds']:.0f} s")


@final
class ProgressBar(Progress):
    """A bar with the loss, the time gone and the time left."""

    def __enter__(self) -> Self:
        """Show the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("step {task.fields[step]:.0f}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3e}{task.fields[parameters]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=None, step=0, loss=math.nan, parameters="")
        return self

    def show(self, row: Row) -> None:
        """Move the bar."""
        fraction = self.fraction(row)
        step, loss, text = row["step"], row["loss"], parameters(row)
        spent = {"completed": fraction or 0.0, "total": None if fraction is None else 1.0}
        self._bar.update(self._task, **spent, step=step, loss=loss, parameters=text)

    def __exit__(self, *error: object) -> None:
        """Leave the last state of the bar on the terminal."""
        self._bar.stop()


def parameters(row: Row) -> str:
    """Return the text of the inferred parameters, empty where there are none."""
    return "".join(f"  {name} {value:.4g}" for name, value in parameters_of(row).items())


def progress(run: Path, steps: int | None, seconds: float | None) -> Progress:
    """Return the progress display that suits stderr."""
    kind = ProgressBar if is_terminal(sys.stderr) else PlainProgress
    return kind(run, steps, seconds)
