"""Open any data file by its content: the format first, then the published layout."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import h5py

from piop.datasets.formats.geo_fno import is_numpy_folder, open_numpy_folder
from piop.datasets.formats.hdf5 import open_h5
from piop.datasets.formats.limits import checked, stored_bytes
from piop.datasets.formats.matlab import is_matlab7, open_matlab5, open_matlab7
from piop.datasets.formats.netcdf import open_netcdf
from piop.datasets.formats.neuraloperator import open_torch
from piop.datasets.formats.pdebench import PDEBENCH, is_pdebench, open_pdebench
from piop.datasets.formats.tables import open_csv, open_npz
from piop.datasets.formats.the_well import THE_WELL, is_well, open_well
from piop.datasets.formats.zarr import is_zarr, open_zarr
from piop.datasets.lazy_arrays import OpenFile, RawFile, reading, reason_of
from piop.errors import DataError

READABLE = "NetCDF, HDF5, Zarr, MATLAB, npz, torch or CSV"
MATLAB, ZIP = b"MATLAB ", b"PK\x03\x04"


def read_raw(path: str | Path) -> RawFile:
    """Read a whole file; see :func:`open_raw`."""
    with open_raw(path) as opened:
        return opened.read()


def open_raw(path: str | Path) -> OpenFile:
    """Open NetCDF (3 or 4), HDF5, Zarr, MATLAB, npz, torch, CSV or a published layout of those.

    The file may be anybody's: what it is and what its headers declare is judged before it is read.

    Raises:
        DataError: The file is missing, empty, unreadable or of another format; it is a pipe or
            device, leads to other files, or declares sizes that it cannot fill.
        NotSupportedError: Zarr without its library.
    """
    path = Path(path)
    stored = stored_bytes(path)
    with reading(path, "a data file"):
        name, opener = _format_of(path)
    with reading(path, name):
        return checked(opener(path), stored)


def _format_of(path: Path) -> tuple[str, Callable[[Path], OpenFile]]:
    """Tell the format by the content: its name and what opens it."""
    if path.is_dir():
        return "a folder", _open_folder
    head = _head(path)
    for fits, name, opener in _FORMATS:
        if fits(path, head):
            return name, opener
    if b"\0" in head:
        raise DataError(f"{path}: not a format that can be read; expected {READABLE}")
    return "csv", open_csv


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from None
    if not head:
        raise DataError(f"{path}: is empty; expected {READABLE}")
    return head


def _is_torch(path: Path, head: bytes) -> bool:
    if not head.startswith(ZIP):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/data.pkl") for name in archive.namelist())


def _open_folder(path: Path) -> OpenFile:
    if is_zarr(path):
        return open_zarr(path)
    if is_numpy_folder(path):
        return open_numpy_folder(path)
    raise DataError(f"{path}: is a folder; expected a file, or a folder in Zarr's format")


def _open_hdf5(path: Path) -> OpenFile:
    """Open a file by its layout; one of no published layout is NetCDF."""
    layouts = ((is_matlab7, open_matlab7), (is_well, open_well), (is_pdebench, open_pdebench))
    expected = (
        f"Expected the names of the spec along named dimensions, as NetCDF has them; or "
        f"{PDEBENCH}; or {THE_WELL}. See docs/datasets.md"
    )
    with ExitStack() as stack:
        file = stack.enter_context(open_h5(path))
        open_layout = next((opener for fits, opener in layouts if fits(file)), None)
        found = open_layout(path, file) if open_layout else open_netcdf(path, file, expected)
        stack.pop_all()  # it stays open
    return found


_FORMATS: tuple[tuple[Callable[[Path, bytes], bool], str, Callable[[Path], OpenFile]], ...] = (
    (lambda path, _: h5py.is_hdf5(path), "HDF5", _open_hdf5),
    (lambda _, head: head.startswith(MATLAB), "a MATLAB file", open_matlab5),
    (lambda _, head: head.startswith(b"CDF"), "netcdf", open_netcdf),
    (_is_torch, "a torch file", open_torch),
    (lambda _, head: head.startswith(ZIP), "a zip archive", open_npz),
)
