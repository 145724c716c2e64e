"""The torch files of the neuraloperator library."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import increasing
from piop.datasets.formats.limits import NUMBER, check_packing, check_sizes, stored_bytes
from piop.datasets.lazy_arrays import SAMPLE, OpenFile, axis_arrays, lazy_array, reason_of
from piop.errors import DataError

DARCY_GRIDS = (16, 32)
"""Grids of neuraloperator's Darcy data whose positions are known."""
DARCY_FIRST = 1 / 1024
"""Place of their first point: the centre of the first cell of a grid of 512."""
PERMEABILITIES = (1 / 50, 18 / 50)
"""What False and True stand for, where the source is one."""
BURGERS_POINTS, BURGERS_ROWS, BURGERS_INTERVAL = 16, 17, 0.06
"""Points, rows and their distance in time of neuraloperator's Burgers data."""

Stored = Mapping[str, Tensor]


def open_torch(path: Path) -> OpenFile:
    """Read a data set that was written by ``torch.save``.

    Nothing but tensors and plain containers is loaded (``weights_only``). A file of no published
    layout is read by its names, if some of its tensors are positions.

    Raises:
        DataError: If the file holds anything else, or a layout that is not known.
    """
    with zipfile.ZipFile(path) as archive:
        check_packing(path, archive)
        sizes = {entry.filename: entry.file_size // NUMBER for entry in archive.infolist()}
        check_sizes(path, stored_bytes(path), sizes)
        if damaged := archive.testzip():  # torch does not compare checksums
            raise DataError(f"{path}: is damaged: the checksum of '{damaged}' does not agree")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle and zip raise many kinds, for files of many kinds
        message = f"is a torch file that cannot be read safely: {reason_of(error)}"
        raise DataError(f"{path}: {message}") from error
    if not isinstance(stored, dict) or not all(isinstance(v, Tensor) for v in stored.values()):
        raise DataError(f"{path}: is a torch file of no data set: expected tensors by name")
    for fits, reader in LAYOUTS:
        if fits(stored):
            return reader(str(path), stored)
    plain = {name: v.numpy() for name, v in stored.items()}
    if any(map(increasing, plain.values())):
        arrays = {name: lazy_array(values) for name, values in plain.items()}
        return OpenFile(str(path), "torch", arrays, by_sample=False)
    shapes = ", ".join(
        f"'{name}' {tuple(v.shape)} {str(v.dtype).removeprefix('torch.')}"
        for name, v in stored.items()
    )
    raise DataError(
        f"{path}: is a torch file of no layout that is known: {shapes}. Known are neuraloperator's "
        f"Darcy ('x' and 'y' (samples, n, n), n one of {', '.join(map(str, DARCY_GRIDS))}, x of "
        f"truth values) and Burgers data ('x' (samples, {BURGERS_POINTS}), 'y' (samples, "
        f"{BURGERS_ROWS}, {BURGERS_POINTS}), 'visc'). Write others as NetCDF or npz with positions"
    )


def _is_darcy(stored: Stored) -> bool:
    if set(stored) != {"x", "y"}:
        return False
    x, y = stored["x"], stored["y"]
    square = x.ndim == 3 and x.shape[1] == x.shape[2] and x.shape[1] in DARCY_GRIDS
    return square and x.shape == y.shape and x.dtype == torch.bool and y.is_floating_point()


def _read_darcy(path: str, stored: Stored) -> OpenFile:
    n = stored["x"].shape[1]
    positions = np.arange(n) / n + DARCY_FIRST
    low, high = PERMEABILITIES
    arrays = {
        "a": lazy_array(np.where(stored["x"].numpy(), high, low), (SAMPLE, "x", "y")),
        "u": lazy_array(stored["y"].numpy(), (SAMPLE, "x", "y")),
        **axis_arrays(x=positions, y=positions),
    }
    attributes = {
        "equation": "-div(a*grad(u)) = 1, u = 0 on the boundary of [0, 1] x [0, 1]",
        "places": f"i/{n} + 1/1024 for i = 0 ... {n - 1}: cell centres of a grid of 512",
        "a": f"stored as truth values; False is taken as {low:g}, True as {high:g}",
        "spec": "darcy",
    }
    name = "torch: neuraloperator's Darcy data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)


def _is_burgers(stored: Stored) -> bool:
    if set(stored) != {"x", "y", "visc"}:
        return False
    x, y = stored["x"], stored["y"]
    count = len(x) if x.ndim else 0
    right = x.shape == (count, BURGERS_POINTS) and y.shape == (count, BURGERS_ROWS, BURGERS_POINTS)
    return right and x.is_floating_point() and y.is_floating_point() and stored["visc"].numel() == 1


def _read_burgers(path: str, stored: Stored) -> OpenFile:
    viscosity, times = float(stored["visc"]), BURGERS_INTERVAL * np.arange(BURGERS_ROWS)
    arrays = {
        "u0": lazy_array(stored["x"].numpy(), (SAMPLE, "x")),
        "u": lazy_array(stored["y"].numpy(), (SAMPLE, "t", "x")),
        **axis_arrays(t=times, x=np.arange(BURGERS_POINTS) / BURGERS_POINTS),
    }
    attributes = {
        "equation": f"dt(u) + u*dx(u) = {viscosity:g}*dxx(u), periodic on [0, 1]",
        "places": f"i/{BURGERS_POINTS}: the right end, which is the left one, is left out",
        "times": f"rows {BURGERS_INTERVAL:g} apart from 0 to {times[-1]:g}; the first is u0",
        "spec": "burgers_wang",
    }
    name = "torch: neuraloperator's Burgers data"
    return OpenFile(path, name, arrays, attributes, by_sample=False)


LAYOUTS = ((_is_darcy, _read_darcy), (_is_burgers, _read_burgers))
