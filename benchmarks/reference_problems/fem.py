"""Steady problems on shapes for finite elements, by manufactured and closed solutions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from reference_problems.judged import Fields, RandomProblems

_X, _Y = (sympy.Symbol(n, real=True) for n in "xy")
_NUMBERS = {
    "c": {"law": "uniform", "low": 0.3, "high": 0.7},
    "h": {"law": "uniform", "low": 0.3, "high": 0.7},
    "k": {"law": "uniform", "low": 1.0, "high": 12.0},
}
_RATIO = {"law": "log_uniform", "low": 0.1, "high": 10.0}
SHAPES: dict[str, Any] = {
    "L": {"polygon": [[0, 0], [1, 0], [1, 0.5], [0.5, 0.5], [0.5, 1], [0, 1]]},
    "disk": {"disk": [0.5, 0.5, 0.5]},
    "hole": {"box": [[0, 1], [0, 1]], "holes": {"hole": {"disk": [0.5, 0.45, 0.22]}}},
}
_WIDTH = {"w": {"law": "log_uniform", "low": 1e-5, "high": 0.1}}
_ALONG, _ROUND = "((x - c)**2 + w**2)", "((x - c)**2 + (y - h)**2 + w**2)"
_BELOW = "((x - c)**2 + (y + w)**2)"  # a pole under the side y = 0
_P, _Q = "(0.5 + w)*cos(k)", "(0.5 + w)*sin(k)"  # and one beside the circle of the disk
_BESIDE = f"((x - 0.5 - {_P})**2 + (y - 0.5 - {_Q})**2)"
NARROW = {
    "line source": (f"sqrt({_ALONG})", f"w**2/{_ALONG}**1.5", "1"),
    "strip source": (
        "where(abs(x - c) < w, ((x - c)**2 + w**2)/(2*w), abs(x - c))",
        "where(abs(x - c) < w, 1/w, 0)",
        "1",
    ),
    "peak": (f"log({_ROUND})", f"4*w**2/{_ROUND}**2", "1"),
    "peak beside a wave": (
        f"log({_ROUND}) + sin(k*x)*exp(y)",
        f"4*w**2/{_ROUND}**2 + (1 - k**2)*sin(k*x)*exp(y)",
        "1",
    ),
    "jump": ("where(x < c, 0, (x - c)**2) + y", "where(x < c, 0, 2)", "1"),
    "layer": ("x + atan((x - c)/w)", "0", f"1/(1 + w/{_ALONG})"),
    "spike on a side": (f"(y + w)/{_BELOW}", "0", "1"),
    "low spike on a side": (f"1 + 0.1*(y + w)/{_BELOW}", "0", "1"),
    "inflow through a slit": (f"log({_BELOW})", "0", "1"),
    "spike on a circle": (
        f"({_P}*({_P} + 0.5 - x) + {_Q}*({_Q} + 0.5 - y))/{_BESIDE}",
        "0",
        "1",
    ),
}
"""Features finer than the mesh: u, div(a grad u) and a."""
SOLUTIONS = {
    "waves": "sin(k*(x - c)) + cos(k*(y - h) + x)",
    "bump": "exp(-k**2*((x - c)**2 + (y - h)**2))",
}


def manufactured(shape: str, solution: str, save: int, inflow: bool) -> RandomProblems:
    """−div((1 + x y) grad u) + u = f for random numbers in a given solution.

    Args:
        shape: Of :data:`SHAPES`.
        solution: Of :data:`SOLUTIONS`.
        save: Points along each axis of the output.
        inflow: Whether slopes are given instead of values.
    """
    numbers = sympy.symbols("c h k", real=True)
    u: Any = sympy.sympify(SOLUTIONS[solution], dict(zip("chkxy", (*numbers, _X, _Y), strict=True)))
    a = 1 + _X * _Y
    f = u - sum(sympy.diff(a * sympy.diff(u, s), s) for s in (_X, _Y))
    slope = f"({sympy.diff(u, _X)})*nx + ({sympy.diff(u, _Y)})*ny"
    given: Any = [f"dx(u)*nx + dy(u)*ny = {slope}"] if inflow else {"dirichlet": {"u": str(u)}}
    evaluate = sympy.lambdify((*numbers, _X, _Y), u, "numpy")

    def exact(v: Mapping[str, float], times: np.ndarray, where: Sequence[np.ndarray]) -> Fields:
        return {"u": evaluate(v["c"], v["h"], v["k"], *where)}

    words = {"equations": [f"-div((1 + x*y)*grad(u)) + u = {f}"], "inputs": _NUMBERS}
    return _steady(SHAPES[shape], save, given, words, exact)


def narrow(shape: str, data: str, inflow: bool = False) -> RandomProblems:
    """−div(a grad u) = −f with features of any width at random places; b u on both sides.

    Args:
        shape: Of :data:`SHAPES`.
        data: Of :data:`NARROW`.
        inflow: Whether slopes are given instead of values, where b = 1 instead of 0.
    """
    u, f, a = NARROW[data]
    names = [n for n in (*_NUMBERS, "w") if re.search(rf"\b{n}\b", f"{u} {f}")]
    formula: Any = sympy.sympify(u, {"x": _X, "y": _Y})
    evaluate = sympy.lambdify([*names, _X, _Y], formula, [{"where": np.where}, "numpy"])
    given: Any = {"dirichlet": {"u": u}}
    equation = f"-div(({a})*grad(u)) = -({f})"
    if inflow:
        slope = f"({sympy.diff(formula, _X)})*nx + ({sympy.diff(formula, _Y)})*ny"
        given = [f"dx(u)*nx + dy(u)*ny = {slope}"]
        equation = f"-lap(u) + u = {u} - ({f})"

    def exact(v: Mapping[str, float], times: np.ndarray, where: Sequence[np.ndarray]) -> Fields:
        return {"u": evaluate(*(v[n] for n in names), *where)}

    inputs = {n: own for n, own in (_NUMBERS | _WIDTH).items() if n in names}
    return _steady(SHAPES[shape], 13, given, {"equations": [equation], "inputs": inputs}, exact)


def interface(save: int) -> RandomProblems:
    """−div(a grad u) = −4 on a disk, a = 1 within a random radius and of a random ratio outside."""

    def exact(v: Mapping[str, float], times: np.ndarray, where: Sequence[np.ndarray]) -> Fields:
        square = (where[0] - 0.5) ** 2 + (where[1] - 0.5) ** 2
        inner = v["c"] / 2
        outside = (square - 0.25) / v["r"]
        return {
            "u": np.where(
                square < inner**2, square - inner**2 + (inner**2 - 0.25) / v["r"], outside
            )
        }

    words = {
        "equations": ["-div(where((x - 1/2)**2 + (y - 1/2)**2 < c**2/4, 1, r)*grad(u)) = -4"],
        "inputs": {"c": _NUMBERS["c"], "r": _RATIO},
    }
    return _steady(SHAPES["disk"], save, {"dirichlet": {"u": 0}}, words, exact, tolerance=1e-2)


def _steady(
    domain: Any,
    save: int,
    given: Any,
    words: Mapping[str, Any],
    exact: Callable[..., Fields],
    tolerance: float = 1e-3,
) -> RandomProblems:
    common = {
        "name": "shape",
        "space": {"x": [0, 1], "y": [0, 1]},
        "domain": domain,
        "unknowns": ["u"],
        "boundary": {"rest": given},
        "save": {"x": save, "y": save},
    }
    return RandomProblems({**common, **words}, exact, tolerance)


CLASSES = {
    **{
        f"{solution}, {shape}, {'slopes' if inflow else 'values'}": manufactured(
            shape, solution, 13, inflow
        )
        for shape in SHAPES
        for solution in SOLUTIONS
        for inflow in (False, True)
    },
    **{
        f"{data}, {shape}, {'slopes' if inflow else 'values'}": narrow(shape, data, inflow)
        for data, shape, inflow in (
            ("line source", "L", False),
            ("strip source", "disk", False),
            ("peak", "disk", False),
            ("peak beside a wave", "hole", False),
            ("peak", "L", True),
            ("jump", "L", False),
            ("layer", "hole", False),
            ("spike on a side", "L", False),
            ("low spike on a side", "L", False),
            ("inflow through a slit", "L", True),
            ("spike on a circle", "disk", False),
        )
    },
    "interface, disk": interface(13),
    "waves, L, fine output": manufactured("L", "waves", 129, False),
}
"""Solution, shape and condition → problems."""
