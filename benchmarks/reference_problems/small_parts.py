"""Small narrow parts of data that count for more than their size.

The rest of the data decays, has little effect, or does not move an unknown at all; or the solution
grows, or is beside a resonance; or a coefficient dips. A grid that misses such a part may see all
but a millionth of its data, and be wrong by all of an unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import erf

from reference_problems.fourier import on_points, spike
from reference_problems.judged import Fields, RandomProblems
from reference_problems.quadrature import PLACE, WIDTH, over_pulse, pulse, second_integral

Numbers = Mapping[str, float]
_SMALL = {"law": "log_uniform", "low": 1e-6, "high": 1e-2}
_MODES = 2**18
_D = 0.01
"""Diffusivity of periodic evolutions; ten times as much between walls."""
_SPIKE = "exp(-(sin(pi*(x - c))/(pi*w))**2)"
_PLACES = {"c": PLACE, "w": WIDTH}
_IMAGES = range(-4, 5)


def periodic(
    equations: Sequence[str],
    initial: Mapping[str, Any],
    spectra: Callable[[Numbers, np.ndarray, float], Mapping[str, np.ndarray]],
    tolerance: float = 1e-5,
    **inputs: Any,
) -> RandomProblems:
    """Linear evolutions on a periodic interval by Fourier series.

    Args:
        equations: In the words of a spec, as the others.
        initial: Data at the start, of each unknown.
        spectra: Of scalar inputs, whole numbers k ≥ 0 and the time; coefficients of exp(2πikx).
        tolerance: The error estimate requested.
        inputs: Distributions of further scalars.
    """
    k = np.arange(_MODES)

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        every = [spectra(v, k, t) for t in times]
        return {n: np.stack([on_points(own[n], len(axes[0])) for own in every]) for n in initial}

    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": list(initial),
        "inputs": {"a": _SMALL, **_PLACES, **inputs},
        "equations": list(equations),
        "initial": dict(initial),
        "boundary": {"x": "periodic"},
        "save": {"t": 4, "x": 128},
    }
    return RandomProblems(words, exact, tolerance)


def acoustics(v: Numbers, k: np.ndarray, t: float) -> dict[str, np.ndarray]:
    """Damped pressure and velocity after a spike of the pressure on a background of 1."""
    own = v["a"] * spike(v, k)
    turn, left = 2 * np.pi * k * t, np.exp(-_D * (2 * np.pi * k) ** 2 * t)
    return {"p": (k == 0) + own * left * np.cos(turn), "v": -1j * own * left * np.sin(turn)}


def chain(v: Numbers, k: np.ndarray, t: float) -> dict[str, np.ndarray]:
    """Two heat equations, the second one driven by what the first one is above 1."""
    own = v["a"] * spike(v, k) * np.exp(-_D * (2 * np.pi * k) ** 2 * t)
    return {"u": (k == 0) + own, "v": t * own}


def growth(v: Numbers, k: np.ndarray, t: float) -> dict[str, np.ndarray]:
    """Heat with growth: means grow, the wave decays."""
    own = -0.5j * (k == 3) + v["a"] * spike(v, k)
    return {"u": own * np.exp((v["r"] - 0.1 * (2 * np.pi * k) ** 2) * t)}


def fast_source(v: Numbers, k: np.ndarray, t: float) -> dict[str, np.ndarray]:
    """Heat driven by a fast wave and a narrow source."""
    rate = _D * (2 * np.pi * k) ** 2
    gained = np.where(rate == 0, t, -np.expm1(-rate * t) / np.where(rate == 0, 1, rate))
    return {"u": (-0.5j * (k == 20) + v["a"] * spike(v, k) / v["w"]) * gained}


def insulated() -> RandomProblems:
    """Heat on a periodic interval whose conductivity dips, by finite volumes around points.

    The resistance from point to point is integrated exactly; errors of second order are
    extrapolated from 512 and 1024 points.
    """

    def by_volumes(v: Numbers, times: np.ndarray, count: int, n: int) -> np.ndarray:
        points = np.arange(n + 1) / n
        added = v["k"] * np.sqrt(np.pi) / 2 * np.diff(erf((points - v["c"]) / v["w"]))
        conductance = 1 / (1 / n + added)
        matrix, own = np.diag(conductance + np.roll(conductance, 1)), np.arange(n)
        np.subtract.at(matrix, (own, (own + 1) % n), conductance)
        np.subtract.at(matrix, ((own + 1) % n, own), conductance)
        rates, modes = eigh(matrix)
        start = modes.T @ np.sin(2 * np.pi * points[:-1])
        found = [modes @ (np.exp(-0.1 * n * rates * t) * start) for t in times]
        return np.stack([own[:: n // count] for own in found])

    def exact(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        coarse, fine = (by_volumes(v, times, len(axes[0]), n) for n in (512, 1024))
        return {"u": (4 * fine - coarse) / 3}

    words = {
        "name": "random",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {"k": {"law": "log_uniform", "low": 1e-4, "high": 0.3}, **_PLACES},
        "equations": [f"dt(u) = 0.1*dx(dx(u)/(1 + k*{pulse('x')}))"],
        "initial": {"u": "sin(2*pi*x)"},
        "boundary": {"x": "periodic"},
        "save": {"t": 4, "x": 64},
    }
    return RandomProblems(words, exact, 5e-3)


def walled(
    exact: Callable[[Numbers, np.ndarray, np.ndarray], Mapping[str, np.ndarray]],
    equations: Sequence[str],
    face: Mapping[str, Any],
    initial: Mapping[str, Any] | None,
    tolerance: float,
    inputs: Mapping[str, Any],
) -> RandomProblems:
    """Problems on the unit interval between walls.

    Args:
        exact: Of scalar inputs, times ``[T, 1]`` (or ``[0, 1]``) and points; values ``[T, n]``, or
            ``[n]``.
        equations: In the words of a spec, as the others.
        face: Conditions on both walls.
        initial: Data at the start; None for a steady problem.
        tolerance: The error estimate requested.
        inputs: Distributions of scalars.
    """

    def fields(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        return exact(v, times[:, None], axes[0])

    words = {
        "name": "random",
        "space": {"x": [0, 1]},
        "unknowns": sorted({"u", *(initial or {})}),
        "inputs": {**_PLACES, **inputs},
        "equations": list(equations),
        "boundary": {"x.min": face, "x.max": face},
        "save": {"x": 33},
    }
    if initial:
        words |= {"time": {"t": [0, 1]}, "initial": dict(initial), "save": {"t": 4, "x": 33}}
    return RandomProblems(words, fields, tolerance)


def spread(v: Numbers, t: np.ndarray, x: np.ndarray, sign: int) -> np.ndarray:
    """What diffusion of 10·_D makes of ``exp(-((x - c)/w)**2)``: walls at 0 (sign −1) or closed."""
    wide = v["w"] ** 2 + 40 * _D * t
    images = [
        s * np.exp(-((x - 2 * k - g * v["c"]) ** 2) / wide)
        for k in _IMAGES
        for g, s in ((1, 1), (-1, sign))
    ]
    return v["w"] / np.sqrt(wide) * sum(images)


def walled_chain() -> RandomProblems:
    """The chain of two heat equations between closed walls."""

    def exact(v: Numbers, t: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        own = v["a"] * spread(v, t, x, 1)
        return {"u": 1 + own, "v": t * own}

    return walled(
        exact,
        ["dt(u) = 0.1*dxx(u)", "dt(v) = 0.1*dxx(v) + u - 1"],
        {"neumann": {"u": 0, "v": 0}},
        {"u": "1 + a*exp(-((x - c)/w)**2)", "v": 0},
        1e-4,
        {"a": _SMALL},
    )


def decaying_wave() -> RandomProblems:
    """Heat between cold walls from a fast wave, which decays, and a spike."""

    def exact(v: Numbers, t: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        wave = np.exp(-10 * _D * (8 * np.pi) ** 2 * t) * np.sin(8 * np.pi * x)
        return {"u": wave + v["a"] * spread(v, t, x, -1)}

    start = {"u": "sin(8*pi*x) + a*exp(-((x - c)/w)**2)"}
    cold = {"dirichlet": {"u": 0}}
    return walled(exact, ["dt(u) = 0.1*dxx(u)"], cold, start, 1e-5, {"a": _SMALL})


def fast_wave() -> RandomProblems:
    """Poisson's equation with a fast wave, whose solution is small, and a narrow source."""
    q = 60 * np.pi

    def exact(v: Numbers, t: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        ends = (second_integral(e, v["c"], v["w"]) for e in (0.0, 1.0))
        low, high = ends
        narrow = low + (high - low) * x - second_integral(x, v["c"], v["w"])
        return {"u": np.sin(q * x) / q**2 + v["a"] * narrow}

    equation = f"-dxx(u) = sin(60*pi*x) + a*{pulse('x')}"
    return walled(exact, [equation], {"dirichlet": {"u": 0}}, None, 1e-5, {"a": _SMALL})


def near_resonance() -> RandomProblems:
    """A wave and a narrow source beside a resonance that the wave does not feel."""

    def exact(v: Numbers, t: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        k = np.sqrt(np.pi**2 - v["r"])
        ends = np.full_like(x, 1.0)
        below = over_pulse(lambda s: np.sin(k * s), v["c"], v["w"], x)
        above = over_pulse(lambda s: np.sin(k * (1 - s)), v["c"], v["w"], ends)
        above -= over_pulse(lambda s: np.sin(k * (1 - s)), v["c"], v["w"], x)
        narrow = (np.sin(k * (1 - x)) * below + np.sin(k * x) * above) / (k * np.sin(k))
        return {"u": np.sin(2 * np.pi * x) / (4 * np.pi**2 - k**2) + v["a"] * narrow}

    equation = f"-dxx(u) - (pi**2 - r)*u = sin(2*pi*x) + a*{pulse('x')}"
    inputs = {"a": _SMALL, "r": {"law": "log_uniform", "low": 1e-4, "high": 1.0}}
    return walled(exact, [equation], {"dirichlet": {"u": 0}}, None, 1e-3, inputs)


def insulating_layer() -> RandomProblems:
    """A steady flux through a layer whose conductivity dips."""

    def exact(v: Numbers, t: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        def resistance(x: Any) -> Any:
            return x + v["k"] * np.sqrt(np.pi) / 2 * erf((x - v["c"]) / v["w"])

        low, high = resistance(0.0), resistance(1.0)
        return {"u": 1 + (resistance(x) - low) / (high - low)}

    words = {
        "name": "random",
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {"k": {"law": "log_uniform", "low": 1e-4, "high": 0.3}, **_PLACES},
        "equations": [f"dx(dx(u)/(1 + k*{pulse('x')})) = 0"],
        "boundary": {"x.min": {"dirichlet": {"u": 1}}, "x.max": {"dirichlet": {"u": 2}}},
        "save": {"x": 33},
    }
    return RandomProblems(words, lambda v, t, axes: exact(v, t, axes[0]), 2e-3)


CLASSES = {
    "acoustics, spike on a background": periodic(
        [f"dt(p) + dx(v) = {_D}*dxx(p)", f"dt(v) + dx(p) = {_D}*dxx(v)"],
        {"p": f"1 + a*{_SPIKE}", "v": 0},
        acoustics,
    ),
    "two heat equations, spike on a background": periodic(
        [f"dt(u) = {_D}*dxx(u)", f"dt(v) = {_D}*dxx(v) + u - 1"],
        {"u": f"1 + a*{_SPIKE}", "v": 0},
        chain,
        1e-4,
    ),
    "heat with growth, spike beside a wave": periodic(
        ["dt(u) = 0.1*dxx(u) + r*u"],
        {"u": f"sin(6*pi*x) + a*{_SPIKE}"},
        growth,
        1e-4,
        r={"law": "uniform", "low": 0.0, "high": 10.0},
    ),
    "heat, narrow source beside a fast wave": periodic(
        [f"dt(u) = {_D}*dxx(u) + sin(40*pi*x) + a*{_SPIKE}/w"], {"u": 0}, fast_source
    ),
    "heat, dip of the conductivity": insulated(),
    "walls: two heat equations, spike on a background": walled_chain(),
    "walls: heat, spike beside a fast wave": decaying_wave(),
    "walls: steady, narrow source beside a fast wave": fast_wave(),
    "walls: steady, narrow source beside a resonance": near_resonance(),
    "walls: steady, dip of the conductivity": insulating_layer(),
}
