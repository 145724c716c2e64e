"""Tables of numbers: CSV and npz."""

from __future__ import annotations

import csv
import math
import zipfile
from collections import Counter
from pathlib import Path
from typing import final

import numpy as np

from piop.datasets.formats.limits import check_packing
from piop.datasets.lazy_arrays import OpenFile, Select, StoredArray, lazy_array
from piop.errors import DataError


@final
class NpzArray:
    """An array of an npz file.

    Args:
        path: The file.
        archive: The same file, open.
        member: Its entry.

    Raises:
        ValueError: If its header does not fit the length of the entry.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        self._path, self.name = path, member.filename.removesuffix(SUFFIX)
        with archive.open(member) as file:
            read_header = HEADERS[np.lib.format.read_magic(file)]
            self.shape, _, self.dtype = read_header(file)
            size = member.file_size - file.tell()
        wanted = math.prod(self.shape) * self.dtype.itemsize
        if size != wanted and not self.dtype.hasobject:
            raise ValueError(f"'{self.name}' of shape {self.shape} with {size} bytes")

    def __getitem__(self, select: Select, /) -> np.ndarray:
        """Read a part; the array is read as a whole for it."""
        if self.dtype.hasobject:
            message = f"{self._path}: '{self.name}' holds Python objects (is it ragged?)"
            raise DataError(f"{message}; expected numbers")
        with np.load(self._path, allow_pickle=False) as data:
            return data[self.name][select]


HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of the format of an array → what reads its header."""
SUFFIX = ".npy"


def open_npz(path: Path) -> OpenFile:
    """Open the arrays of an npz file, whose axes have no names."""
    arrays: dict[str, StoredArray] = {}
    with zipfile.ZipFile(path) as archive:
        check_packing(path, archive)
        for member in archive.infolist():
            if not member.filename.endswith(SUFFIX):
                continue
            array = NpzArray(path, archive, member)
            if array.name in arrays:
                raise DataError(f"{path}: two arrays are called '{array.name}'")
            arrays[array.name] = lazy_array(array)
    return OpenFile(str(path), "npz", arrays, by_sample=False)


def open_csv(path: Path) -> OpenFile:
    """Read the columns of a table; see :func:`read_table`."""
    columns = {name: lazy_array(v, ("row",)) for name, v in read_table(path).items()}
    return OpenFile(str(path), "csv", columns, by_sample=False)


def read_table(path: Path) -> dict[str, np.ndarray]:
    """Read a comma, semicolon or tab separated table.

    Args:
        path: A text file; lines that start with ``#`` are comments.

    Returns:
        Column name → values ``[rows]``; NaN where a cell is empty.

    Raises:
        DataError: Not text, no header, a ragged row, a cell that is not a number; with its line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        message = f"{path}: not a format that can be read; expected NetCDF, npz or CSV in UTF-8"
        raise DataError(message) from None
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise DataError(f"{path}: is empty; expected a header of column names, then numbers")
    delimiter = max(",;\t", key=lines[0][1].count)
    rows = csv.reader((line for _, line in lines), delimiter=delimiter)
    header = [name.strip() for name in next(rows)]
    _check_header(path, header)
    cells = []
    for (number, _), row in zip(lines[1:], rows, strict=False):
        if len(row) != len(header):
            found = f"{len(row)} cells, the header has {len(header)} columns"
            raise DataError(f"{path}:{number}: {found} ({', '.join(header)})")
        cells.append([_number(path, number, name, c) for name, c in zip(header, row, strict=True)])
    if not cells:
        raise DataError(f"{path}: a header ({', '.join(header)}) but no rows")
    values = np.array(cells, dtype=np.float64)
    return {name: values[:, i] for i, name in enumerate(header)}


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        if not name or _is_number(name):
            message = f"the first line must name the columns as in the spec, found '{name}'"
            raise DataError(f"{path}:1: {message}")
    if repeated := [name for name, count in Counter(header).items() if count > 1]:
        raise DataError(f"{path}:1: two columns are called '{repeated[0]}'")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(path: Path, line: int, column: str, cell: str) -> float:
    text = cell.strip()
    if not text:
        return float("nan")
    if not _is_number(text):
        raise DataError(f"{path}:{line}: column '{column}': '{text[:40]}' is not a number")
    value = float(text)
    if not np.isfinite(value):
        raise DataError(f"{path}:{line}: column '{column}': {text} is not a finite number")
    return value
