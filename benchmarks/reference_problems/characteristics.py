"""Transport with an inlet for the method of characteristics, by integrals along them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import erf

from reference_problems.judged import Fields, RandomProblems

Numbers = Mapping[str, float]
_NUMBERS = {
    "a": {"law": "uniform", "low": 0.1, "high": 1.0},
    "c": {"law": "uniform", "low": 0.2, "high": 0.8},
    "w": {"law": "log_uniform", "low": 1e-5, "high": 0.1},
}


def spike(v: Numbers, x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``exp(-((x - c)/w)**2)/w``."""
    return 0.5 * np.sqrt(np.pi) * erf((x - v["c"]) / v["w"])


def step(v: Numbers, x: np.ndarray) -> np.ndarray:
    """Antiderivative of ``where(abs(x - c) < w, 1, 0)/w``."""
    return np.clip((x - v["c"]) / v["w"], -1, 1)


FEATURES: dict[str, tuple[str, Callable[[Numbers, np.ndarray], np.ndarray]]] = {
    "spike": ("exp(-(({0} - c)/w)**2)/w", spike),
    "jump": ("where(abs({0} - c) < w, 1, 0)/w", step),
}
"""An expression of a coordinate, and its antiderivative."""


def carried(feature: str, source: bool) -> RandomProblems:
    """Carry a wave through a feature of the source, or of the growth."""
    text, antiderivative = FEATURES[feature]

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        x, t = axes[0], times[:, None]
        begin = np.maximum(x - t, 0.0)
        through = v["a"] * (antiderivative(v, x) - antiderivative(v, begin))
        start = np.cos(2 * np.pi * (x - t))
        return {"u": start + through if source else start * np.exp(through)}

    given = f"a*{text.format('x')}{'' if source else '*u'}"
    return _transport(f"dt(u) + dx(u) = {given}", "cos(2*pi*x)", "cos(2*pi*t)", exact)


def from_data(at_inlet: bool) -> RandomProblems:
    """Carry a spike of the initial data, or of the inflow, at the speed 1 + x/2."""

    def spiked(v: Numbers, s: np.ndarray) -> np.ndarray:
        return 1 + v["a"] * np.exp(-(((s - v["c"]) / v["w"]) ** 2))

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        x, t = axes[0], times[:, None]
        begin, entered = (2 + x) * np.exp(-t / 2) - 2, t - 2 * np.log(1 + x / 2)
        initial, inflow = (1.0, spiked(v, entered)) if at_inlet else (spiked(v, begin), 1.0)
        return {"u": np.where(begin < 0, inflow, initial)}

    text = "1 + a*exp(-(({0} - c)/w)**2)"
    initial, inflow = ("1", text.format("t")) if at_inlet else (text.format("x"), "1")
    return _transport("dt(u) + (1 + x/2)*dx(u) = 0", initial, inflow, exact)


def _transport(
    equation: str, initial: str, inflow: str, exact: Callable[..., Fields]
) -> RandomProblems:
    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": _NUMBERS,
        "equations": [equation],
        "initial": {"u": initial},
        "boundary": {"x.min": {"dirichlet": {"u": inflow}}},
        "save": {"t": 5, "x": 41},
    }
    return RandomProblems(words, exact, 1e-6)


CLASSES = {
    **{
        f"inlet, {feature} in the {'source' if source else 'growth'}": carried(feature, source)
        for feature in FEATURES
        for source in (True, False)
    },
    "inlet, spike in the initial data": from_data(False),
    "inlet, spike in the inflow": from_data(True),
}
