"""Read the attributes of an HDF5 file in a process of its own, which may die of them.

    python hdf5_attributes.py FILE LEVELS

A damaged length of a list or of text in HDF5 keeps its library busy without end, and no signal
interrupts it.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import h5py

SECONDS = 2
"""Processor time for the attributes; those of 1000 arrays take a tenth of a second."""
MEMORY = 2**30
"""Bytes, of which the libraries take a fifth."""


def main(path: str, levels: str) -> None:
    """Read the attributes of the file itself, and of the groups and arrays down to a level."""
    _limit(resource.RLIMIT_CPU, int(time.process_time()) + SECONDS)
    _limit(resource.RLIMIT_DATA, MEMORY)
    _limit(resource.RLIMIT_CORE, 0)
    with h5py.File(path, "r") as file:
        _read(file, int(levels))


def _read(item: h5py.Group | h5py.Dataset | h5py.Datatype, levels: int) -> None:
    dict(item.attrs)
    if levels and isinstance(item, h5py.Group):
        for name in item:
            below: Any = item.get(name)
            if below is not None:  # a link that leads nowhere
                _read(below, levels - 1)


def _limit(kind: int, most: int) -> None:
    """Lower a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main(*sys.argv[1:])
