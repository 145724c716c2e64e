"""Functions that are given by values in a file, with a spike of a few points at a random place.

Between the points lies a broken line or a cubic spline, on periodic axes a sum of waves: their
integrals are known, and so the exact solutions follow from the stored values alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.interpolate import make_interp_spline

from piop.problem import Problem
from piop.sampling import Draws, sample_inputs
from reference_problems.judged import Fields, Judged, judge

_CELLS = 2000
_ROWS = 10
"""Functions in the file, relative to samples, which are drawn from them."""
_WIDTH = 5e-4, 1e-2
"""Of the spikes: from the distance of two points on."""
_D = 0.01
"""Diffusivity of evolutions."""

Exact = Callable[[np.ndarray, np.ndarray, Sequence[np.ndarray]], np.ndarray]
"""Stored values at even points of [0, 1], times ``[T]``, axes → the exact solution."""


@dataclass(frozen=True)
class StoredProblems:
    """Problems of one class: a spec whose input f has random values in a file.

    Attributes:
        words: Of ``piop.Problem``, without inputs.
        exact: Its exact solution.
        smooth: Whether values lie on a spline or a sum of waves, not on a broken line.
        tolerance: The error estimate requested.
    """

    words: Mapping[str, Any]
    exact: Exact
    smooth: bool = True
    tolerance: float = 1e-5

    def __call__(self, count: int, seed: int) -> Judged:
        """Draw, write, solve and judge so many."""
        periodic = self.words.get("boundary") == {"x": "periodic"}
        x, values = stored(np.random.default_rng(seed), _ROWS * count, periodic)
        coordinate = "x" if "space" in self.words else "t"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "f.npz"
            np.savez(path, **{coordinate: x, "f": values})
            law = {"law": "from_file", "path": path, "smooth": self.smooth}
            problem = Problem(**self.words, inputs={"f": {"of": [coordinate], **law}})
            functions = sample_inputs(problem, Draws(seed, 0, torch.arange(count)))
        values = functions["f"].on_grid((torch.from_numpy(x),)).numpy()  # in the order drawn

        def exact(own: np.ndarray, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
            return {"u": self.exact(own, times, axes)}

        return judge(problem, functions, [partial(exact, v) for v in values], self.tolerance)


def stored(rng: np.random.Generator, count: int, periodic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points, and values ``[count, points]`` of a wave and a spike that does not reach the ends."""
    x = np.linspace(0, 1, _CELLS + 1)[: _CELLS + (not periodic)]
    c = rng.uniform(0.2, 0.8, (count, 1))
    w = np.exp(rng.uniform(*np.log(_WIDTH), (count, 1)))
    a = np.exp(rng.uniform(np.log(0.01), 0, (count, 1)))
    return x, np.sin(2 * np.pi * x) + a * np.exp(-(((x - c) / w) ** 2)) / w


def integrals(values: np.ndarray, smooth: bool, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second integral from 0 to points ``at`` of what goes through values."""
    spline = make_interp_spline(np.linspace(0, 1, len(values)), values, 3 if smooth else 1)
    return spline.antiderivative(1)(at), spline.antiderivative(2)(at)


def summed(values: np.ndarray, times: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
    """Of dt(u) = f from 1."""
    return 1 + integrals(values, True, times)[0]


def bent(smooth: bool) -> Exact:
    """Of −u″ = f between zeros, in the plane alike for all y."""

    def exact(values: np.ndarray, times: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
        x = axes[0]
        found = x * integrals(values, smooth, np.ones(1))[1] - integrals(values, smooth, x)[1]
        return np.broadcast_to(found.reshape(-1, *[1] * len(axes[1:])), [len(a) for a in axes])

    return exact


def heated(source: bool) -> Exact:
    """Of dt(u) = D dxx(u), periodic, from f, or from 0 with the source f, a sum of waves."""

    def exact(values: np.ndarray, times: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
        c = np.fft.rfft(values) / len(values)
        rate = _D * (2 * np.pi * np.arange(len(c))) ** 2
        x = np.exp(2j * np.pi * np.outer(np.arange(len(c)), axes[0]))
        x[1 : (len(values) + 1) // 2] *= 2  # not the shortest wave of an even number of points
        gain = [
            -np.expm1(-rate * t) / np.where(rate == 0, 1, rate) + t * (rate == 0)
            if source
            else np.exp(-rate * t)
            for t in times
        ]
        return ((np.stack(gain) * c) @ x).real

    return exact


def heated_between_walls(
    values: np.ndarray, times: np.ndarray, axes: Sequence[np.ndarray]
) -> np.ndarray:
    """Of dt(u) = D dxx(u) + f from 0 with zeros at walls: the steady solution less its modes."""
    k = np.pi * np.arange(1, 65)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    s = ((np.arange(_CELLS)[:, None] + (1 + nodes) / 2) / _CELLS).ravel()
    f = make_interp_spline(np.linspace(0, 1, len(values)), values, 3)(s)
    sines = 2 * np.sin(np.outer(k, s)) @ (f * np.tile(weights, _CELLS) / (2 * _CELLS))
    left = np.exp(np.outer(-times, _D * k**2)) * sines / (_D * k**2)
    return bent(smooth=True)(values, times, axes) / _D - left @ np.sin(np.outer(k, axes[0]))


_UNKNOWN: dict[str, Any] = {"name": "stored", "unknowns": ["u"]}
_TIME: dict[str, Any] = {"time": {"t": [0, 1]}, "initial": {"u": 0}}
_LINE: dict[str, Any] = {"space": {"x": [0, 1]}}
_ORDINARY = {**_UNKNOWN, **_TIME, "equations": ["dt(u) = f"], "initial": {"u": 1}, "save": {"t": 9}}
_STEADY = {
    **_UNKNOWN,
    **_LINE,
    "equations": ["-dxx(u) = f"],
    "boundary": {"x": {"dirichlet": {"u": 0}}},
    "save": {"x": 65},
}
_PLANE = {
    **_STEADY,
    "space": {"x": [0, 1], "y": [0, 1]},
    "equations": ["-lap(u) = f"],
    "boundary": {**_STEADY["boundary"], "y": {"neumann": {"u": 0}}},
    "save": {"x": 33, "y": 9},
}
_PERIODIC = {
    **_UNKNOWN,
    **_LINE,
    **_TIME,
    "equations": [f"dt(u) = {_D}*dxx(u)"],
    "initial": {"u": "f"},
    "boundary": {"x": "periodic"},
    "save": {"t": 4, "x": 256},
}
_SOURCE = {"equations": [f"dt(u) = {_D}*dxx(u) + f"], "initial": {"u": 0}}

CLASSES = {
    "ordinary, forcing": StoredProblems(_ORDINARY, summed),
    "elliptic, source on a broken line": StoredProblems(_STEADY, bent(smooth=False), smooth=False),
    "elliptic, source": StoredProblems(_STEADY, bent(smooth=True)),
    "elliptic, source in the plane": StoredProblems(_PLANE, bent(smooth=True), tolerance=1e-3),
    "fourier, initial data": StoredProblems(_PERIODIC, heated(source=False)),
    "fourier, source": StoredProblems({**_PERIODIC, **_SOURCE}, heated(source=True)),
    "chebyshev, source": StoredProblems(
        {**_PERIODIC, **_SOURCE, "boundary": _STEADY["boundary"], "save": {"t": 4, "x": 65}},
        heated_between_walls,
    ),
}
"""Solver and where the function stands → problems."""
