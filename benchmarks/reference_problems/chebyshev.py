"""Evolutions and steady problems between walls, by closed forms, series and manufactured solutions.

Features finer than a grid or a step stand at random places: pulses in sources and in boundary data,
spikes and kinks of initial data, narrow sources and coefficients, layers and fronts of solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import sympy
from scipy.optimize import brentq
from scipy.special import erf, exp1

from reference_problems.judged import Fields, RandomProblems
from reference_problems.quadrature import (
    PLACE,
    WIDTH,
    decayed_pulse,
    gaussian_moment,
    over_pulse,
    pulse,
    second_integral,
)

Numbers = Mapping[str, float]
_TOLERANCE = 1e-5
_SIZE = {"law": "log_uniform", "low": 1e-3, "high": 1.0}
_INNER = {"law": "uniform", "low": 0.2, "high": 0.8}
_D = 0.1
"""Diffusivity of evolutions."""


def problems(
    exact: Callable[[Numbers, np.ndarray, Sequence[np.ndarray]], Any],
    equation: str,
    boundary: Mapping[str, Any],
    inputs: Mapping[str, Any],
    initial: Mapping[str, Any] | None = None,
    tolerance: float = _TOLERANCE,
) -> RandomProblems:
    """Problems on the unit interval or square, with initial data over one unit of time.

    Args:
        exact: Of scalar inputs, times ``[T, 1, …]`` and a mesh of coordinates; values ``[T, …]``.
        equation: Of u, in the words of a spec, as the others.
        boundary: Conditions.
        inputs: Distributions of scalars.
        initial: Data at the start; None for a steady problem.
        tolerance: The error estimate requested.
    """
    space = {axis.split(".")[0]: [0, 1] for axis in boundary}
    points = 33 if len(space) == 1 else 17

    def fields(v: Numbers, times: np.ndarray, axes: Sequence[np.ndarray]) -> Fields:
        mesh = np.meshgrid(*axes, indexing="ij")
        shape = [len(times)] * bool(initial) + [len(a) for a in axes]
        moments = times.reshape(-1, *[1] * len(axes))
        return {"u": np.broadcast_to(exact(v, moments, mesh), shape)}

    words = {
        "name": "walls",
        "space": space,
        "unknowns": ["u"],
        "inputs": inputs,
        "equations": [equation],
        "boundary": boundary,
        "save": {**({"t": 8} if initial else {}), **dict.fromkeys(space, points)},
        **({"time": {"t": [0, 1]}, "initial": initial} if initial else {}),
    }
    return RandomProblems(words, fields, tolerance)


def walls(axis: str, low: Mapping[str, Any], high: Mapping[str, Any] | None = None) -> Any:
    """The same condition at both walls of an axis, or two of them."""
    return {f"{axis}.min": low, f"{axis}.max": low if high is None else high}


ZERO = {"dirichlet": {"u": 0}}
FREE = {"neumann": {"u": 0}}
_ROBIN = 0.8603335890193798
"""k tan k = 1: cos(k x) has no slope at 0, and u + ∂u/∂x = 0 at 1."""
MODES: dict[str, tuple[dict[str, Any], str, float]] = {
    "Dirichlet": (walls("x", ZERO), "sin(pi*x)", np.pi**2),
    "Neumann": (walls("x", FREE), "cos(pi*x)", np.pi**2),
    "mixed": (walls("x", ZERO, FREE), "sin(pi*x/2)", np.pi**2 / 4),
    "Robin": (
        walls("x", FREE, {"robin": {"u": [1, 1, 0]}}),
        f"cos({_ROBIN}*x)",
        _ROBIN**2,
    ),
    "plane": (walls("x", ZERO) | walls("y", FREE), "sin(pi*x)*cos(pi*y)", 2 * np.pi**2),
    "periodic y": (walls("x", ZERO) | {"y": "periodic"}, "sin(pi*x)*cos(2*pi*y)", 5 * np.pi**2),
}
"""Kind of boundary → conditions, an eigenfunction and the eigenvalue of −Δ."""


def function_of(text: str, names: str) -> Callable[..., Any]:
    """Evaluate an expression of coordinates, times and numbers."""
    symbols = {n: sympy.Symbol(n, real=True) for n in names}
    return sympy.lambdify(list(symbols.values()), sympy.sympify(text, symbols), "numpy")


def pulsed(kind: str) -> RandomProblems:
    """A source that is a pulse in time, over a mode in space."""
    boundary, mode, value = MODES[kind]
    shape = function_of(mode, "xy")

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        own = np.exp(-_D * value * t) + v["a"] * decayed_pulse(_D * value, v["c"], v["w"], t)
        return own * shape(mesh[0], mesh[-1])

    equation = f"dt(u) = {_D}*lap(u) + a*{mode}*{pulse('t')}"
    return problems(exact, equation, boundary, {"a": _SIZE, "c": PLACE, "w": WIDTH}, {"u": mode})


def struck_string(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of dtt(u) = dxx(u)/4 with a pulse in time over the first mode."""
    rate = np.pi / 2
    struck = over_pulse(lambda s: np.sin(rate * (t[:, 0, None] - s)), v["c"], v["w"], t.ravel())
    own = np.cos(rate * t) + v["a"] / rate * struck.reshape(t.shape)
    return own * np.sin(np.pi * mesh[0])


def source_in_time(kink: bool) -> RandomProblems:
    """A source over the first mode that bends, or jumps, at a random time."""
    rate = _D * np.pi**2

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        late = np.maximum(t - v["c"], 0.0)
        if kink:
            start = (t - v["c"]) / rate - 1 / rate**2
            start = start + (v["c"] / rate + 1 / rate**2) * np.exp(-rate * t)
            own = 2 * (late / rate + np.expm1(-rate * late) / rate**2) - start
        else:
            own = -np.expm1(-rate * t) / rate + v["a"] * -np.expm1(-rate * late) / rate
        return (np.exp(-rate * t) + own) * np.sin(np.pi * mesh[0])

    factor = "abs(t - c)" if kink else "(1 + a*where(t < c, 0, 1))"
    equation = f"dt(u) = {_D}*dxx(u) + {factor}*sin(pi*x)"
    inputs = {"c": PLACE} if kink else {"c": PLACE, "a": _SIZE}
    return problems(exact, equation, walls("x", ZERO), inputs, {"u": "sin(pi*x)"})


def wall_pulse(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of a value at x = 0 that is a pulse g(t), and zero at 1.

    The sine series of what is left of u without (1 − x) g + (x²/2 − x³/6 − x/3) ∂g/∂t / D.
    """
    (x,), z = mesh, (t - v["c"]) / v["w"]
    g = v["a"] * np.exp(-(z**2)) / v["w"]
    rate_of_g = -2 * z / v["w"] * g
    n = np.pi * np.arange(1, 2001)
    rates = _D * n**2
    late = v["a"] * decayed_pulse(rates, v["c"], v["w"], t)
    terms = 2 / n * (rates * late - g + rate_of_g / rates)
    smooth = (1 - x) * g + (x**2 / 2 - x**3 / 6 - x / 3) * rate_of_g / _D
    first = np.exp(-_D * np.pi**2 * t) * np.sin(np.pi * x)
    return first + smooth + terms @ np.sin(n[:, None] * x)


def flux_pulse(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of a flux −D ∂u/∂x into x = 0 that is a pulse, and none at 1; by the cosine series."""
    (x,) = mesh
    g = v["a"] * np.exp(-(((t - v["c"]) / v["w"]) ** 2)) / v["w"]
    n = np.pi * np.arange(1, 2001)
    late = v["a"] * decayed_pulse(_D * n**2, v["c"], v["w"], t) - g / (_D * n**2)
    smooth = g / _D * (x**2 / 2 - x + 1 / 3)
    whole = v["a"] * decayed_pulse(0.0, v["c"], v["w"], t)
    first = 1 + np.exp(-_D * np.pi**2 * t) * np.cos(np.pi * x)
    return first + whole + smooth + 2 * late @ np.cos(n[:, None] * x)


def spiked(sign: int) -> Callable[..., Any]:
    """Of heat that starts as a mode and a spike, by images of one sign: −1 for zero values."""

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        (x,), spread = mesh, v["w"] ** 2 + 4 * _D * t
        ends = [(2 * k + s * v["c"], s) for k in range(-3, 4) for s in (1, -1)]
        images = sum((1 if s > 0 else sign) * np.exp(-((x - p) ** 2) / spread) for p, s in ends)
        mode = np.sin(np.pi * x) if sign < 0 else np.cos(np.pi * x)
        smooth = (sign > 0) + np.exp(-_D * np.pi**2 * t) * mode
        return smooth + v["a"] * v["w"] / np.sqrt(spread) * images

    return exact


def hat(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of heat that starts as abs(x − c) between walls without flux."""
    c, n = v["c"], np.pi * np.arange(1, 200)
    terms = 2 / n**2 * (1 + np.cos(n) - 2 * np.cos(n * c)) * np.exp(-_D * n**2 * t)
    return (c**2 + (1 - c) ** 2) / 2 + terms @ np.cos(n[:, None] * mesh[0])


def sudden(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of heat that starts at 1 between walls at zero."""
    n = np.pi * np.arange(1, 400, 2)
    return 4 / n * np.exp(-v["r"] * n**2 * t) @ np.sin(n[:, None] * mesh[0])


def front(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """The front of Fisher's equation: Ablowitz and Zeppetella, doi:10.1007/BF02462380."""
    k = np.sqrt(v["r"] / 6)
    return (1 + np.exp(k * (mesh[0] - v["c"]) - 5 / 6 * v["r"] * t)) ** -2.0


def front_at(x: int) -> str:
    """The same at a wall, in the words of a spec."""
    return f"(1 + exp(sqrt(r/6)*({x} - c) - 5/6*r*t))**(-2)"


def narrow(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of −∂²u/∂x² = π² sin(πx) + a exp(−((x − c)/w)²)/w, zero at the walls."""
    (x,) = mesh
    found, low, high = (second_integral(p, v["c"], v["w"]) for p in (x, 0.0, 1.0))
    return np.sin(np.pi * x) + v["a"] * (low + (high - low) * x - found)


def narrow_line(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of −Δu = exp(−((x − c)/w)²)/w sin(πy), zero at x = 0 and 1."""
    x, y, (c, w) = *mesh, (v["c"], v["w"])
    below = gaussian_moment(np.pi, c, w, 0.0, x), gaussian_moment(-np.pi, c, w, 0.0, x)
    above = gaussian_moment(np.pi, c, w, x, 1.0), gaussian_moment(-np.pi, c, w, x, 1.0)
    left = np.sinh(np.pi * (1 - x)) * (below[0] - below[1])
    e = np.exp(np.pi)
    right = np.sinh(np.pi * x) * (e * above[1] - above[0] / e)
    return (left + right) / (2 * np.pi * np.sinh(np.pi)) * np.sin(np.pi * y)


def point_source(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of −Δu = 2π² sin(πx) sin(πy) + a exp(−r²/w²)/(π w²) on a square, zero around.

    Outside the source the potential is that of a point; inside, it differs by E₁(r²/w²)/4π.
    """
    x, y = mesh
    places = np.array([v["c"], v["h"]])
    # The series runs along one axis and falls with the distance along the other.
    n = np.pi * np.arange(1, 3001)
    found = np.zeros_like(x)
    for i, j in np.ndindex(x.shape):
        at = np.array([x[i, j], y[i, j]])
        far = int(np.argmax(np.abs(at - places)))
        low, high = sorted((at[far], places[far]))
        decay = (1 - np.exp(-2 * n * low)) * (1 - np.exp(-2 * n * (1 - high)))
        decay *= np.exp(-n * (high - low)) / (1 - np.exp(-2 * n)) / n
        found[i, j] = (np.sin(n * at[1 - far]) * np.sin(n * places[1 - far])) @ decay
    square = np.maximum(((x - v["c"]) ** 2 + (y - v["h"]) ** 2) / v["w"] ** 2, 1e-12)
    smooth = np.sin(np.pi * x) * np.sin(np.pi * y)
    return smooth + v["a"] * (found - exp1(square) / (4 * np.pi))


def wall_spike(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of Laplace's equation with a spike at y = 0, zero elsewhere but for the first mode."""
    x, y, n = *mesh, np.pi * np.arange(1, 401)
    content = 2 * np.sqrt(np.pi) * np.sin(n * v["c"]) * np.exp(-((n * v["w"] / 2) ** 2))
    modes = np.sin(n[:, None] * x[:, 0])
    decay = np.exp(-n[:, None] * y[0]) - np.exp(-n[:, None] * (2 - y[0]))
    decay /= 1 - np.exp(-2 * n[:, None])
    mode = np.sin(np.pi * x) * np.sinh(np.pi * (1 - y)) / np.sinh(np.pi)
    found = np.einsum("n,nx,ny->xy", content, modes, decay)
    spike = np.exp(-(((x - v["c"]) / v["w"]) ** 2)) / v["w"]
    return mode + v["a"] * np.where(y == 0, spike, found)


def reaction_zone(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of −∂²u/∂x² = a exp(−((u − c)/w)²)/w from 0 to 1, by (∂u/∂x)²/2 + P(u) = E."""
    (x,), (a, c, w) = mesh, (v["a"], v["c"], v["w"])
    nodes, weights = np.polynomial.legendre.leggauss(60)
    ends = [c + k * w for k in (-6, -2, 0, 2, 6)]

    def potential(u: Any) -> Any:
        return a * np.sqrt(np.pi) / 2 * erf((u - c) / w)

    def place(u: float, energy: float) -> float:
        at, found = [0.0, *(q for q in ends if 0 < q < u), u], 0.0
        for low, high in pairwise(at):
            own = low + (high - low) * (nodes + 1) / 2
            found += (weights / np.sqrt(2 * (energy - potential(own)))).sum() * (high - low) / 2
        return found

    least = potential(1.0)
    energy = brentq(lambda q: place(1.0, q) - 1, least + 1e-9, least + 100, xtol=1e-14)
    inner = [brentq(lambda u, q=q: place(u, energy) - q, 0, 1, xtol=1e-14) for q in x[1:-1]]
    return np.array([0.0, *inner, 1.0])


def layer(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
    """Of −e ∂²u/∂x² + ∂u/∂x = 1, zero at the walls."""
    (x,), e = mesh, v["e"]
    return x - (np.exp((x - 1) / e) - np.exp(-1 / e)) / -np.expm1(-1 / e)


_WAVES = {
    "k": {"law": "uniform", "low": 1.0, "high": 8.0},
    "c": PLACE,
    "q": {"law": "uniform", "low": 0.5, "high": 6.0},
}


def manufactured(kind: str, axes: str, evolution: bool) -> RandomProblems:
    """A nonlinear equation with random waves for its solution.

    Args:
        kind: Of the condition at each wall; periodic along y for "periodic".
        axes: Of space.
        evolution: Whether in time.
    """
    names = {n: sympy.Symbol(n, real=True) for n in "txykcq"}
    across = {"": "", "y": " + cos(2*pi*y)" if kind == "periodic" else " + sin(q*y)"}[axes[1:]]
    moving = "*exp(-t)*cos(q*t)" if evolution else ""
    u: Any = sympy.sympify(f"(sin(k*(x - c)){across}){moving}", names)
    symbols = [names[a] for a in axes]
    f = u + u**3 - sum(sympy.diff(u, s, 2) for s in symbols)
    if evolution:
        f += sympy.diff(u, names["t"])
    boundary: dict[str, Any] = {}
    for s in symbols:
        if kind == "periodic" and s.name == "y":
            boundary["y"] = "periodic"
            continue
        for word, end, sign in (("min", 0, -1), ("max", 1, 1)):
            value, slope = u.subs(s, end), sign * sympy.diff(u, s).subs(s, end)
            boundary[f"{s}.{word}"] = {
                "Neumann": {"neumann": {"u": str(slope)}},
                "Robin": {"robin": {"u": [2, 1, str(2 * value + slope)]}},
            }.get(kind, {"dirichlet": {"u": str(value)}})
    evaluate = sympy.lambdify([names[n] for n in "txykcq"], u, "numpy")

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        return evaluate(t, mesh[0], mesh[-1], v["k"], v["c"], v.get("q", 0.0))

    left = "dt(u) + " if evolution else ""
    used = {n: own for n, own in _WAVES.items() if u.has(names[n])}
    return problems(
        exact,
        f"{left}u + u**3 - lap(u) = {f}",
        boundary,
        used,
        {"u": str(u.subs(names["t"], 0))} if evolution else None,
        1e-3 if evolution and len(axes) > 1 else 1e-6,
    )


_PULSE = {"a": _SIZE, "c": PLACE, "w": WIDTH}
_SPIKE = {"a": _SIZE, "c": _INNER, "w": WIDTH}
_HEAT = f"dt(u) = {_D}*dxx(u)"
_FORM = "exp(-((x - c)/w)**2)"

CLASSES = {
    **{f"pulse in the source, {kind}": pulsed(kind) for kind in MODES},
    "pulse in the source, string": problems(
        struck_string,
        f"dtt(u) = dxx(u)/4 + a*sin(pi*x)*{pulse('t')}",
        walls("x", ZERO),
        _PULSE,
        {"u": "sin(pi*x)", "dt(u)": 0},
    ),
    "kink in time of the source": source_in_time(True),
    "jump in time of the source": source_in_time(False),
    "pulse in a wall's value": problems(
        wall_pulse,
        _HEAT,
        walls("x", {"dirichlet": {"u": f"a*{pulse('t')}"}}, ZERO),
        _PULSE,
        {"u": "sin(pi*x)"},
    ),
    "pulse in a wall's flux": problems(
        flux_pulse,
        _HEAT,
        walls("x", {"neumann": {"u": f"{1 / _D}*a*{pulse('t')}"}}, FREE),
        _PULSE,
        {"u": "1 + cos(pi*x)"},
    ),
    "spike in the initial data, Dirichlet": problems(
        spiked(-1), _HEAT, walls("x", ZERO), _SPIKE, {"u": f"sin(pi*x) + a*{_FORM}"}
    ),
    "spike in the initial data, Neumann": problems(
        spiked(1), _HEAT, walls("x", FREE), _SPIKE, {"u": f"1 + cos(pi*x) + a*{_FORM}"}
    ),
    "kink in the initial data": problems(
        hat, _HEAT, walls("x", FREE), {"c": PLACE}, {"u": "abs(x - c)"}
    ),
    "initial data that jump at walls": problems(
        sudden,
        "dt(u) = r*dxx(u)",
        walls("x", ZERO),
        {"r": {"law": "log_uniform", "low": 0.02, "high": 1.0}},
        {"u": 1},
    ),
    "front": problems(
        front,
        "dt(u) = dxx(u) + r*u*(1 - u)",
        walls("x", *({"dirichlet": {"u": front_at(x)}} for x in (0, 1))),
        {"r": {"law": "log_uniform", "low": 1.0, "high": 3e3}, "c": _INNER},
        {"u": "(1 + exp(sqrt(r/6)*(x - c)))**(-2)"},
    ),
    "narrow source": problems(
        narrow,
        f"-dxx(u) = pi**2*sin(pi*x) + a*{pulse('x')}",
        walls("x", ZERO),
        {**_PULSE, "w": {"law": "log_uniform", "low": 1e-5, "high": 3e-2}},
    ),
    "reaction narrow in the unknown": problems(
        reaction_zone,
        f"-dxx(u) = a*{pulse('u')}",
        walls("x", ZERO, {"dirichlet": {"u": 1}}),
        {"a": {"law": "log_uniform", "low": 0.03, "high": 1.0}, "c": PLACE, "w": WIDTH},
    ),
    "narrow source along a line": problems(
        narrow_line,
        f"-lap(u) = sin(pi*y)*{pulse('x')}",
        walls("x", ZERO) | walls("y", ZERO),
        {"c": PLACE, "w": {"law": "log_uniform", "low": 1e-5, "high": 0.1}},
        tolerance=1e-3,
    ),
    "narrow source around a point": problems(
        point_source,
        "-lap(u) = 2*pi**2*sin(pi*x)*sin(pi*y) + a*exp(-((x - c)**2 + (y - h)**2)/w**2)/(pi*w**2)",
        walls("x", ZERO) | walls("y", ZERO),
        {
            "a": _SIZE,
            "c": _INNER,
            "h": _INNER,
            "w": {"law": "log_uniform", "low": 1e-5, "high": 0.05},
        },
        tolerance=1e-3,
    ),
    "narrow boundary data": problems(
        wall_spike,
        "lap(u) = 0",
        walls("x", ZERO) | walls("y", {"dirichlet": {"u": f"sin(pi*x) + a*{pulse('x')}"}}, ZERO),
        {**_SPIKE, "w": {"law": "log_uniform", "low": 1e-5, "high": 0.05}},
        tolerance=1e-3,
    ),
    "layer at a wall": problems(
        layer,
        "-e*dxx(u) + dx(u) = 1",
        walls("x", ZERO),
        {"e": {"law": "log_uniform", "low": 1e-4, "high": 1.0}},
    ),
    **{
        f"waves, {axes}, {kind}, {'evolution' if evolution else 'steady'}": manufactured(
            kind, axes, evolution
        )
        for evolution in (True, False)
        for kind in ("Dirichlet", "Neumann", "Robin", "periodic")
        for axes in ("x", "xy")
        if (kind != "periodic" or axes == "xy")
    },
}
"""Feature and boundary → problems."""
