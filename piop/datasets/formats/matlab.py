"""MATLAB files, of version 5 and of 7.3 as HDF5, and their published layouts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np

from piop.datasets.axes import increasing
from piop.datasets.formats.geo_fno import is_plasticity, name_plasticity
from piop.datasets.formats.limits import check_sizes, stored_bytes
from piop.datasets.formats.matlab5 import matlab5_arrays
from piop.datasets.lazy_arrays import (
    SAMPLE,
    Hdf5,
    OpenFile,
    Reversed,
    Source,
    axis_arrays,
    is_number,
    lazy_array,
    transformed,
)

LI_2021 = (
    "Li et al.'s 'a', 'u' (samples, points) of Burgers' equation, 'a' (samples, n, n), 'u' "
    "(samples, n, n, times), 't' of the Navier-Stokes equations, or 'coeff', 'sol' (samples, n, n) "
    "of Darcy flow"
)


OF_HORIZON = {50: "navier_stokes_1e-3", 30: "navier_stokes_1e-4", 20: "navier_stokes_1e-5"}
"""Specs of the paper's three viscosities, by the number of times, which are 1, 2, …"""


def name_li2021(path: str, sources: Mapping[str, Source], kind: str) -> OpenFile | None:
    """Name the arrays as piop's specs do; None for a file of another layout."""
    if {"a", "u"} <= set(sources):
        a, u = sources["a"], sources["u"]
        if len(a.shape) == 2 and a.shape == u.shape:
            return _burgers(path, a, u, kind)
        if (
            "t" in sources
            and _is_square(a)
            and u.shape == (*a.shape, math.prod(sources["t"].shape))
        ):
            return _flow(path, a, u, sources["t"], kind)
    if {"coeff", "sol"} <= set(sources):
        coefficient, solution = sources["coeff"], sources["sol"]
        if _is_square(solution) and coefficient.shape == solution.shape:
            return _darcy(path, coefficient, solution, kind)
    return None


def _is_square(source: Source) -> bool:
    return len(source.shape) == 3 and source.shape[1] == source.shape[2]


def _burgers(path: str, a: Source, u: Source, kind: str) -> OpenFile:
    samples, n = a.shape
    whole = lazy_array(u, (SAMPLE, "x"))
    arrays = {
        "u0": lazy_array(a, (SAMPLE, "x")),
        "u": transformed(whole, lambda v: v[:, None], (SAMPLE, "t", "x"), (samples, 1, n)),
        **axis_arrays(t=np.array([1.0]), x=np.arange(n) / n),
    }
    attributes = {
        "equation": "dt(u) + u*dx(u) = nu*dxx(u), periodic on [0, 1]; nu is not in the file",
        "places": f"i/{n}: the right end, which is the left one, is left out",
        "times": "u is the solution at t = 1 alone",
        "spec": "burgers_fno",
    }
    name = f"matlab: {kind}, Li et al.'s Burgers data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)


def _flow(path: str, a: Source, u: Source, t: Source, kind: str) -> OpenFile:
    n = a.shape[1]
    times = np.asarray(t[(slice(None),) * len(t.shape)], dtype=np.float64).ravel()
    arrays = {
        "w0": lazy_array(a, (SAMPLE, "x", "y")),
        "w": lazy_array(u, (SAMPLE, "x", "y", "t")),
        **axis_arrays(t=times, x=np.arange(n) / n, y=np.arange(n) / n),
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
        **axis_arrays(x=positions, y=positions),
    }
    attributes = {
        "equation": "-div(a*grad(u)) = 1, u = 0 on the boundary of [0, 1] x [0, 1]",
        "places": f"i/{n - 1}, both ends among them",
        "spec": "darcy_fno",
    }
    name = f"matlab: {kind}, Li et al.'s Darcy data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)


EXPECTED = (
    f"Expected the names of the spec with lists of positions, or {LI_2021}, or Geo-FNO's "
    f"'input' (samples, 101), 'output' (samples, 101, 31, 20, 4). See docs/datasets.md"
)
CLASS = "MATLAB_class"
"""The attribute that every array of a newer file has."""


def is_matlab7(file: Hdf5) -> bool:
    """Tell a newer MATLAB file from other HDF5."""
    return any(CLASS in v.attrs for v in file.values() if isinstance(v, h5py.Dataset))


def open_matlab7(path: Path, file: Hdf5) -> OpenFile:
    """Open a file of version 7.3, whose axes HDF5 shows in the opposite order."""
    sources = {
        name: Reversed(v)
        for name, v in file.items()
        if isinstance(v, h5py.Dataset) and is_number(v)
    }
    # samples are the fastest axis: each is spread over the whole file
    return replace(_named(path, sources, "MATLAB 7.3"), close=file.close)


def open_matlab5(path: Path) -> OpenFile:
    """Open a file of version 5."""
    return _named(path, matlab5_arrays(path), "MATLAB 5")


def _named(path: Path, sources: Mapping[str, Source], kind: str) -> OpenFile:
    declared = {name: math.prod(source.shape) for name, source in sources.items()}
    check_sizes(path, stored_bytes(path), declared)  # lists of positions are read to tell them
    if is_plasticity(sources):
        return name_plasticity(str(path), sources, kind)
    found = name_li2021(str(path), sources, kind)
    if found is not None:
        return found
    plain = {name: lazy_array(_vector(v)) for name, v in sources.items()}
    return OpenFile(str(path), f"matlab: {kind}", plain, {}, EXPECTED, by_sample=False)


def _vector(source: Source) -> Source:
    """Drop the axis of length one that MATLAB gives a list of positions."""
    if len(source.shape) == 2 and 1 in source.shape and max(source.shape) > 1:
        values = np.asarray(source[:, :]).ravel()
        if increasing(values):
            return values
    return source
