"""The MATLAB files of the Fourier neural operator's paper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from piop.datasets.lazy_arrays import SAMPLE, OpenFile, Source, lazy_array, transformed

LI_2021 = (
    "Li et al.'s 'a', 'u' (samples, points) of Burgers' equation, 'a' (samples, n, n), 'u' "
    "(samples, n, n, times), 't' of the Navier-Stokes equations, or 'coeff', 'sol' (samples, n, n) "
    "of Darcy flow"
)


OF_HORIZON = {50: "navier_stokes_1e-3", 30: "navier_stokes_1e-4", 20: "navier_stokes_1e-5"}
"""Specs of the paper's three viscosities, by the number of times, which are 1, 2, …"""


def name_li2021(path: str, sources: Mapping[str, Source], kind: str) -> OpenFile | None:
    """Name the arrays as piop's specs do; None for a file of another layout."""
    a, u = sources.get("a"), sources.get("u")
    if a is not None and u is not None and len(a.shape) == 2 and a.shape == u.shape:
        return _burgers(path, a, u, kind)
    if a is not None and u is not None and "t" in sources and _is_flow(a, u, sources["t"]):
        return _flow(path, a, u, sources["t"], kind)
    coefficient, solution = sources.get("coeff"), sources.get("sol")
    if coefficient is None or solution is None or coefficient.shape != solution.shape:
        return None
    square = len(solution.shape) == 3 and solution.shape[1] == solution.shape[2]
    return _darcy(path, coefficient, solution, kind) if square else None


def _burgers(path: str, a: Source, u: Source, kind: str) -> OpenFile:
    samples, n = a.shape
    whole = lazy_array(u, (SAMPLE, "x"))
    arrays = {
        "u0": lazy_array(a, (SAMPLE, "x")),
        "u": transformed(whole, lambda v: v[:, None], (SAMPLE, "t", "x"), (samples, 1, n)),
        "t": lazy_array(np.array([1.0]), ("t",)),
        "x": lazy_array(np.arange(n) / n, ("x",)),
    }
    attributes = {
        "equation": "dt(u) + u*dx(u) = nu*dxx(u), periodic on [0, 1]; nu is not in the file",
        "places": f"i/{n}: the right end, which is the left one, is left out",
        "times": "u is the solution at t = 1 alone",
        "spec": "burgers_fno",
    }
    name = f"matlab: {kind}, Li et al.'s Burgers data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)


def _is_flow(a: Source, u: Source, t: Source) -> bool:
    square = len(a.shape) == 3 and a.shape[1] == a.shape[2]
    return square and u.shape == (*a.shape, np.prod(t.shape))


def _flow(path: str, a: Source, u: Source, t: Source, kind: str) -> OpenFile:
    n = a.shape[1]
    times = np.asarray(t[tuple(slice(None) for _ in t.shape)], dtype=np.float64).ravel()
    positions = np.arange(n) / n
    arrays = {
        "w0": lazy_array(a, (SAMPLE, "x", "y")),
        "w": lazy_array(u, (SAMPLE, "x", "y", "t")),
        "t": lazy_array(times, ("t",)),
        "x": lazy_array(positions, ("x",)),
        "y": lazy_array(positions, ("y",)),
    }
    attributes = {
        "equation": "vorticity w of a forced flow, periodic on [0, 1] x [0, 1]; nu is not in "
        "the file",
        "places": f"i/{n}: right ends are left out",
        "times": "as stored; t = 0 is w0",
        "spec": OF_HORIZON.get(len(times), "navier_stokes"),
    }
    name = f"matlab: {kind}, Li et al.'s Navier-Stokes data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)


def _darcy(path: str, coefficient: Source, solution: Source, kind: str) -> OpenFile:
    n = coefficient.shape[1]
    positions = np.arange(n) / (n - 1)
    arrays = {
        "a": lazy_array(coefficient, (SAMPLE, "x", "y")),
        "u": lazy_array(solution, (SAMPLE, "x", "y")),
        "x": lazy_array(positions, ("x",)),
        "y": lazy_array(positions, ("y",)),
    }
    attributes = {
        "equation": "-div(a*grad(u)) = 1, u = 0 on the boundary of [0, 1] x [0, 1]",
        "places": f"i/{n - 1}, both ends among them",
        "spec": "darcy_fno",
    }
    name = f"matlab: {kind}, Li et al.'s Darcy data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)
