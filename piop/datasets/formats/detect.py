"""Open any data file by its content: format, then published layout."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from piop.datasets.arrays import Hdf5, OpenFile, RawFile, lazy_array
from piop.datasets.formats.matlab import is_matlab7, open_matlab7
from piop.datasets.formats.netcdf import open_h5, open_netcdf
from piop.datasets.formats.pdebench import PDEBENCH, is_pdebench, open_pdebench
from piop.datasets.formats.the_well import THE_WELL, is_well, open_well
from piop.errors import DataError, NotSupportedError

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


T = TypeVar("T")
READABLE = "NetCDF, HDF5, Zarr, MATLAB, npz, torch or CSV"
HDF5, MATLAB = b"\x89HDF\r\n\x1a\n", b"MATLAB "
BLOCKS = tuple(512 * 2**i for i in range(8))
"""Where HDF5 may begin behind a block of another format's."""


def read_raw(path: str | Path) -> RawFile:
    """Read a whole file; see :func:`open_raw`."""
    with open_raw(path) as opened:
        return reading(Path(path), opened.format, opened.read)


def open_raw(path: str | Path) -> OpenFile:
    """Open NetCDF (3 or 4), HDF5, Zarr, MATLAB, npz, torch, CSV or a published layout of those.

    Raises:
        DataError: The file is missing, empty, unreadable or of another format.
        NotSupportedError: Zarr without its library.
    """
    path = Path(path)
    if path.is_dir():
        return reading(path, "a folder", lambda: _open_folder(path))
    head = _head(path)
    for fits, name, opener in _FORMATS:
        if fits(path, head):
            return reading(path, name, lambda opener=opener: opener(path))
    if b"\0" in head:
        raise DataError(f"{path}: not a format that can be read; expected {READABLE}")
    return reading(path, "csv", lambda: _open_csv(path))


def reading(path: Path, name: str, action: Callable[[], T]) -> T:
    """Tell what a library has against a file as an error of that file."""
    try:
        return action()
    except (DataError, NotSupportedError):
        raise
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: looks like {name} but is damaged: {error}") from error
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, EOFError) as error:
        message = f"{path}: looks like {name} but cannot be read: {_reason(error)}"
        raise DataError(message) from error


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {_reason(error)}") from None
    if not head:
        raise DataError(f"{path}: is empty; expected {READABLE}")
    return head


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]


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
    if not head.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _open_folder(path: Path) -> OpenFile:
    from piop.datasets.formats.tables import is_numpy_folder, open_numpy_folder
    from piop.datasets.formats.zarr import is_zarr, open_zarr

    if is_zarr(path):
        return open_zarr(path)
    if is_numpy_folder(path):
        return open_numpy_folder(path)
    raise DataError(f"{path}: is a folder; expected a file, or a folder in Zarr's format")


def _open_hdf5(path: Path) -> OpenFile:
    pass  # FIXME

    return open_hdf5(path)


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
    with np.load(path, allow_pickle=False) as data:
        arrays = {}
        for name in data.files:
            try:
                arrays[name] = lazy_array(data[name])
            except ValueError:
                message = f"{path}: '{name}' holds Python objects (is it ragged?); expected numbers"
                raise DataError(message) from None
    return OpenFile(str(path), "npz", arrays, by_sample=False)


def _open_csv(path: Path) -> OpenFile:
    from piop.datasets.formats.tables import read_table

    columns = {name: lazy_array(v, ("row",)) for name, v in read_table(path).items()}
    return OpenFile(str(path), "csv", columns, by_sample=False)


_FORMATS: tuple[tuple[Callable[[Path, bytes], bool], str, Callable[[Path], OpenFile]], ...] = (
    (_is_hdf5, "HDF5", _open_hdf5),
    (lambda _, head: head.startswith(MATLAB), "a MATLAB file", _open_matlab),
    (lambda _, head: head.startswith(b"CDF"), "netcdf", _open_classic),
    (_is_torch, "a torch file", _open_torch),
    (lambda _, head: head.startswith(b"PK\x03\x04"), "a zip archive", _open_npz),
)
