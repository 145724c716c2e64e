"""Steady problems on shapes for finite elements, by manufactured and closed solutions."""

from __future__ import annotations

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
    "interface, disk": interface(13),
    "waves, L, fine output": manufactured("L", "waves", 129, False),
}
"""Solution, shape and condition → problems."""
