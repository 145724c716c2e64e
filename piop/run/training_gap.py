"""Warnings of an operator that does worse on held-out inputs than its training says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from piop.training.loop.checkpoint import Row

LATEST = 0.05
"""Last part of the rows of a training that counts."""
FAR = 3.0
"""Held-out error over that of the training's own samples that is worth a warning."""
LARGE = 0.3
"""Residual, relative to the terms of its equation, of a solution that does not meet it."""


def warn_of_gap(
    rows: Sequence[Row],
    error: float,
    residual: Mapping[str, float],
    scales: Sequence[float],
) -> list[str]:
    """Compare what a training that used data reached with what held-out inputs show.

    The data loss is the mean squared error relative to each sample's size, so that its root is
    comparable with the relative L2 error.

    Args:
        rows: Metrics of the training.
        error: Mean relative L2 error on held-out inputs; not finite where it is not known.
        residual: Root mean square of the residual of each equation on held-out inputs.
        scales: Typical size of each equation's terms.
    """
    losses = [
        row["data"] for row in rows[-max(1, math.ceil(LATEST * len(rows))) :] if "data" in row
    ]
    if not losses or not (fitted := median(losses)) >= 0:
        return []
    trained, found = math.sqrt(fitted), []
    if math.isfinite(error) and error > FAR * trained:
        found.append(
            f"the error on held-out inputs ({error:.2g}) is {error / trained:.2g} times that on "
            f"the samples it was trained on ({trained:.2g}): more samples, or the equations beside "
            "them, would close the gap"
        )
    for (name, size), scale in zip(residual.items(), scales, strict=False):
        relative = size / scale if scale > 0 else math.nan
        if relative > max(LARGE, FAR * trained):
            found.append(
                f"answers do not meet {name}: its residual is {relative:.2g} of the size of its "
                f"terms, though the samples are fitted to {trained:.2g}"
            )
    return found
