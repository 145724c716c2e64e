"""A folder of npy files that belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from piop.datasets.geo_fno import FLOW, name_airfoil
from piop.datasets.opened import OpenFile
from piop.errors import DataError

EXPECTED = (
    f"Geo-FNO's airfoils, three files of it: two of shape (samples, n, m), whose names end in _X "
    f"and _Y, one (samples, {len(FLOW)}, n, m), whose name ends in _Q"
)


def is_numpy_folder(path: Path) -> bool:
    """Tell a folder that holds npy files."""
    return any(path.glob("*.npy"))


def open_numpy_folder(path: Path) -> OpenFile:
    """Open a published data set that is several files; they are mapped, not read.

    Raises:
        DataError: If the files are those of no data set that is known.
    """
    files = {f.stem: np.load(f, mmap_mode="r", allow_pickle=False) for f in path.glob("*.npy")}
    ends = {name[-2:].upper(): array for name, array in files.items()}
    x, y, q = (ends.get(f"_{part}") for part in "XYQ")
    if x is not None and y is not None and q is not None:
        fits = x.ndim == 3 and x.shape == y.shape and q.ndim == 4 and q.shape[1] == len(FLOW)
        if fits and q.shape[0] == x.shape[0] and q.shape[2:] == x.shape[1:]:
            return name_airfoil(str(path), x, y, q)
    found = ", ".join(f"'{n}' {a.shape}" for n, a in sorted(files.items()))
    raise DataError(f"{path}: is a folder of npy files; expected {EXPECTED}; found {found}")
