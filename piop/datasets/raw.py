"""Any data file as named arrays with named dimensions, told apart by content."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from piop.datasets.table import read_table
from piop.errors import DataError

SAMPLE, POINT = "sample", "point"


@dataclass(frozen=True)
class Variable:
    """One array of a file.

    Attributes:
        values: The numbers.
        dimensions: A name for each axis; None where the format has no names (npz).
    """

    values: np.ndarray
    dimensions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RawFile:
    """What a file holds, before a problem gives it meaning.

    Attributes:
        path: Where it was read from, for messages.
        format: ``netcdf``, ``npz``, ``csv``, or the name of a published layout.
        variables: Arrays by name; for CSV, one column each.
        attributes: Global attributes.
    """

    path: str
    format: str
    variables: Mapping[str, Variable]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def need(self, name: str, what: str) -> Variable:
        """Return a variable, or say what is missing and what there is."""
        if name in self.variables:
            return self.variables[name]
        found = ", ".join(self.variables) or "none"
        raise DataError(f"{self.path}: no variable '{name}' ({what}); found: {found}")


def read_raw(path: str | Path) -> RawFile:
    """Read NetCDF (3 or 4), npz, CSV or a published layout, whatever the file is called.

    Raises:
        DataError: The file is missing, a folder, empty, unreadable or of another format.
    """
    path = Path(path)
    head = _head(path)
    for magic, name, reader in _FORMATS:
        if head.startswith(magic):
            return _guarded(path, name, reader)
    if b"\0" in head:
        raise DataError(f"{path}: not a format that can be read; expected NetCDF, npz or CSV")
    return _guarded(path, "csv", _read_csv)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; expected a NetCDF, npz or CSV file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {_reason(error)}") from None
    if not head:
        raise DataError(f"{path}: is empty; expected NetCDF, npz or CSV")
    return head


def _guarded(path: Path, name: str, reader: Callable[[Path], RawFile]) -> RawFile:
    try:
        return reader(path)
    except DataError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, EOFError) as error:
        message = f"{path}: looks like {name} but cannot be read: {_reason(error)}"
        raise DataError(message) from error
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: looks like {name} but is damaged: {error}") from error


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]


def _read_netcdf(path: Path) -> RawFile:
    import xarray  # half a second to import, and CSV does not need it

    engine = "scipy" if _head(path).startswith(b"CDF") else "h5netcdf"
    options: dict[str, Any] = {"decode_times": False, "decode_timedelta": False}
    if engine == "h5netcdf":
        options["phony_dims"] = "access"
    with xarray.open_dataset(path, engine=engine, **options) as data:
        variables = {
            str(name): Variable(np.asarray(v.values), tuple(map(str, v.dims)))
            for name, v in data.variables.items()
        }
        return RawFile(str(path), "netcdf", variables, dict(data.attrs))


def _read_zip(path: Path) -> RawFile:
    """Read npz, or a published layout that torch wrote: both are zip archives."""
    from piop.datasets.published import is_torch_archive, read_published  # which imports this file

    return read_published(path) if is_torch_archive(path) else _read_npz(path)


def _read_npz(path: Path) -> RawFile:
    with np.load(path, allow_pickle=False) as data:
        variables = {}
        for name in data.files:
            try:
                variables[name] = Variable(data[name])
            except ValueError:
                message = f"{path}: '{name}' holds Python objects (is it ragged?); expected numbers"
                raise DataError(message) from None
    return RawFile(str(path), "npz", variables)


def _read_csv(path: Path) -> RawFile:
    columns = read_table(path)
    return RawFile(str(path), "csv", {name: Variable(v, ("row",)) for name, v in columns.items()})


_FORMATS: tuple[tuple[bytes, str, Callable[[Path], RawFile]], ...] = (
    (b"\x89HDF\r\n\x1a\n", "netcdf", _read_netcdf),
    (b"CDF", "netcdf", _read_netcdf),
    (b"PK\x03\x04", "a zip archive", _read_zip),
)
