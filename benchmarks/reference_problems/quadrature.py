"""Integrals that exact solutions of random problems are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf, erfc, erfcx

PLACE = {"law": "uniform", "low": 0.1, "high": 0.9}
WIDTH = {"law": "log_uniform", "low": 1e-5, "high": 1e-2}
"""Place and width of a feature, in parts of an axis or a time span."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(120)
_REACH = 9.0
"""Widths from its centre beyond which exp(−((s − c)/w)²) is below rounding."""


def pulse(variable: str, place: str = "c", width: str = "w") -> str:
    """A pulse of area √π in the words of a spec."""
    return f"exp(-(({variable} - {place})/{width})**2)/{width}"


def over_pulse(
    kernel: Callable[[np.ndarray], np.ndarray], c: float, w: float, end: np.ndarray
) -> np.ndarray:
    """∫ kernel(s) exp(−((s − c)/w)²)/w ds from 0 to each of ``end [n]``.

    Args:
        kernel: Of points ``[n, m]``; it must vary slowly over a width.
        c: Place of the pulse.
        w: Its width.
        end: Upper ends.
    """
    low = max(c - _REACH * w, 0.0)
    high = np.clip(end, low, c + _REACH * w)[:, None]
    half = 0.5 * (high - low)
    s = low + half * (1 + _NODES)
    return (half * _WEIGHTS * kernel(s) * np.exp(-(((s - c) / w) ** 2)) / w).sum(1)


def decayed_pulse(rate: Any, c: float, w: float, t: Any) -> np.ndarray:
    """∫ exp(−rate (t − s)) exp(−((s − c)/w)²)/w ds from 0 to t, for any rate ≥ 0."""
    shift = 0.5 * rate * w

    def up_to(at: Any) -> np.ndarray:
        gap = shift - (at - c) / w
        before = np.exp(-(((at - c) / w) ** 2)) * erfcx(np.maximum(gap, 0.0))
        after = np.exp(np.where(gap < 0, rate * (c - at) + shift**2, 0.0)) * erfc(gap)
        return np.where(gap < 0, after, before)

    return 0.5 * np.sqrt(np.pi) * (up_to(t) - np.exp(-rate * t) * up_to(0.0 * t))


def second_integral(x: Any, c: float, w: float) -> np.ndarray:
    """A second antiderivative of exp(−((x − c)/w)²)/w."""
    z = (x - c) / w
    return w * (0.5 * np.sqrt(np.pi) * z * erf(z) + 0.5 * np.exp(-(z**2)))


def gaussian_moment(k: float, c: float, w: float, low: Any, high: Any) -> np.ndarray:
    """∫ exp(k s) exp(−((s − c)/w)²)/w ds from low to high."""
    shift = 0.5 * k * w
    ends = erf((high - c) / w - shift) - erf((low - c) / w - shift)
    return 0.5 * np.sqrt(np.pi) * np.exp(k * c + shift**2) * ends
