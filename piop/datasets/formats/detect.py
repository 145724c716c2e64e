"""Open any data file by its content: the format first, then the published layout."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import h5py

from piop.datasets.formats.geo_fno import is_numpy_folder, open_numpy_folder
from piop.datasets.formats.matlab import is_matlab7, open_matlab5, open_matlab7
from piop.datasets.formats.netcdf import open_h5, open_netcdf
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
    with open_raw(path) as opened, reading(opened.path, opened.format):
        return opened.read()


def open_raw(path: str | Path) -> OpenFile:
    """Open NetCDF (3 or 4), HDF5, Zarr, MATLAB, npz, torch, CSV or a published layout of those.

    Raises:
        DataError: The file is missing, empty, unreadable or of another format.
        NotSupportedError: Zarr without its library.
    """
    path = Path(path)
    if path.is_dir():
        with reading(path, "a folder"):
            return _open_folder(path)
    head = _head(path)
    for fits, name, opener in _FORMATS:
        if fits(path, head):
            with reading(path, name):
                return opener(path)
    if b"\0" in head:
        raise DataError(f"{path}: not a format that can be read; expected {READABLE}")
    with reading(path, "csv"):
        return open_csv(path)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {reason_of(error)}") from None
    if not head:
        raise DataError(f"{path}: is empty; expected {READABLE}")
    return head


def _is_torch(path: Path, head: bytes) -> bool:
    if not head.startswith(ZIP):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _open_folder(path: Path) -> OpenFile:
    if is_zarr(path):
        return open_zarr(path)
    if is_numpy_folder(path):
        return open_numpy_folder(path)
    raise DataError(f"{path}: is a folder; expected a file, or a folder in Zarr's format")


def _open_hdf5(path: Path) -> OpenFile:
    """Open a file by its layout; one of no published layout is NetCDF."""
    layouts = ((is_matlab7, open_matlab7), (is_well, open_well), (is_pdebench, open_pdebench))
    with ExitStack() as stack:
        file = stack.enter_context(open_h5(path))
        for fits, opener in layouts:
            if fits(file):
                found = opener(path, file)
                stack.pop_all()  # it stays open
                return found
    expected = (
        f"Expected the names of the spec along named dimensions, as NetCDF has them; or "
        f"{PDEBENCH}; or {THE_WELL}. See docs/datasets.md"
    )
    return open_netcdf(path, expected=expected)


_FORMATS: tuple[tuple[Callable[[Path, bytes], bool], str, Callable[[Path], OpenFile]], ...] = (
    (lambda path, _: h5py.is_hdf5(path), "HDF5", _open_hdf5),
    (lambda _, head: head.startswith(MATLAB), "a MATLAB file", open_matlab5),
    (lambda _, head: head.startswith(b"CDF"), "netcdf", partial(open_netcdf, engine="scipy")),
    (_is_torch, "a torch file", open_torch),
    (lambda _, head: head.startswith(ZIP), "a zip archive", open_npz),
)
