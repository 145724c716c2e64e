"""Event files of TensorBoard in the run folder, written by a callback."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, final

from piop.errors import PiopError
from piop.inferred_parameters import INFERRED
from piop.run.folder import EVALUATION, TENSORBOARD
from piop.training.loop.callbacks import HELD_OUT, TrainingEvent
from piop.training.loss.weighting.base import WEIGHT

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from piop.run.run import Run

logger = logging.getLogger(__name__)

TAGS = {
    "learning_rate": "optimiser/learning_rate",
    "gradient": "optimiser/gradient",
    "seconds": "optimiser/seconds",
    HELD_OUT: "error/held_out",
}
"""Name in the metrics → tag, where it is not a term of the loss."""
FIGURES = ("fields", "error_over_time", "residual")


@final
class TensorBoard:
    """A callback that writes metrics, and at the end errors and figures, as TensorBoard reads them.

    A resumed run continues in a file of its own: rows that a killed run wrote after its checkpoint
    are hidden from there on, as they are cut from ``metrics.jsonl``.
    """

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None

    def __call__(self, event: TrainingEvent) -> None:
        """Write an event."""
        writer = self._open(event.path, event.step)
        for name, value in event.metrics.items():
            if name != "step":
                writer.add_scalar(tag_of(name), value, event.step)
        if event.run is not None:
            self._write_end(writer, event.run, event.step)
            writer.close()
            self._writer = None

    def _open(self, path: Path, step: int) -> SummaryWriter:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(path / TENSORBOARD), purge_step=step)
        return self._writer

    def _write_end(self, writer: SummaryWriter, run: Run, step: int) -> None:
        """Write the errors of the evaluation and the figures that the run has."""
        if not run.is_evaluated:
            return
        found = run.folder.read_json(EVALUATION).get("relative_l2")
        if found is not None:
            writer.add_scalar("error/evaluation", found["mean"], step)
        for name in FIGURES:
            try:
                figure = run.plot(name)
            except PiopError as error:
                logger.info("tensorboard: no figure of %s: %s", name, error)
            else:
                writer.add_figure(name, figure, step)


def tag_of(name: str) -> str:
    """Return the tag of a name in the metrics.

    Example:
        >>> tag_of("residual"), tag_of("learning_rate"), tag_of("inferred/nu")
        ('loss/residual', 'optimiser/learning_rate', 'inferred/nu')
    """
    if name.startswith((INFERRED, WEIGHT)):
        return name
    return TAGS.get(name, "loss/total" if name == "loss" else f"loss/{name}")
