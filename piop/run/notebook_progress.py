"""Progress in a notebook: one bar for all phases of a job."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, final

from piop.inferred_parameters import parameters_of
from piop.job_phases import JobPhase, JobPhases
from piop.notebook_html import text_html
from piop.training.config import BudgetConfig

EVERY = 0.2
"""Seconds between two states of the bar."""


def in_notebook() -> bool:
    """Whether code runs in a Jupyter kernel, without importing anything for it."""
    shell = sys.modules.get("IPython")
    if shell is None or "ipykernel" not in sys.modules:
        return False
    return getattr(shell.get_ipython(), "kernel", None) is not None


@final
class NotebookProgress(JobPhases):
    """A bar that is shown once and replaced as the job goes on.

    Attributes:
        budget: Of the training; None while it is not known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.budget: BudgetConfig | None = None
        self._display: Any = None
        self._shown = 0.0

    def enter(self, phase: JobPhase, detail: str = "") -> None:
        """Show the phase, whose end is not known yet."""
        super().enter(phase, detail)
        self._show(None, f"{phase} ({detail})" if detail else phase, at_once=True)

    def advance(self, done: int, total: int, what: str) -> None:
        """Move the bar."""
        self._show(done / max(total, 1), f"{self.current}: {done} of {total} {what}")

    def __call__(self, row: Mapping[str, float]) -> None:
        """Move the bar by a row of the metrics."""
        step, seconds = int(row["step"]), row["seconds"]
        fraction = None if self.budget is None else self.budget.fraction(step, seconds)
        inferred = "".join(f", {n} {value:.4g}" for n, value in parameters_of(row).items())
        text = f"{JobPhase.TRAINING}: step {step}, loss {row['loss']:.3e}{inferred}"
        self._show(fraction, f"{text}, {seconds:.0f} s")

    def finish(self) -> None:
        """Leave the seconds of all phases once the last one is over."""
        super().finish()
        if self._display is not None:
            self._show(1.0, self.summary(), at_once=True)

    def _show(self, fraction: float | None, text: str, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._shown < EVERY:
            return
        self._shown = now
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        value = "" if fraction is None else f' value="{fraction:.3f}"'
        shown = HTML(f'<progress max="1"{value}></progress> {text_html(text)}')
        if self._display is None:
            self._display = display(shown, display_id=True)
        else:
            self._display.update(shown)
