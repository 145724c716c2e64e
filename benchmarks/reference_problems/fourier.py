"""Periodic evolutions for the Fourier method, by Fourier series with up to a million modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ive

from reference_problems.judged import Fields, RandomProblems

_MODES = 2**20
_PLACE = {"law": "uniform", "low": 0.2, "high": 0.8}
_SIZE = {"law": "log_uniform", "low": 1e-6, "high": 1.0}
_WAVE = "sin(2*pi*x) + 0.5*cos(4*pi*x)"

Numbers = Mapping[str, float]
Series = Callable[[Numbers, np.ndarray], np.ndarray]
"""Scalar inputs by name, whole numbers k ≥ 0 → coefficients of exp(2πikx)."""


def jump(v: Numbers, k: np.ndarray) -> np.ndarray:
    """Coefficients of ``where(abs(x - c) < w, 1, 0)``."""
    return 2 * v["w"] * np.sinc(2 * v["w"] * k) * np.exp(-2j * np.pi * k * v["c"])


def kink(v: Numbers, k: np.ndarray) -> np.ndarray:
    """Coefficients of ``abs(sin(pi*(x - c)))``."""
    return -2 / np.pi / (4 * k**2 - 1) * np.exp(-2j * np.pi * k * v["c"])


def seam(v: Numbers, k: np.ndarray) -> np.ndarray:
    """Coefficients of ``where(x < -c, 1, x)``: x on [0, 1), which jumps at the seam."""
    rest = np.where(k == 0, 1, k)
    return np.where(k == 0, 0.5, 1j / (2 * np.pi * rest))


def spike(v: Numbers, k: np.ndarray) -> np.ndarray:
    """Coefficients of ``exp(-(sin(pi*(x - c))/(pi*w))**2)``."""
    return ive(k, 0.5 / (np.pi * v["w"]) ** 2) * np.exp(-2j * np.pi * k * v["c"])


FEATURES: dict[str, tuple[str, Series, dict[str, Any]]] = {
    "jump": (
        "where(abs(x - c) < w, 1, 0)",
        jump,
        {"c": _PLACE, "w": {"law": "uniform", "low": 0.02, "high": 0.2}},
    ),
    "jump at the seam": ("where(x < -c, 1, x)", seam, {"c": _PLACE}),
    "kink": ("abs(sin(pi*(x - c)))", kink, {"c": _PLACE}),
    "spike": (
        "exp(-(sin(pi*(x - c))/(pi*w))**2)",
        spike,
        {"c": _PLACE, "w": {"law": "log_uniform", "low": 1e-5, "high": 1e-2}},
    ),
}
"""An expression of x and random numbers, its coefficients, the distributions of the numbers."""


def wave(k: np.ndarray) -> np.ndarray:
    """Coefficients of the smooth part."""
    return -0.5j * (k == 1) + 0.25 * (k == 2)


def on_points(coefficients: np.ndarray, n: int) -> np.ndarray:
    """Values ``[n]`` at even points of [0, 1) of a real series, from those of k ≥ 0."""
    whole = np.pad(coefficients, (0, -len(coefficients) % n)).reshape(-1, n).sum(0)
    return 2 * n * np.fft.ifft(whole).real - coefficients[0].real


SYMBOLS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "heat": ("dt(u) = dxx(u)/100", lambda q: -(q**2) / 100),
    "advection": ("dt(u) + 0.7*dx(u) = 0", lambda q: -0.7j * q),
    "Airy": ("dt(u) + dxxx(u)/1000 = 0", lambda q: 1j * q**3 / 1000),
    "Airy, damped": ("dt(u) = (dxx(u) - dxxx(u))/1000", lambda q: (1j * q**3 - q**2) / 1000),
    "fourth order": ("dt(u) = -dxx(u)/100 - dxxxx(u)/1e4", lambda q: q**2 / 100 - q**4 / 1e4),
}
"""Linear equations and their symbols, of angular wave numbers."""


def linear(equation: str, feature: str) -> RandomProblems:
    """Start a linear equation from smooth data and a feature of random size."""
    text, symbol = SYMBOLS[equation]
    expression, series, numbers = FEATURES[feature]
    k = np.arange(_MODES)
    rate = symbol(2 * np.pi * k)

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        start = wave(k) + v["a"] * series(v, k)
        points = len(axes[0])
        return {"u": np.stack([on_points(start * np.exp(rate * t), points) for t in times])}

    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {"a": _SIZE, **numbers},
        "equations": [text],
        "initial": {"u": f"{_WAVE} + a*({expression})"},
        "boundary": {"x": "periodic"},
        "save": {"t": 4, "x": 256},
    }
    return RandomProblems(words, exact, 1e-5)


CLASSES = {
    f"{equation}, {feature} in the initial data": linear(equation, feature)
    for equation in SYMBOLS
    for feature in FEATURES
}
