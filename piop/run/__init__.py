"""Runs: train, resume, load, predict, evaluate; everything that lives in a run folder."""

from pathlib import Path
from typing import Any

from piop.run.evaluation import HeldOut, predict_held_out
from piop.run.fit import fit, resume
from piop.run.run import Run

__all__ = ["HeldOut", "Run", "evaluate", "fit", "predict_held_out", "resume"]


def evaluate(
    run: Run | str | Path, samples: int = 64, seed: int | None = None, **options: Any
) -> dict[str, Any]:
    """Judge a run, given as such or as its folder; see :meth:`Run.evaluate`."""
    loaded = run if isinstance(run, Run) else Run.load(run)
    return loaded.evaluate(samples, seed, **options)
