"""Inviscid Burgers for finite volumes, by the formula of Lax and Hopf.

u = φ_x with φ(t, x) = min over y of U(y) + (x − y)²/(2t), U the antiderivative of the initial data
(P. D. Lax, Comm. Pure Appl. Math. 10 (1957), doi:10.1002/cpa.3160100406): means over windows are
differences of φ. A source g(t) adds its integral G and moves everything by the integral of G. Data
g(τ) > 0 at x = 0 add the candidates x²/(2(t − τ)) − ∫ g²/2, of what has entered at τ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import erf

from piop.reference.solution import Limits
from reference_problems.judged import Fields, RandomProblems

Numbers = Mapping[str, float]
Antiderivative = Callable[[Numbers, np.ndarray], np.ndarray]

_STEPS = 20_000
_PLACE = {"law": "uniform", "low": 0.2, "high": 0.8}
_EARLY = {"law": "uniform", "low": 0.1, "high": 0.3}
_SIZE = {"law": "log_uniform", "low": 0.01, "high": 1.0}
_NARROW = {"law": "log_uniform", "low": 1e-5, "high": 1e-2}
_EQUATION = "dt(u) + dx(u**2/2) = 0"
_PULSE = "exp(-((t - c)/w)**2)"


def normal(v: Numbers, s: np.ndarray, width: float) -> np.ndarray:
    """∫ exp(−((s − c)/width)²)/width ds from −∞."""
    return 0.5 * np.sqrt(np.pi) * (1 + erf((s - v["c"]) / width))


def smooth(v: Numbers, x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``sin(2*pi*x)``."""
    return -np.cos(2 * np.pi * x) / (2 * np.pi)


def jump(v: Numbers, x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``where(abs(x - c) < w, 1, 0) - 2*w``."""
    turns = np.floor(x)
    inside = np.clip(x - turns - v["c"] + v["w"], 0, 2 * v["w"])
    return inside + 2 * v["w"] * (turns - x)


def spike(v: Numbers, x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``exp(-((x - c)/w)**2)/sqrt(w) - sqrt(pi*w)``."""
    turns, size = np.floor(x), np.sqrt(v["w"])
    return size * (normal(v, x - turns, v["w"]) + np.sqrt(np.pi) * (turns - x))


FEATURES: dict[str, tuple[str, Antiderivative, dict[str, Any]]] = {
    "jump": (
        "where(abs(x - c) < w, 1, 0) - 2*w",
        jump,
        {"c": _PLACE, "w": {"law": "uniform", "low": 0.02, "high": 0.2}},
    ),
    "spike": (
        "exp(-((x - c)/w)**2)/sqrt(w) - sqrt(pi*w)",
        spike,
        {"c": _PLACE, "w": _NARROW},
    ),
}
"""Data without a mean, their antiderivative, the distributions of their numbers."""


def near(v: Numbers) -> np.ndarray:
    """Points at a feature."""
    return v["c"] + v["w"] * np.linspace(-5, 5, 401)


def lowest(
    potential: Callable[[np.ndarray], np.ndarray], v: Numbers, x: np.ndarray, t: float
) -> np.ndarray:
    """φ(t, x) on a circle of length one."""
    offsets = np.linspace(-3 * t, 3 * t, _STEPS)  # no value is above 3
    rest = near(v) + np.arange(-3, 4)[:, None]
    return np.array(
        [
            min(
                np.min(potential(e + offsets) + offsets**2 / (2 * t)),
                np.min(potential(rest) + (e - rest) ** 2 / (2 * t)),
            )
            for e in x
        ]
    )


def window_means(
    potential: Callable[[np.ndarray], np.ndarray], v: Numbers, x: np.ndarray, t: float, move: float
) -> np.ndarray:
    """Means over windows around even points x of the solution, moved to the right."""
    edges = np.append(x, x[-1] + 1 / len(x)) - 0.5 / len(x) - move
    return np.diff(lowest(potential, v, edges, t)) * len(x)


def started(feature: str) -> RandomProblems:
    """Start from a wave and a feature."""
    expression, antiderivative, numbers = FEATURES[feature]

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        def potential(x: np.ndarray) -> np.ndarray:
            return smooth(v, x) + v["a"] * antiderivative(v, x)

        return {"u": np.stack([window_means(potential, v, axes[0], t, 0.0) for t in times])}

    initial = f"sin(2*pi*x) + a*({expression})"
    return _problems(exact, _EQUATION, initial, {"a": _SIZE, **numbers})


def pulsed() -> RandomProblems:
    """Drive everything by a pulse in time."""

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        def potential(x: np.ndarray) -> np.ndarray:
            return smooth(v, x)

        out = []
        for t in times:
            late = np.linspace(0, t, 200_001)
            speed = v["a"] * (normal(v, late, v["w"]) - normal(v, np.zeros(1), v["w"]))
            move = float(np.trapezoid(speed, late))
            out.append(window_means(potential, v, axes[0], t, move) + speed[-1])
        return {"u": np.stack(out)}

    numbers = {"a": _SIZE, "c": _EARLY, "w": _NARROW}
    return _problems(exact, f"dt(u) + dx(u**2/2) = a*{_PULSE}/w", "sin(2*pi*x)", numbers)


def let_in() -> RandomProblems:
    """Let a pulse in through the wall of a steady stream."""

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        x = axes[0]
        edges = np.clip(np.append(x, x[-1] + x[1]) - x[1] / 2, 0, 1)
        means = []
        for t in times:
            late = np.append(np.linspace(0, t, _STEPS, endpoint=False), near(v))
            late = late[late < t]
            root, narrow = np.sqrt(v["w"]), v["w"] / np.sqrt(2)
            entered = late + 2 * v["a"] * root * normal(v, late, v["w"])
            entered += v["a"] ** 2 / np.sqrt(2) * normal(v, late, narrow)
            found = [
                min(e - t / 2, np.min(e**2 / (2 * (t - late)) - entered / 2)) if e else 0.0
                for e in edges
            ]
            whole = t + 2 * v["a"] * root * normal(v, t, v["w"])
            found[0] = -0.5 * (whole + v["a"] ** 2 / np.sqrt(2) * normal(v, t, narrow))
            means.append(np.diff(found) / np.diff(edges))
        return {"u": np.stack(means)}

    numbers = {"a": {"law": "log_uniform", "low": 0.1, "high": 1.0}, "c": _EARLY, "w": _NARROW}
    inflow = f"1 + a*{_PULSE}/sqrt(w)"
    return _problems(exact, _EQUATION, "1", numbers, inflow)


def through_source() -> RandomProblems:
    """Hold the steady stream through a narrow source: u²/2 grows by the integral of the source."""

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        x = axes[0]
        edges = np.clip(np.append(x, x[-1] + x[1]) - x[1] / 2, 0, 1)
        passed: list[float] = []
        for low, high in pairwise(edges):
            at = np.unique(np.clip(np.append(np.linspace(low, high, 9), near(v)), low, high))
            u = np.sqrt(1 + v["a"] * np.clip((at - v["c"]) / v["w"] + 1, 0, 2))
            passed.append(float(np.trapezoid(u, at)) / (high - low))
        return {"u": np.stack([np.array(passed)] * len(times))}

    numbers = {"a": {"law": "log_uniform", "low": 0.1, "high": 1.0}, "c": _PLACE, "w": _NARROW}
    equation = "dt(u) + dx(u**2/2) = where(abs(x - c) < w, a/(2*w), 0)"
    initial = "sqrt(1 + a*min(max((x - c)/w + 1, 0), 2))"
    return _problems(exact, equation, initial, numbers, "1")


def _problems(
    exact: Callable[..., Fields],
    equation: str,
    initial: str,
    numbers: Mapping[str, Any],
    inflow: str = "",
) -> RandomProblems:
    """Problems on a circle, or on an interval that something flows into."""
    inlet = {"x.min": {"dirichlet": {"u": inflow}}, "x.max": "outflow"}
    words = {
        "name": "random",
        "time": {"t": [0, 0.4]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": numbers,
        "equations": [equation],
        "initial": {"u": initial},
        "boundary": inlet if inflow else {"x": "periodic"},
        "save": {"t": 3, "x": 65 if inflow else 64},
    }
    return RandomProblems(words, exact, 2e-2, Limits(modes=(1024, 1, 1)))


CLASSES = {
    "periodic, pulse in time": pulsed(),
    **{f"periodic, {feature} in the initial data": started(feature) for feature in FEATURES},
    "inlet, pulse in the inflow": let_in(),
    "inlet, narrow source": through_source(),
}
