"""Ordinary differential equations, by closed forms, quadrature and SciPy's integrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq
from scipy.special import erf

from reference_problems.judged import Fields, RandomProblems
from reference_problems.quadrature import PLACE, WIDTH, decayed_pulse, over_pulse, pulse

Numbers = Mapping[str, float]
_TOLERANCE = 1e-6
_RATE = {"law": "log_uniform", "low": 0.3, "high": 30.0}


def problems(
    exact: Callable[[Numbers, np.ndarray], Any],
    equations: Sequence[str],
    initial: Mapping[str, Any],
    inputs: Mapping[str, Any],
    end: float = 1.0,
) -> RandomProblems:
    """Problems over [0, end] whose exact solution gives one row of values for each unknown."""
    unknowns = list(dict.fromkeys(key.removeprefix("dt(").rstrip(")") for key in initial))

    def fields(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        rows = np.broadcast_to(exact(v, times), (len(unknowns), len(times)))
        return dict(zip(unknowns, rows, strict=True))

    words = {
        "name": "ordinary",
        "time": {"t": [0, end]},
        "unknowns": unknowns,
        "inputs": inputs,
        "equations": list(equations),
        "initial": initial,
        "save": {"t": 9},
    }
    return RandomProblems(words, fields, _TOLERANCE)


def by_scipy(
    slopes: Callable[[Numbers, float, np.ndarray], Any],
    equations: Sequence[str],
    initial: Mapping[str, float],
    inputs: Mapping[str, Any],
    end: float,
    **settings: Any,
) -> RandomProblems:
    """The same, with a truth that is integrated."""
    start = list(initial.values())

    def exact(v: Numbers, times: np.ndarray) -> np.ndarray:
        given = {"method": "DOP853", "t_eval": times, "rtol": 1e-13, "atol": 1e-14, **settings}
        run = solve_ivp(lambda t, y: slopes(v, t, y), (0, end), start, **given)
        return run.y[: len({k.strip("dt()") for k in initial})]

    return problems(exact, equations, initial, inputs, end)


def relaxation(v: Numbers, t: np.ndarray) -> np.ndarray:
    """Of a pulse on top of a decay."""
    return np.exp(-v["r"] * t) + v["a"] * decayed_pulse(v["r"], v["c"], v["w"], t)


def oscillation(v: Numbers, t: np.ndarray) -> np.ndarray:
    """Of a pulse that strikes an oscillator."""
    r, own = v["r"], t[:, None]
    struck = over_pulse(lambda s: np.sin(r * (own - s)) / r, v["c"], v["w"], t)
    return np.cos(r * t) + v["a"] * struck


def train(v: Numbers, t: np.ndarray) -> np.ndarray:
    """Of pulses at every fifth of the time."""
    places = [v["c"] / 5 + k / 5 for k in range(5)]
    return sum((decayed_pulse(v["r"], c, v["w"], t) for c in places), np.exp(-v["r"] * t))


def kinked(v: Numbers, t: np.ndarray) -> np.ndarray:
    """Of dt(u) = −r u + a abs(t − c) from 1."""
    r, c = v["r"], v["c"]
    ramp = (t - c) / r - 1 / r**2
    start = ramp + (c / r + 1 / r**2) * np.exp(-r * t)  # of dt(u) = −r u + (t − c) from 0
    late = np.maximum(t - c, 0)
    turned = late / r - 1 / r**2 + np.exp(-r * late) / r**2
    return np.exp(-r * t) + v["a"] * (2 * turned - start)


def crossed(v: Numbers, t: np.ndarray) -> np.ndarray:
    """Of dt(s) = 1 and a pulse in s."""
    return np.stack(
        [t, 1 + np.sqrt(np.pi) / 2 * (erf((t - v["c"]) / v["w"]) + erf(v["c"] / v["w"]))]
    )


def bottleneck(v: Numbers, t: np.ndarray) -> list[float]:
    """Of dt(u) = 1 − (1 − e) exp(−((u − c)/w)²) from 0, by the time that each value takes."""
    c, w, e = v["c"], v["w"], v["e"]
    ends = sorted(c + k * w for k in (-6, -1, -np.sqrt(e), 0, np.sqrt(e), 1, 6))

    def slow(u: float) -> float:
        pulse = (1 - e) * np.exp(-(((u - c) / w) ** 2))
        return pulse / (1 - pulse)

    def delay(u: float) -> float:
        at = [0.0, *(q for q in ends if 0 < q < u), u]
        exact = {"epsabs": 1e-14, "epsrel": 1e-12, "limit": 200}
        return sum(quad(slow, a, b, **exact)[0] for a, b in pairwise(at))

    return [brentq(lambda u, q=q: u + delay(u) - q, 0, q + 1e-15, xtol=1e-14) for q in t]


def forced(v: Numbers, t: np.ndarray) -> np.ndarray:
    """Of dt(u) = −r (u − cos(k t)) from 0."""
    r, k = v["r"], v["k"]
    return r * (r * np.cos(k * t) + k * np.sin(k * t) - r * np.exp(-r * t)) / (r**2 + k**2)


_SIZE = {"law": "log_uniform", "low": 1e-4, "high": 1.0}
_PULSE = {"r": _RATE, "a": _SIZE, "c": PLACE, "w": WIDTH}
_FREQUENCY = {"law": "log_uniform", "low": 1.0, "high": 300.0}

CLASSES = {
    "pulse, relaxation": problems(relaxation, [f"dt(u) = -r*u + a*{pulse('t')}"], {"u": 1}, _PULSE),
    "pulse, oscillator": problems(
        oscillation, [f"dtt(u) + r**2*u = a*{pulse('t')}"], {"u": 1, "dt(u)": 0}, _PULSE
    ),
    "five pulses": problems(
        train,
        ["dt(u) = -r*u + " + " + ".join(pulse("t", f"(c + {k})/5") for k in range(5))],
        {"u": 1},
        {n: _PULSE[n] for n in "rcw"},
    ),
    "pulse in an unknown": problems(
        crossed, ["dt(s) = 1", f"dt(u) = {pulse('s')}"], {"s": 0, "u": 1}, {"c": PLACE, "w": WIDTH}
    ),
    "bottleneck in an unknown": problems(
        bottleneck,
        ["dt(u) = 1 - (1 - e)*exp(-((u - c)/w)**2)"],
        {"u": 0},
        {"c": PLACE, "w": WIDTH, "e": {"law": "log_uniform", "low": 1e-4, "high": 0.5}},
    ),
    "kink of the forcing": problems(
        kinked, ["dt(u) = -r*u + a*abs(t - c)"], {"u": 1}, {"r": _RATE, "a": _RATE, "c": PLACE}
    ),
    "oscillating forcing": problems(
        forced, ["dt(u) = -r*(u - cos(k*t))"], {"u": 0}, {"r": _RATE, "k": _FREQUENCY}
    ),
    "stiff relaxation": problems(
        forced,
        ["dt(u) = -r*(u - cos(k*t))"],
        {"u": 0},
        {
            "r": {"law": "log_uniform", "low": 1e2, "high": 1e6},
            "k": {"law": "log_uniform", "low": 1.0, "high": 30.0},
        },
    ),
    "damped oscillator": problems(
        lambda v, t: (
            np.exp(-0.1 * v["r"] * t) * np.stack([2 * np.cos(v["k"] * t), -2 * np.sin(v["k"] * t)])
        ),
        ["dt(x) = -0.1*r*x + k*y", "dt(y) = -k*x - 0.1*r*y"],
        {"x": 2, "y": 0},
        {"r": _RATE, "k": {"law": "uniform", "low": 1.0, "high": 30.0}},
    ),
    "cubic oscillator": by_scipy(
        lambda v, t, y: [
            -v["r"] * y[0] ** 3 + v["k"] * y[1] ** 3,
            -v["k"] * y[0] ** 3 - v["r"] * y[1] ** 3,
        ],
        ["dt(x) = -r*x**3 + k*y**3", "dt(y) = -k*x**3 - r*y**3"],
        {"x": 2, "y": 0},
        {
            "r": {"law": "uniform", "low": 0.05, "high": 0.2},
            "k": {"law": "uniform", "low": 1.0, "high": 3.0},
        },
        10.0,
    ),
    "Van der Pol": by_scipy(
        lambda v, t, y: [y[1], v["r"] * (1 - y[0] ** 2) * y[1] - y[0]],
        ["dtt(u) - r*(1 - u**2)*dt(u) + u = 0"],
        {"u": 2, "dt(u)": 0},
        {"r": {"law": "log_uniform", "low": 0.1, "high": 30.0}},
        20.0,
        method="Radau",
        rtol=1e-9,
    ),
    "Lotka and Volterra": by_scipy(
        lambda v, t, y: [y[0] * (1 - y[1]), v["r"] * y[1] * (y[0] - 1)],
        ["dt(u) = u*(1 - v)", "dt(v) = r*v*(u - 1)"],
        {"u": 3, "v": 1},
        {"r": {"law": "uniform", "low": 0.3, "high": 3.0}},
        20.0,
    ),
    "Lorenz": by_scipy(
        lambda v, t, y: [
            10 * (y[1] - y[0]),
            y[0] * (v["r"] - y[2]) - y[1],
            y[0] * y[1] - 8 / 3 * y[2],
        ],
        ["dt(x) = 10*(y - x)", "dt(y) = x*(r - z) - y", "dt(z) = x*y - 8/3*z"],
        {"x": 1, "y": 1, "z": 1},
        {"r": {"law": "uniform", "low": 10.0, "high": 30.0}},
        3.0,
    ),
    "pendulum with a pulse": by_scipy(
        lambda v, t, y: [
            y[1],
            -v["r"] * np.sin(y[0]) + np.exp(-(((t - v["c"]) / v["w"]) ** 2)) / v["w"],
        ],
        [f"dtt(u) + r*sin(u) = {pulse('t')}"],
        {"u": 1, "dt(u)": 0},
        {**{n: _PULSE[n] for n in "rc"}, "w": {"law": "log_uniform", "low": 1e-3, "high": 1e-2}},
        1.0,
        max_step=1e-3,
    ),
}
"""What is integrated → problems."""
