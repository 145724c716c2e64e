"""Periodic evolutions for the Fourier method, by Fourier series with half a million modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import erf, ive

from reference_problems.judged import Fields, RandomProblems
from tests.oracles import burgers_cole_hopf

_MODES = 2**19
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

    words = periodic(text, f"{_WAVE} + a*({expression})", {"a": _SIZE, **numbers})
    return RandomProblems(words, exact, 1e-5)


PULSE = "exp(-((t - c)/w)**2)/w"
_PULSE = {
    "a": {"law": "uniform", "low": 0.1, "high": 1.0},
    "c": _PLACE,
    "w": {"law": "log_uniform", "low": 1e-5, "high": 0.1},
}


def pulse_integral(v: Numbers, t: float, decay: complex = 0.0) -> complex:
    """∫ e^(−decay·(t − s)) g(s) ds from 0 to t of the pulse g in time."""
    w, c, bend = v["w"], v["c"], decay * v["w"] / 2
    ends = erf((t - c) / w - bend) - erf(-c / w - bend)
    return np.sqrt(np.pi) / 2 * np.exp(bend**2 - decay * (t - c)) * ends


def periodic(equation: str, initial: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Words of a problem of one unknown on a periodic interval."""
    return {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": numbers,
        "equations": [equation],
        "initial": {"u": initial},
        "boundary": {"x": "periodic"},
        "save": {"t": 4, "x": 256},
    }


def forced(name: str) -> RandomProblems:
    """Force a linear equation by a pulse in time."""
    text, symbol = SYMBOLS[name]
    rate = complex(symbol(np.array(2 * np.pi)))

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        size = [np.exp(rate * t) + v["a"] * pulse_integral(v, t, -rate) for t in times]
        return {"u": (np.array(size)[:, None] * np.exp(2j * np.pi * axes[0])).real}

    equation = _add(text, f"a*{PULSE}*cos(2*pi*x)")
    return RandomProblems(periodic(equation, "cos(2*pi*x)", _PULSE), exact, 1e-5)


def _add(equation: str, source: str) -> str:
    """Add a source to the right side."""
    left, right = equation.split(" = ")
    return f"{left} = {right} + {source}"


def pulsed_coefficient() -> RandomProblems:
    """Heat whose diffusivity pulses in time."""

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        clock = np.array([t + v["a"] * pulse_integral(v, t) for t in times])
        return {"u": np.exp(-0.04 * np.pi**2 * clock)[:, None] * np.cos(2 * np.pi * axes[0])}

    words = periodic(f"dt(u) = (1 + a*{PULSE})*dxx(u)/100", "cos(2*pi*x)", _PULSE)
    return RandomProblems(words, exact, 1e-5)


def sourced(feature: str) -> RandomProblems:
    """Heat with a steady source that holds a feature."""
    expression, series, numbers = FEATURES[feature]
    k = np.arange(_MODES)
    rate = np.where(k == 0, -1.0, -0.04 * np.pi**2 * k**2)

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        source, points = v["a"] * series(v, k), len(axes[0])
        held = [np.where(k == 0, t, np.expm1(rate * t) / rate) * source for t in times]
        decayed = [np.where(k == 0, 1.0, np.exp(rate * t)) * wave(k) for t in times]
        return {
            "u": np.stack([on_points(a + b, points) for a, b in zip(held, decayed, strict=True)])
        }

    numbers = {"a": {"law": "log_uniform", "low": 0.01, "high": 100.0}, **numbers}
    words = periodic(f"dt(u) = dxx(u)/100 + a*({expression})", _WAVE, numbers)
    return RandomProblems(words, exact, 1e-5)


def burgers() -> RandomProblems:
    """Viscous Burgers from data that jump, by Cole and Hopf."""
    numbers = {"a": {"law": "log_uniform", "low": 1e-4, "high": 0.5}, **FEATURES["jump"][2]}

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        def antiderivative(x: np.ndarray) -> np.ndarray:
            turns = np.floor(x)
            box = np.clip(x - turns - v["c"] + v["w"], 0, 2 * v["w"]) + turns * 2 * v["w"]
            return -np.cos(2 * np.pi * x) / (2 * np.pi) + v["a"] * (box - 2 * v["w"] * x)

        return {"u": np.stack([burgers_cole_hopf(antiderivative, 0.02, axes[0], t) for t in times])}

    start = "sin(2*pi*x) + a*(where(abs(x - c) < w, 1, 0) - 2*w)"
    words = periodic("dt(u) + u*dx(u) = dxx(u)/50", start, numbers)
    return RandomProblems({**words, "save": {"t": 3, "x": 64}}, exact, 1e-5)


CLASSES = {
    **{
        f"{equation}, {feature} in the initial data": linear(equation, feature)
        for equation in SYMBOLS
        for feature in FEATURES
    },
    **{f"{equation}, pulse in time": forced(equation) for equation in SYMBOLS},
    "heat, pulse in time of the diffusivity": pulsed_coefficient(),
    **{f"heat, {feature} in the source": sourced(feature) for feature in FEATURES},
    "Burgers, jump in the initial data": burgers(),
}
