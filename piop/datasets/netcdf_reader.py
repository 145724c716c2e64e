"""NetCDF, and HDF5 whose arrays have names for their dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import numpy as np

from piop.datasets.opened import OpenFile, Select, stored

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
    data = xarray.open_dataset(path, engine=engine, cache=False, **options)
    arrays = {}
    for name, variable in data.variables.items():
        names = tuple(map(str, variable.dims))
        named = not any(d.startswith(UNNAMED) for d in names)
        arrays[str(name)] = stored(_Decoded(variable), names if named else None)
    return OpenFile(str(path), "netcdf", arrays, dict(data.attrs), expected, data.close)
