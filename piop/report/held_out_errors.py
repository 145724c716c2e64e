"""The error of every held-out input, beside its bound and its distance from the distribution."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.errors import DamagedFileError, NotSupportedError, UsageError
from piop.metrics import relative_l2
from piop.run.error_bounds.answers import indicators_of, uncovered_inputs
from piop.run.error_bounds.calibration import CONFIDENCE, Calibration
from piop.run.evaluation import RESIDUAL_AT_ONCE
from piop.sampling.typicality import Typicality

if TYPE_CHECKING:
    from piop.models.core.base import Inputs
    from piop.run import Run
    from piop.run.held_out import JudgedSamples

logger = logging.getLogger(__name__)

SECONDS = 2.0
"""Time after which no more inputs have their residuals evaluated, where bounds need them."""


@dataclass(frozen=True)
class HeldOutErrors:
    """Errors of n held-out inputs.

    Attributes:
        numbers: Of the inputs, from 1, in their order ``[n]``.
        error: Relative L2 error, the mean over the unknowns ``[n]``.
        largest: That of the unknown that has the largest ``[n]``.
        reference: Estimated error of the reference ``[n]``; None where it is not known.
        bound: Bound of the largest error at :data:`CONFIDENCE`, NaN for inputs that it does not
            cover or that there was no time for ``[n]``; None without a calibration.
        distance: From the centre of the distribution of the inputs ``[n]``, about one for most;
            None where the distribution is not known.
    """

    numbers: np.ndarray
    error: np.ndarray
    largest: np.ndarray
    reference: np.ndarray | None = None
    bound: np.ndarray | None = None
    distance: np.ndarray | None = None

    def rows(self) -> dict[str, int]:
        """Choose the inputs of which fields are shown: name → place among the n."""
        order = self.error.argsort(kind="stable").tolist()
        if len(order) == 1:
            return {"only": order[0]}
        if len(order) == 2:
            return {"best": order[0], "worst": order[1]}
        return {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}

    def covered(self) -> tuple[int, int] | None:
        """Count the inputs whose error is within its bound, and those that have one."""
        if self.bound is None or not (known := np.isfinite(self.bound)).any():
            return None
        return int((self.largest <= self.bound)[known].sum()), int(known.sum())


def measure_errors(
    run: Run, judged: JudgedSamples, errors: Tensor, numbers: Tensor
) -> HeldOutErrors:
    """Lay the errors of held-out inputs beside bounds and distances.

    Args:
        run: The run.
        judged: The inputs, with solutions and predictions.
        errors: Their relative L2 errors ``[n]``.
        numbers: Of the inputs, from 1 ``[n]``.
    """
    held_out = judged.held_out
    unknowns = [name for name in run.problem.unknowns if name in held_out.truth]
    each = [relative_l2(judged.prediction[n], held_out.truth[n]) for n in unknowns]
    typicality = None
    with suppress(NotSupportedError):
        typicality = run.typicality(held_out.inputs)
    bound, estimate = _bounds(run, judged, typicality), held_out.error_estimate
    return HeldOutErrors(
        numbers.numpy(),
        errors.double().numpy(),
        torch.stack(each).amax(0).double().numpy(),
        None if estimate is None else estimate.double().numpy(),
        None if bound is None else bound.numpy(),
        None if typicality is None else typicality.distance.numpy(),
    )


def _bounds(run: Run, judged: JudgedSamples, typicality: Typicality | None) -> Tensor | None:
    """Bound the errors of inputs as a prediction does ``[n]``; None without a calibration."""
    observed, count = judged.held_out.inputs, len(judged.held_out.accepted)
    try:
        calibrated = run.calibration
    except DamagedFileError as error:
        logger.warning("%s", error)
        return None
    if calibrated is None:
        return None
    try:
        bound = calibrated.bounds(_indicators(run, calibrated, observed, count), CONFIDENCE)[""]
    except (NotSupportedError, UsageError):  # too few inputs for the confidence
        return None
    outside = None if typicality is None else ~typicality.inside
    return bound.masked_fill(uncovered_inputs(calibrated, observed, outside, count), torch.nan)


def _indicators(run: Run, calibrated: Calibration, observed: Inputs, count: int) -> Tensor:
    """Return the indicators of as many inputs as time allows, NaN for the rest ``[n]``.

    Raises:
        NotSupportedError: Where the equations cannot be evaluated.
    """
    if calibrated.indicator.is_constant:
        return indicators_of(run, calibrated, observed, count)[0]
    found, begun = torch.full((count,), torch.nan, dtype=torch.float64), time.monotonic()
    for rows in torch.arange(count).split(RESIDUAL_AT_ONCE):
        own = {name: samples.repeat(count).take(rows) for name, samples in observed.items()}
        found[rows] = indicators_of(run, calibrated, own, len(rows))[0]
        if time.monotonic() - begun > SECONDS:
            break
    return found
