"""Open any data file by its content: the format first, then the published layout."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from piop.datasets.lazy_arrays import OpenFile, RawFile, reading, reason_of
from piop.errors import DataError

READABLE = "NetCDF, HDF5, Zarr, MATLAB, npz, torch or CSV"
HDF5, MATLAB, ZIP = b"\x89HDF\r\n\x1a\n", b"MATLAB ", b"PK\x03\x04"
BLOCKS = tuple(512 * 2**i for i in range(8))
"""Offsets at which HDF5 may begin behind a block of another format's."""


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
        return _open_csv(path)


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


def _is_hdf5(path: Path, head: bytes) -> bool:
    if head.startswith(HDF5):
        return True
    with path.open("rb") as file:
        for block in BLOCKS:
            file.seek(block)
            if file.read(len(HDF5)) == HDF5:
                return True
    return False


def _is_torch(path: Path, head: bytes) -> bool:
    if not head.startswith(ZIP):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


# A format's library is imported when a file of that format is opened.


def _open_folder(path: Path) -> OpenFile:
    from piop.datasets.formats.geo_fno import is_numpy_folder, open_numpy_folder
    from piop.datasets.formats.zarr import is_zarr, open_zarr

    if is_zarr(path):
        return open_zarr(path)
    if is_numpy_folder(path):
        return open_numpy_folder(path)
    raise DataError(f"{path}: is a folder; expected a file, or a folder in Zarr's format")


def _open_hdf5(path: Path) -> OpenFile:
    """Open a file by its layout; one of no published layout is NetCDF."""
    from piop.datasets.formats.matlab import is_matlab7, open_matlab7
    from piop.datasets.formats.netcdf import open_h5, open_netcdf
    from piop.datasets.formats.pdebench import PDEBENCH, is_pdebench, open_pdebench
    from piop.datasets.formats.the_well import THE_WELL, is_well, open_well

    layouts = ((is_matlab7, open_matlab7), (is_well, open_well), (is_pdebench, open_pdebench))
    file = open_h5(path)
    try:
        for fits, opener in layouts:
            if fits(file):
                return opener(path, file)
    except BaseException:
        file.close()
        raise
    file.close()
    expected = (
        f"Expected the names of the spec along named dimensions, as NetCDF has them; or "
        f"{PDEBENCH}; or {THE_WELL}. See docs/datasets.md"
    )
    return open_netcdf(path, expected=expected)


def _open_classic(path: Path) -> OpenFile:
    from piop.datasets.formats.netcdf import open_netcdf

    return open_netcdf(path, "scipy")


def _open_matlab(path: Path) -> OpenFile:
    from piop.datasets.formats.matlab import open_matlab5

    return open_matlab5(path)


def _open_torch(path: Path) -> OpenFile:
    from piop.datasets.formats.neuraloperator import open_torch

    return open_torch(path)


def _open_npz(path: Path) -> OpenFile:
    from piop.datasets.formats.tables import open_npz

    return open_npz(path)


def _open_csv(path: Path) -> OpenFile:
    from piop.datasets.formats.tables import open_csv

    return open_csv(path)


_FORMATS: tuple[tuple[Callable[[Path, bytes], bool], str, Callable[[Path], OpenFile]], ...] = (
    (_is_hdf5, "HDF5", _open_hdf5),
    (lambda _, head: head.startswith(MATLAB), "a MATLAB file", _open_matlab),
    (lambda _, head: head.startswith(b"CDF"), "netcdf", _open_classic),
    (_is_torch, "a torch file", _open_torch),
    (lambda _, head: head.startswith(ZIP), "a zip archive", _open_npz),
)
