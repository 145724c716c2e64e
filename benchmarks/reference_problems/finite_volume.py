"""Inviscid Burgers on a circle for finite volumes, by the formula of Lax and Hopf.

u = φ_x with φ(t, x) = min over y of U(y) + (x − y)²/(2t), U the antiderivative of the initial data
(P. D. Lax, Comm. Pure Appl. Math. 10 (1957), doi:10.1002/cpa.3160100406): means over windows are
differences of φ. A source g(t) adds its integral G and moves everything by the integral of G.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import erf

from reference_problems.fourier import PULSE, periodic, pulse_integral
from reference_problems.judged import Fields, RandomProblems

Antiderivative = Callable[[Mapping[str, float], np.ndarray], np.ndarray]

_STEPS = 100_000
_PLACE = {"law": "uniform", "low": 0.2, "high": 0.8}
_SIZE = {"law": "log_uniform", "low": 0.01, "high": 1.0}
_EQUATION = "dt(u) + dx(u**2/2) = 0"


def smooth(v: Mapping[str, float], x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``sin(2*pi*x)``."""
    return -np.cos(2 * np.pi * x) / (2 * np.pi)


def jump(v: Mapping[str, float], x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``where(abs(x - c) < w, 1, 0) - 2*w``."""
    turns = np.floor(x)
    inside = np.clip(x - turns - v["c"] + v["w"], 0, 2 * v["w"])
    return inside + 2 * v["w"] * (turns - x)


def spike(v: Mapping[str, float], x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``exp(-((x - c)/w)**2) - w*sqrt(pi)``."""
    turns, height = np.floor(x), v["w"] * np.sqrt(np.pi)
    inside = 0.5 * height * (1 + erf((x - turns - v["c"]) / v["w"]))
    return inside + height * (turns - x)


FEATURES: dict[str, tuple[str, Antiderivative, dict[str, Any]]] = {
    "jump": (
        "where(abs(x - c) < w, 1, 0) - 2*w",
        jump,
        {"c": _PLACE, "w": {"law": "uniform", "low": 0.02, "high": 0.2}},
    ),
    "spike": (
        "exp(-((x - c)/w)**2) - w*sqrt(pi)",
        spike,
        {"c": _PLACE, "w": {"law": "log_uniform", "low": 1e-5, "high": 1e-2}},
    ),
}
"""Data without a mean, their antiderivative, the distributions of their numbers."""


def window_means(
    potential: Callable[[np.ndarray], np.ndarray], x: np.ndarray, t: float, move: float
) -> np.ndarray:
    """Means over windows around even points x of the solution, moved to the right."""
    edges = np.append(x, x[-1] + 1 / len(x)) - 0.5 / len(x) - move
    reach = 3 * t  # no value is above 3
    offsets = np.linspace(-reach, reach, _STEPS)
    lowest = [np.min(potential(e + offsets) + offsets**2 / (2 * t)) for e in edges]
    return np.diff(lowest) * len(x)


def started(feature: str) -> RandomProblems:
    """Start from a wave and a feature."""
    expression, antiderivative, numbers = FEATURES[feature]

    def exact(v: Mapping[str, float], times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        def potential(x: np.ndarray) -> np.ndarray:
            return smooth(v, x) + v["a"] * antiderivative(v, x)

        return {"u": np.stack([window_means(potential, axes[0], t, 0.0) for t in times])}

    words = periodic(_EQUATION, f"sin(2*pi*x) + a*({expression})", {"a": _SIZE, **numbers})
    return RandomProblems(_short(words), exact, 2e-2)


def pulsed() -> RandomProblems:
    """Drive everything by a pulse in time."""

    def exact(v: Mapping[str, float], times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        def potential(x: np.ndarray) -> np.ndarray:
            return smooth(v, x)

        out = []
        for t in times:
            late = np.linspace(0, t, 200_001)
            speed = v["a"] * pulse_integral(v, late)
            move = float(np.trapezoid(speed, late))
            out.append(window_means(potential, axes[0], t, move) + speed[-1])
        return {"u": np.stack(out)}

    numbers = {
        "a": _SIZE,
        "c": {"law": "uniform", "low": 0.1, "high": 0.3},
        "w": {"law": "log_uniform", "low": 1e-5, "high": 0.03},
    }
    words = periodic(f"dt(u) + dx(u**2/2) = a*{PULSE}", "sin(2*pi*x)", numbers)
    return RandomProblems(_short(words), exact, 2e-2)


def _short(words: dict[str, Any]) -> dict[str, Any]:
    return {**words, "time": {"t": [0, 0.4]}, "save": {"t": 3, "x": 64}}


CLASSES = {
    "periodic, pulse in time": pulsed(),
    **{f"periodic, {feature} in the initial data": started(feature) for feature in FEATURES},
}
