"""CSV tables and folders of npy files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from piop.datasets.arrays import OpenFile
from piop.datasets.formats.geo_fno import FLOW, name_airfoil
from piop.errors import DataError


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
        if header.count(name) > 1:
            raise DataError(f"{path}:1: two columns are called '{name}'")


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


EXPECTED = (
    f"Geo-FNO's airfoils, three files of it: two of shape (samples, n, m), whose names end in _X "
    f"and _Y, one (samples, {len(FLOW)}, n, m), whose name ends in _Q"
)


def is_numpy_folder(path: Path) -> bool:
    """Tell a folder that holds npy files."""
    return any(path.glob("*.npy"))


def open_numpy_folder(path: Path) -> OpenFile:
    """Open a published data set that is several files; they are mapped, not read.

    Raises:
        DataError: If the files are those of no data set that is known.
    """
    files = {f.stem: np.load(f, mmap_mode="r", allow_pickle=False) for f in path.glob("*.npy")}
    ends = {name[-2:].upper(): array for name, array in files.items()}
    x, y, q = (ends.get(f"_{part}") for part in "XYQ")
    if x is not None and y is not None and q is not None:
        fits = x.ndim == 3 and x.shape == y.shape and q.ndim == 4 and q.shape[1] == len(FLOW)
        if fits and q.shape[0] == x.shape[0] and q.shape[2:] == x.shape[1:]:
            return name_airfoil(str(path), x, y, q)
    found = ", ".join(f"'{n}' {a.shape}" for n, a in sorted(files.items()))
    raise DataError(f"{path}: is a folder of npy files; expected {EXPECTED}; found {found}")
