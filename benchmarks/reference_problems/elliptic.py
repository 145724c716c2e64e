"""Steady problems with jumps for the elliptic solver, by closed forms and quadrature.

Interfaces, thin layers, jumps and narrow sources stand at random places between the faces of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from piop.expression import write
from reference_problems.chebyshev import FREE, ZERO, problems, walls
from reference_problems.judged import RandomProblems
from reference_problems.quadrature import PLACE, pulse

Numbers = Mapping[str, float]
Line = Callable[[np.ndarray, Numbers], Any]
"""Data along a line, of points and numbers."""
_GAUSS = np.polynomial.legendre.leggauss(16)
_HALVINGS = np.concatenate([[0.0], np.geomspace(1e-7, 1.0, 60)])
RATIOS = {
    "ratios up to 10": {"law": "log_uniform", "low": 0.1, "high": 10.0},
    "ratios up to 1000": {"law": "log_uniform", "low": 1e-3, "high": 1e3},
}
LAYER = "where(x < c, 1, r)"


def below(x: np.ndarray, v: Numbers) -> Any:
    """:data:`LAYER`."""
    return np.where(x < v["c"], 1.0, v["r"])


def line(a: Line, f: Line, low: Sequence[float], high: Sequence[float]) -> Callable[..., Any]:
    """−(a u')' = f along a line, by Gauss's rule between points that crowd around features.

    Args:
        a: Coefficient.
        f: Source.
        low: α, β, g of αu − βu' = g at 0.
        high: Of αu + βu' = g at 1.
    """

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        x = mesh[0].reshape(mesh[0].shape[0], -1)[:, 0]
        places = [v["c"], *([v["c"] + v["w"]] if "w" in v else [])]
        near = [p + s * _HALVINGS for p in places for s in (-1, 1)]
        ends = np.unique(np.clip(np.concatenate([x, [0.0, 1.0], *near]), 0.0, 1.0))
        nodes, weights = _GAUSS
        half = np.diff(ends)[:, None] / 2
        points = ends[:-1, None] + half * (1 + nodes)
        # ∫ f up to the points inside pieces, through the polynomial in between.
        powers = np.arange(len(nodes))
        into = np.linalg.inv(np.polynomial.legendre.legvander(nodes, len(nodes) - 1))
        rise = np.stack(
            [
                np.polynomial.legendre.legval(
                    nodes, np.polynomial.legendre.legint(np.eye(len(nodes))[k], lbnd=-1)
                )
                for k in powers
            ],
            1,
        )
        source = np.broadcast_to(f(points, v), points.shape)
        content = (half * weights * source).sum(1)
        before = np.concatenate([[0.0], np.cumsum(content)])
        inside = before[:-1, None] + half * (source @ into.T @ rise.T)
        resistance = half * weights / a(points, v)
        grow = np.concatenate([[0.0], np.cumsum(resistance.sum(1))])
        fall = np.concatenate([[0.0], np.cumsum((resistance * inside).sum(1))])
        # u = p + q·grow − fall, a u' = q − ∫ f.
        slopes = 1 / a(np.array([0.0, 1.0]), v)
        rows = [
            [low[0], -low[1] * slopes[0]],
            [high[0], high[0] * grow[-1] + high[1] * slopes[1]],
        ]
        right = [low[2], high[2] + high[0] * fall[-1] + high[1] * slopes[1] * before[-1]]
        p, q = np.linalg.solve(rows, right)
        found = (p + q * grow - fall)[np.searchsorted(ends, x)]
        return found.reshape(-1, *[1] * (len(mesh) - 1))

    return exact


def layers(
    coefficient: str, a: Line, source: str = "1", f: Line | None = None, **settings: Any
) -> RandomProblems:
    """−(a u')' = f on the unit interval, or across a square.

    Args:
        coefficient: In the words of a spec.
        a: The same as a function.
        source: In the words of a spec.
        f: The same as a function; default 1.
        settings: ``inputs``, ``tolerance``; ``high``, the condition at 1 as α, β, g; ``plane``.
    """
    high, plane = settings.get("high", (1.0, 0.0, 0.0)), settings.get("plane", False)
    exact = line(a, f or (lambda x, v: 1.0), (1.0, 0.0, 0.0), high)
    wall = ZERO if not high[1] else {"robin": {"u": list(high)}}
    return problems(
        exact,
        f"-div(({coefficient})*grad(u)) = {source}",
        walls("x", ZERO, wall) | (walls("y", FREE) if plane else {}),
        settings["inputs"],
        tolerance=settings["tolerance"],
    )


def disk(tolerance: float) -> RandomProblems:
    """A disk of another coefficient around a random centre, values given on the square."""
    given = {"dirichlet": {"u": "-((x - c)**2 + (y - h)**2)/(4*r)"}}

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        square = (mesh[0] - v["c"]) ** 2 + (mesh[1] - v["h"]) ** 2
        inside = (v["s"] ** 2 - square) / 4 - v["s"] ** 2 / (4 * v["r"])
        return np.where(square < v["s"] ** 2, inside, -square / (4 * v["r"]))

    inputs = {
        **{n: {"law": "uniform", "low": 0.4, "high": 0.6} for n in "ch"},
        "s": {"law": "uniform", "low": 0.1, "high": 0.35},
        "r": {"law": "log_uniform", "low": 1e-2, "high": 1e2},
    }
    coefficient = "where((x - c)**2 + (y - h)**2 < s**2, 1, r)"
    return problems(
        exact,
        f"-div({coefficient}*grad(u)) = 1",
        walls("x", given) | walls("y", given),
        inputs,
        tolerance=tolerance,
    )


def oblique(tolerance: float) -> RandomProblems:
    """Two half planes that meet along a slanted line, values given on the square."""
    across = "(x + s*y - c)"
    given = {"dirichlet": {"u": f"where(x + s*y < c, {across}, {across}/r)"}}

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        z = mesh[0] + v["s"] * mesh[1] - v["c"]
        return np.where(z < 0, z, z / v["r"])

    inputs = {
        "c": {"law": "uniform", "low": 0.3, "high": 0.7},
        "s": {"law": "uniform", "low": -0.5, "high": 0.5},
        "r": {"law": "log_uniform", "low": 1e-2, "high": 1e2},
    }
    return problems(
        exact,
        "-div(where(x + s*y < c, 1, r)*grad(u)) = 0",
        walls("x", given) | walls("y", given),
        inputs,
        tolerance=tolerance,
    )


def source_disk(tolerance: float) -> RandomProblems:
    """A source within a circle, the potential of a disk on the square."""
    square = "((x - c)**2 + (y - h)**2)"
    given = {"dirichlet": {"u": f"-s**2/4*(1 + log({square}/s**2))"}}

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        ratio = ((mesh[0] - v["c"]) ** 2 + (mesh[1] - v["h"]) ** 2) / v["s"] ** 2
        outside = -(1 + np.log(np.maximum(ratio, 1.0)))
        return v["s"] ** 2 / 4 * np.where(ratio < 1, -ratio, outside)

    inputs = {
        **{n: {"law": "uniform", "low": 0.4, "high": 0.6} for n in "ch"},
        "s": {"law": "log_uniform", "low": 3e-3, "high": 0.35},
    }
    return problems(
        exact,
        f"-lap(u) = where({square} < s**2, 1, 0)",
        walls("x", given) | walls("y", given),
        inputs,
        tolerance=tolerance,
    )


def reaction(periodic: bool) -> RandomProblems:
    """−Δu + k u = f with a kink in the source, whose solution is |x − c|³ sin y."""
    x, y, c = (sympy.Symbol(n, real=True) for n in "xyc")
    wave = sympy.cos(2 * sympy.pi * y) if periodic else sympy.sin(2 * y + 1)
    u = abs(x - c) ** 3 * wave
    f = 5 * u - 6 * abs(x - c) * wave - sympy.diff(u, y, 2)
    evaluate = sympy.lambdify([x, y, c], u, "numpy")
    given = {"dirichlet": {"u": write(u)}}

    def exact(v: Numbers, t: np.ndarray, mesh: Sequence[np.ndarray]) -> Any:
        return evaluate(*mesh, v["c"])

    return problems(
        exact,
        f"5*u - lap(u) = {write(f)}",
        walls("x", given) | ({"y": "periodic"} if periodic else walls("y", given)),
        {"c": PLACE},
        tolerance=1e-3,
    )


def _gauss(x: np.ndarray, v: Numbers) -> Any:
    return np.exp(-(((x - v["c"]) / v["w"]) ** 2)) / v["w"]


_ANY = {"law": "uniform", "low": 0.02, "high": 0.98}
_INSIDE = {"law": "uniform", "low": 0.05, "high": 0.85}
_THIN = {"law": "log_uniform", "low": 1e-5, "high": 0.1}
_RATIO = RATIOS["ratios up to 1000"]
_WIDE = {"r": _RATIO, "c": _INSIDE, "w": _THIN}

CLASSES = {
    **{
        f"interface, {name}, tolerance {tolerance:.0e}": layers(
            LAYER, below, inputs={"c": _ANY, "r": ratio}, tolerance=tolerance
        )
        for name, ratio in RATIOS.items()
        for tolerance in (1e-2, 1e-3, 1e-4, 1e-6)
    },
    "interface, Neumann": layers(
        LAYER, below, inputs={"c": _ANY, "r": _RATIO}, high=(0.0, 1.0, 0.5), tolerance=1e-4
    ),
    "interface, Robin": layers(
        LAYER, below, inputs={"c": _ANY, "r": _RATIO}, high=(2.0, 1.0, 0.5), tolerance=1e-4
    ),
    "thin layer": layers(
        "where(abs(x - c - w/2) < w/2, r, 1)",
        lambda x, v: np.where(np.abs(x - v["c"] - v["w"] / 2) < v["w"] / 2, v["r"], 1.0),
        inputs=_WIDE,
        tolerance=1e-4,
    ),
    "kink of the coefficient": layers(
        "1 + r*abs(x - c)",
        lambda x, v: 1 + v["r"] * np.abs(x - v["c"]),
        inputs={"c": _ANY, "r": RATIOS["ratios up to 10"]},
        tolerance=1e-4,
    ),
    "jump of the source": layers(
        "1",
        lambda x, v: np.ones_like(x),
        LAYER,
        below,
        inputs={"c": _ANY, "r": _RATIO},
        tolerance=1e-4,
    ),
    "narrow box as the source": layers(
        "1",
        lambda x, v: np.ones_like(x),
        "1 + r*where(abs(x - c - w/2) < w/2, 1, 0)",
        lambda x, v: 1 + v["r"] * (np.abs(x - v["c"] - v["w"] / 2) < v["w"] / 2),
        inputs=_WIDE,
        tolerance=1e-4,
    ),
    "narrow source in layers": layers(
        "where(x < 1/2, 1, r)",
        lambda x, v: np.where(x < 0.5, 1.0, v["r"]),
        pulse("x"),
        _gauss,
        inputs={**_WIDE, "c": {"law": "uniform", "low": 0.05, "high": 0.45}},
        tolerance=1e-4,
    ),
    "narrow source at an interface": layers(
        LAYER,
        below,
        f"1 + {pulse('x')}",
        lambda x, v: 1 + _gauss(x, v),
        inputs=_WIDE,
        tolerance=1e-4,
    ),
    "upright layers in the plane": layers(
        LAYER, below, inputs={"c": _ANY, "r": _RATIO}, plane=True, tolerance=1e-2
    ),
    "thin upright layer in the plane": layers(
        "where(abs(x - c - w/2) < w/2, r, 1)",
        lambda x, v: np.where(np.abs(x - v["c"] - v["w"] / 2) < v["w"] / 2, v["r"], 1.0),
        inputs={**_WIDE, "r": RATIOS["ratios up to 10"]},
        plane=True,
        tolerance=1e-2,
    ),
    "narrow source in the plane": layers(
        "where(x < 1/2, 1, r)",
        lambda x, v: np.where(x < 0.5, 1.0, v["r"]),
        pulse("x"),
        _gauss,
        inputs={**_WIDE, "c": {"law": "uniform", "low": 0.05, "high": 0.45}},
        plane=True,
        tolerance=1e-2,
    ),
    "disk of another coefficient": disk(1e-2),
    "oblique layers": oblique(1e-2),
    "source within a circle": source_disk(1e-2),
    "kink of the source, plane": reaction(False),
    "kink of the source, periodic y": reaction(True),
}
"""Feature → problems."""
