"""What a data set says of its references: samples without a solution, and inaccurate ones."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from piop.datasets.formats import guarded
from piop.datasets.layout import ACCEPTED, ESTIMATE
from piop.datasets.opened import OpenFile
from piop.datasets.raw import SAMPLE
from piop.errors import DataError

logger = logging.getLogger(__name__)


def solved(file: OpenFile) -> np.ndarray | None:
    """Number the samples that have a solution, and warn of those that do not or are inaccurate.

    A sample has none where the error estimate of its reference is not finite. One that missed its
    tolerance has one, and is kept.

    Returns:
        Their numbers, ascending; None where all are or the file does not say.

    Raises:
        DataError: If no sample has one.
    """
    estimate = _of_samples(file, ESTIMATE)
    if estimate is None:
        return None
    known = np.isfinite(estimate)
    count, left_out = len(known), int((~known).sum())
    if count and left_out == count:
        raise DataError(f"{file.path}: none of its {count} samples has a solution ('{ESTIMATE}')")
    if left_out:
        logger.warning(
            "%s: %d of %d samples have no solution (their %s is not finite) and are left out",
            file.path, left_out, count, ESTIMATE,
        )  # fmt: skip
    accepted = _of_samples(file, ACCEPTED)
    missed = known & (accepted == 0) if accepted is not None else np.zeros_like(known)
    if missed.any():
        logger.warning(
            "%s: %d of %d samples missed the tolerance of their reference (%s is 0; errors are "
            "estimated at up to %.1e); they are used all the same",
            file.path, missed.sum(), count, ACCEPTED, estimate[missed].max(),
        )  # fmt: skip
    return np.flatnonzero(known) if left_out else None


def _of_samples(file: OpenFile, name: str) -> np.ndarray | None:
    """Read one number per sample; None where the file has no such array of numbers."""
    array = file.arrays.get(name)
    if array is None or array.dimensions != (SAMPLE,) or array.dtype.kind not in "fiub":
        return None
    return guarded(Path(file.path), file.format, lambda: array.read().values)
