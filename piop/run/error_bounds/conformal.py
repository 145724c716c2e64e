"""Split conformal prediction: how large the next score is, with a stated probability.

Of N scores and one more, all equally likely to be the k-th largest (exchangeable, such as those of
independent inputs of one distribution), the last is at most the k-th smallest of the others with
probability k/(N + 1), whatever their distribution. Given the N scores this coverage is itself
random, distributed as Beta(k, N + 1 − k).

Sources: Vovk, Gammerman & Shafer 2005, ch. 2 and 4 (doi:10.1007/b106715); coverage given the
calibration as in Vovk 2012 (1209.2673), prop. 2a.
"""

from __future__ import annotations

import math
from contextlib import suppress

from torch import Tensor

from piop.arguments import real_number
from piop.errors import UsageError

ROUNDING = 1e-9
"""Excess over a whole number that counts as rounding."""
LOW = 0.05
"""Quantile of the coverage that is stated beside it."""


def check_confidence(confidence: float) -> float:
    """Return a confidence in (0, 1).

    Raises:
        UsageError: If it is none.
    """
    with suppress(UsageError):
        if 0 < (found := real_number("confidence", confidence)) < 1:
            return found
    raise UsageError(f"confidence: {confidence!r} is not a number between 0 and 1, such as 0.9")


def fewest_scores(confidence: float) -> int:
    """Return how many scores a confidence needs at least: c/(1 − c)."""
    return math.ceil(confidence / (1 - confidence) - ROUNDING)


def rank(count: int, confidence: float) -> int:
    """Return k = ⌈(N + 1)c⌉, the rank of the score that bounds the next one.

    Raises:
        UsageError: If there are too few scores, so that no rank bounds it.
    """
    k = math.ceil((count + 1) * confidence - ROUNDING)
    if k > count:
        fewest = fewest_scores(confidence)
        raise UsageError(
            f"confidence: {confidence:g} needs a calibration of at least {fewest} inputs; there "
            f"are {count}"
        )
    return max(k, 1)


def bounding_score(scores: Tensor, confidence: float) -> float:
    """Return the score that the next one exceeds with probability 1 − c at most.

    Args:
        scores: Of the calibration ``[N]``.
        confidence: c.

    Raises:
        UsageError: If there are too few.
    """
    return float(scores.sort().values[rank(len(scores), confidence) - 1])


def coverage(count: int, confidence: float) -> tuple[float, float]:
    """Return the probability that the bound holds, and its 5 % quantile over calibrations.

    Args:
        count: N, the number of scores.
        confidence: c.

    Raises:
        UsageError: If there are too few.

    Example:
        >>> expected, low = coverage(99, 0.9)
        >>> round(expected, 3), round(low, 3)
        (0.9, 0.847)
    """
    from scipy.special import betaincinv  # slow to import, and only error bounds need it

    k = rank(count, confidence)
    return k / (count + 1), float(betaincinv(k, count + 1 - k, LOW))
