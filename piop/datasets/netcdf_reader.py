"""NetCDF, and HDF5 whose arrays have names for their dimensions."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

import numpy as np

from piop.datasets.h5 import open_h5
from piop.datasets.opened import OpenFile, Select, stored

DECODED = {"scale_factor", "add_offset", "missing_value", "_Unsigned"}
"""Attributes by which numbers mean others than those stored."""
UNNAMED = "phony_dim_"
"""How xarray calls dimensions that have no name."""


@final
class _Decoded:
    """A variable of xarray, which applies scales, offsets and missing values.

    Args:
        variable: xarray's.
    """

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.shape: tuple[int, ...] = tuple(variable.shape)
        self.dtype: Any = variable.dtype

    def __getitem__(self, select: Select, /) -> np.ndarray:
        """Read a part."""
        return np.asarray(self.variable[select].values)


def open_netcdf(path: Path, engine: str = "h5netcdf", expected: str = "") -> OpenFile:
    """Open a file by xarray, with times as the numbers they are."""
    import xarray  # half a second to import, and CSV does not need it

    options: dict[str, Any] = {"decode_times": False, "decode_timedelta": False}
    if engine == "h5netcdf":
        options["phony_dims"] = "access"
    # the first to open a file decides on its cache for all
    direct = open_h5(path) if engine == "h5netcdf" else None
    with ExitStack() as stack:
        if direct is not None:
            stack.callback(direct.close)
        data = xarray.open_dataset(path, engine=engine, cache=False, **options)
        stack.callback(data.close)
        close = stack.pop_all().close

    arrays = {}
    for name, variable in data.variables.items():
        names = tuple(map(str, variable.dims))
        named = not any(d.startswith(UNNAMED) for d in names)
        as_it_is = direct is not None and _is_plain(variable)
        # xarray and h5netcdf take milliseconds for a read, h5py a tenth of one
        source = direct[str(name)] if as_it_is and direct is not None else _Decoded(variable)
        arrays[str(name)] = stored(source, names if named else None)  # type: ignore[arg-type]
    return OpenFile(str(path), "netcdf", arrays, dict(data.attrs), expected, close)


def _is_plain(variable: Any) -> bool:
    """Tell a variable whose numbers mean what they are; NaN is missing without being told."""
    said = variable.encoding
    fill = said.get("_FillValue")
    missing = fill is None or (isinstance(fill, float | np.floating) and bool(np.isnan(fill)))
    same = np.dtype(said.get("dtype", variable.dtype)) == variable.dtype
    return missing and same and not DECODED & set(said) and variable.dtype.kind in "fiu"
