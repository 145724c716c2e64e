"""Transport with an inlet for the method of characteristics, by integrals along them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import erf

from reference_problems.judged import Fields, RandomProblems

_NUMBERS = {
    "a": {"law": "uniform", "low": 0.1, "high": 1.0},
    "c": {"law": "uniform", "low": 0.2, "high": 0.8},
    "w": {"law": "log_uniform", "low": 1e-5, "high": 0.1},
}
_SPIKE = "a*exp(-((x - c)/w)**2)/w"


def carried(source: bool) -> RandomProblems:
    """Carry a wave through a spike of the source, or of the growth."""

    def exact(v: Mapping[str, float], times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        x, t = axes[0], times[:, None]
        begin = np.maximum(x - t, 0.0)
        through = (
            0.5 * np.sqrt(np.pi) * (erf((x - v["c"]) / v["w"]) - erf((begin - v["c"]) / v["w"]))
        )
        start = np.cos(2 * np.pi * (x - t))
        grown = start + v["a"] * through if source else start * np.exp(v["a"] * through)
        return {"u": grown}

    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": _NUMBERS,
        "equations": [f"dt(u) + dx(u) = {_SPIKE}{'' if source else '*u'}"],
        "initial": {"u": "cos(2*pi*x)"},
        "boundary": {"x.min": {"dirichlet": {"u": "cos(2*pi*t)"}}},
        "save": {"t": 5, "x": 101},
    }
    return RandomProblems(words, exact, 1e-6)


CLASSES = {
    "inlet, spike in the source": carried(True),
    "inlet, spike in the growth": carried(False),
}
