"""Periodic evolutions for the Fourier method, by Fourier series with up to a million modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import erf, erfcx, ive

from reference_problems.judged import Fields, RandomProblems

_MODES = 2**20
_PLACE = {"law": "uniform", "low": 0.2, "high": 0.8}
_SIZE = {"law": "log_uniform", "low": 1e-6, "high": 1.0}
_WIDTH = {"law": "log_uniform", "low": 1e-5, "high": 1e-2}
_PULSE = {"g": {"law": "uniform", "low": 0.1, "high": 0.9}, "v": _WIDTH}
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


def wave(k: np.ndarray) -> np.ndarray:
    """Coefficients of the smooth part."""
    return -0.5j * (k == 1) + 0.25 * (k == 2)


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
        {"c": _PLACE, "w": _WIDTH},
    ),
}
"""An expression of x and random numbers, its coefficients, the distributions of the numbers."""
SOURCES = {
    **FEATURES,
    "narrow source": (
        "exp(-(sin(pi*(x - c))/(pi*w))**2)/w",
        lambda v, k: spike(v, k) / v["w"],
        {"c": _PLACE, "w": _WIDTH},
    ),
    "wave": (_WAVE, lambda v, k: wave(k), {}),
}
"""The same for sources; narrow ones of width w are 1/w high."""


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
    expression, series, numbers = FEATURES[feature]

    def coefficients(v: Numbers, k: np.ndarray, rate: np.ndarray, t: float) -> np.ndarray:
        return (wave(k) + v["a"] * series(v, k)) * np.exp(rate * t)

    return _problems(equation, coefficients, numbers, initial=f"{_WAVE} + a*({expression})")


def driven(equation: str, feature: str, pulse: bool) -> RandomProblems:
    """Add a source to a linear equation, at all times or in a pulse."""
    expression, series, numbers = SOURCES[feature]
    if pulse:
        expression, numbers = f"exp(-((t - g)/v)**2)/v*({expression})", {**_PULSE, **numbers}

    def coefficients(v: Numbers, k: np.ndarray, rate: np.ndarray, t: float) -> np.ndarray:
        gained = np.where(rate == 0, t, np.expm1(rate * t) / np.where(rate == 0, 1, rate))
        source, found = v["a"] * series(v, k), wave(k) * np.exp(rate * t)
        if pulse:
            held = np.abs(source) > 1e-18
            gained[held] = in_pulse(rate[held], t, v["g"], v["v"])
        return found + source * gained

    return _problems(equation, coefficients, numbers, source=f"a*{expression}")


def in_pulse(rate: np.ndarray, t: float, centre: float, width: float) -> np.ndarray:
    """∫₀ᵗ exp(rate·(t − s) − ((s − centre)/width)²) ds / width, of rates with real parts ≤ 0.

    With z = (s − centre)/width + σ and σ = rate·width/2 it is an integral of exp(−z²); the error
    functions are scaled, and of arguments with positive real parts, so that nothing overflows.
    """
    sigma, found, negative = rate * width / 2, [], []
    for s, decay in ((0.0, rate * t), (t, 0 * rate)):
        end = (s - centre) / width
        sign = np.where((end + sigma).real < 0, -1, 1)
        found.append(sign * np.exp(decay - end**2) * erfcx(sign * (end + sigma)))
        negative.append(sign < 0)
    across = negative[0] & ~negative[1]
    peak = np.exp(np.where(across, rate * (t - centre) + sigma**2, -np.inf))
    return np.sqrt(np.pi) / 2 * (found[0] - found[1] + 2 * peak)


def _problems(
    equation: str,
    coefficients: Callable[[Numbers, np.ndarray, np.ndarray, float], np.ndarray],
    numbers: Mapping[str, Any],
    initial: str = _WAVE,
    source: str = "0",
) -> RandomProblems:
    """Problems of a linear equation, by the coefficients of their solutions at a time."""
    text, symbol = SYMBOLS[equation]
    k = np.arange(_MODES)
    rate = symbol(2 * np.pi * k).astype(complex)

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        found = [on_points(coefficients(v, k, rate, t), len(axes[0])) for t in times]
        return {"u": np.stack(found)}

    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {"a": _SIZE, **numbers},
        "equations": [f"{text} + {source}"],
        "initial": {"u": initial},
        "boundary": {"x": "periodic"},
        "save": {"t": 4, "x": 256},
    }
    return RandomProblems(words, exact, 1e-5)


def plane() -> RandomProblems:
    """Heat in the plane from a wave and a spike of random size."""
    expression, series, numbers = FEATURES["spike"]
    k = np.arange(_MODES)
    rate = SYMBOLS["heat"][1](2 * np.pi * k)

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        def along(axis: int, start: np.ndarray, t: float) -> np.ndarray:
            return on_points(start * np.exp(rate * t), len(axes[axis]))

        places = v, {**v, "c": v["h"]}
        spikes = [series(own, k) for own in places]
        waves = -0.5j * (k == 1), 0.5 * (k == 2)
        return {
            "u": np.stack(
                [
                    np.multiply.outer(*(along(i, waves[i], t) for i in (0, 1)))
                    + v["a"] * np.multiply.outer(*(along(i, spikes[i], t) for i in (0, 1)))
                    for t in times
                ]
            )
        }

    spike = f"({expression})*({expression.replace('x - c', 'y - h')})"
    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1], "y": [0, 1]},
        "unknowns": ["u"],
        "inputs": {"a": _SIZE, "h": _PLACE, **numbers},
        "equations": ["dt(u) = lap(u)/100"],
        "initial": {"u": f"sin(2*pi*x)*cos(4*pi*y) + a*{spike}"},
        "boundary": {"x": "periodic", "y": "periodic"},
        "save": {"t": 4, "x": 48, "y": 48},
    }
    return RandomProblems(words, exact, 1e-5)


def crossed() -> RandomProblems:
    """Heat that a pulse in another unknown warms."""

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        t, x = times[:, None], axes[0]
        gained = np.sqrt(np.pi) / 2 * (erf((t - v["c"]) / v["w"]) + erf(v["c"] / v["w"]))
        wave = np.exp(-0.04 * np.pi**2 * t) * np.sin(2 * np.pi * x)
        return {"s": t + 0 * x, "u": wave + gained}

    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["s", "u"],
        "inputs": {"c": _PLACE, "w": _WIDTH},
        "equations": ["dt(s) = 1", "dt(u) = dxx(u)/100 + exp(-((s - c)/w)**2)/w"],
        "initial": {"s": 0, "u": "sin(2*pi*x)"},
        "boundary": {"x": "periodic"},
        "save": {"t": 4, "x": 64},
    }
    return RandomProblems(words, exact, 1e-5)


CLASSES = {
    **{
        f"{equation}, {feature} in the initial data": linear(equation, feature)
        for equation in SYMBOLS
        for feature in FEATURES
    },
    **{
        f"{equation}, {feature} in the source": driven(equation, feature, False)
        for equation in ("heat", "advection")
        for feature in ("jump", "kink", "narrow source")
    },
    **{
        f"{equation}, {feature} in a pulse": driven(equation, feature, True)
        for equation in ("heat", "advection")
        for feature in ("wave", "narrow source")
    },
    "heat in the plane, spike in the initial data": plane(),
    "heat, pulse in an unknown": crossed(),
}
