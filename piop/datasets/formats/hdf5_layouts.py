"""HDF5: NetCDF 4, MATLAB's newer files, or a published layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from piop.datasets.arrays import Hdf5, OpenFile
from piop.datasets.formats.hdf5 import open_h5
from piop.datasets.formats.matlab import is_matlab7, open_matlab7
from piop.datasets.formats.netcdf import open_netcdf
from piop.datasets.published.pdebench import PDEBENCH, is_pdebench, open_pdebench
from piop.datasets.published.the_well import THE_WELL, is_well, open_well

EXPECTED = (
    f"Expected the names of the spec along named dimensions, as NetCDF has them; or {PDEBENCH}; "
    f"or {THE_WELL}. See docs/datasets.md"
)
LAYOUTS: tuple[tuple[Callable[[Hdf5], bool], Callable[[Path, Hdf5], OpenFile]], ...] = (
    (is_matlab7, open_matlab7),
    (is_well, open_well),
    (is_pdebench, open_pdebench),
)


def open_hdf5(path: Path) -> OpenFile:
    """Open a file by the layout that it has."""
    file = open_h5(path)
    try:
        for fits, opener in LAYOUTS:
            if fits(file):
                return opener(path, file)
    except BaseException:
        file.close()
        raise
    file.close()
    return open_netcdf(path, expected=EXPECTED)
