"""Read the headers of a NetCDF file, version 4, in a process of its own, which may die of them.

    python netcdf_headers.py FILE

A damaged length of a list in HDF5 keeps its library busy without end, and no signal interrupts it.
"""

from __future__ import annotations

import resource
import sys
import time

import h5netcdf

SECONDS = 4
"""Processor time for the headers; those of 1000 arrays take half a second."""
MEMORY = 2**30
"""Bytes, of which the libraries take a fifth."""


def main(path: str) -> None:
    """Read names, dimensions and attributes, as xarray does when it opens the file."""
    _limit(resource.RLIMIT_CPU, int(time.process_time()) + SECONDS)
    _limit(resource.RLIMIT_DATA, MEMORY)
    _limit(resource.RLIMIT_CORE, 0)
    with h5netcdf.File(path, "r", phony_dims="access") as file:
        for part in (file, *file.variables.values()):
            dict(part.attrs)


def _limit(kind: int, most: int) -> None:
    """Lower a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main(sys.argv[1])
