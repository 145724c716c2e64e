"""Zarr, version 2 or 3: a folder of arrays."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from piop.errors import NotSupportedError

ZARR_FILE = "zarr.json"


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
