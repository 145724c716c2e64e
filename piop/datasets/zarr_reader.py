"""Zarr, version 2 or 3: a folder of arrays."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from piop.datasets.opened import OpenFile, stored
from piop.errors import DataError, NotSupportedError

ZARR_FILE = "zarr.json"
OF_VERSION_2 = ".zgroup"
NAMES = "_ARRAY_DIMENSIONS"
"""Where xarray keeps the names of dimensions in version 2."""


def zarr_library(path: str | Path) -> ModuleType:
    """Import Zarr's library, which is no dependency of piop.

    Raises:
        NotSupportedError: If it is not there.
    """
    try:
        import zarr
    except ImportError:
        raise NotSupportedError(
            f"{path}: Zarr needs its library, of version 3: pip install 'piop[zarr]'. Without it "
            f"data sets are NetCDF: --output F.nc"
        ) from None
    return zarr


def is_zarr(path: Path) -> bool:
    """Tell a folder in Zarr's format from others."""
    return any((path / name).is_file() for name in (ZARR_FILE, OF_VERSION_2))


def open_zarr(path: Path) -> OpenFile:
    """Open the arrays of the outermost group.

    Raises:
        DataError: If the folder holds one array alone, not a group.
        NotSupportedError: Without Zarr's library.
    """
    group = zarr_library(path).open(path, mode="r")
    if not hasattr(group, "arrays"):
        raise DataError(f"{path}: is one array of Zarr; expected a group of named arrays")
    arrays = {
        name: stored(array, _dimensions(array))
        for name, array in group.arrays()
        if np.dtype(array.dtype).kind in "fiub"
    }
    return OpenFile(str(path), "zarr", arrays, dict(group.attrs))


def _dimensions(array: Any) -> tuple[str, ...] | None:
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get(NAMES)
    return None if not names or None in names else tuple(map(str, names))
