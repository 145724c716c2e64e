"""Tables of numbers: CSV and npz."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from piop.datasets.lazy_arrays import OpenFile, lazy_array
from piop.errors import DataError


def open_npz(path: Path) -> OpenFile:
    """Read the arrays of an npz file, whose axes have no names."""
    with np.load(path, allow_pickle=False) as data:
        arrays = {}
        for name in data.files:
            try:
                arrays[name] = lazy_array(data[name])
            except ValueError:
                message = f"{path}: '{name}' holds Python objects (is it ragged?); expected numbers"
                raise DataError(message) from None
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
