"""Descriptions of data files: their variables, and a spec that would fit them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from piop.datasets.axes import increasing
from piop.datasets.formats.detect import open_raw
from piop.datasets.lazy_arrays import (
    POINT,
    REFERENCE_VARIABLES,
    SAMPLE,
    OpenFile,
    StoredArray,
    is_number,
    is_position,
    plain_numbers,
)
from piop.datasets.reader import dataset_from, stored_name

if TYPE_CHECKING:
    from piop.problem import Problem

CHUNK_BYTES = 64_000_000
"""Size of what is read of an array at a time."""
TRIED = 4
"""Samples that are read to test whether a file fits a spec."""


def inspect_file(path: str | Path, problem: Problem | None = None) -> dict[str, Any]:
    """Describe every variable of a file; large ones are read in chunks.

    Args:
        path: The file.
        problem: A problem to compare the file with.

    Returns:
        ``path``, ``format``, ``attributes`` and ``variables``: name → dimensions, shape, dtype,
        minimum, maximum (None when empty or not numbers) and the number of NaN; ``as_spec``, the
        roles of the arrays in a spec: ``samples``, ``coordinates`` (name → low, high, points),
        ``functions`` (name → coordinates), ``scalars``, and ``spec``, the name of the spec
        that belongs to a published layout or is stored in the file, or None. With a problem also
        ``fits``: the arrays that are read for it.

    Raises:
        DataError: The file cannot be read, or does not fit the problem.
    """
    with open_raw(path) as file:
        variables = {name: _variable(array) for name, array in file.arrays.items()}
        found = {
            "path": str(path),
            "format": file.format,
            "variables": variables,
            "attributes": plain_numbers(file.attributes),
            "as_spec": _as_spec(file),
        }
        if problem is not None:
            found["fits"] = _fits(file, problem)
        return found


def _variable(array: StoredArray) -> dict[str, Any]:
    lows, highs, nan = [], [], 0
    for values in _chunks(array):
        if not is_number(values) or not values.size:
            continue
        missing = np.isnan(values)
        nan += int(missing.sum())
        if not missing.all():
            lows.append(float(np.min(values[~missing])))
            highs.append(float(np.max(values[~missing])))
    return {
        "dimensions": None if array.dimensions is None else list(array.dimensions),
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "minimum": min(lows, default=None),
        "maximum": max(highs, default=None),
        "nan": nan,
    }


def _chunks(array: StoredArray) -> Iterator[np.ndarray]:
    count = array.count
    if count is None:
        yield array.read().values
        return
    step = max(1, CHUNK_BYTES // max(1, array.bytes_per_sample))
    for start in range(0, count, step):
        yield array.read(np.arange(start, min(count, start + step))).values


def _as_spec(file: OpenFile) -> dict[str, Any]:
    """Guess the role of each array in a spec from its dimensions."""
    coordinates = {name: a.read().values for name, a in file.arrays.items() if _is_axis(name, a)}
    functions: dict[str, list[str]] = {}
    scalars = []
    for name, array in file.arrays.items():
        of = None if name in coordinates else _depends_on(array, coordinates)
        if of:
            functions[name] = of
        elif of is not None and is_position(array) and name not in REFERENCE_VARIABLES:
            scalars.append(name)
    spec = file.attributes.get("spec") or stored_name(file.attributes)
    return {
        "samples": file.count,
        "coordinates": {
            name: {"low": float(v.min()), "high": float(v.max()), "points": len(v)}
            for name, v in coordinates.items()
        },
        "functions": functions,
        "scalars": scalars,
        "spec": spec,
    }


def _is_axis(name: str, array: StoredArray) -> bool:
    if len(array.shape) != 1 or not array.shape[0] or not is_position(array):
        return False
    return array.dimensions == (name,) or (
        array.dimensions is None and increasing(array.read().values)
    )


def _depends_on(array: StoredArray, coordinates: dict[str, np.ndarray]) -> list[str] | None:
    """Coordinates of a function, none for a number per sample; None where they are unknown."""
    if array.dimensions is not None:
        rest = [d for d in array.dimensions if d != SAMPLE]
        if any(d not in coordinates for d in rest):
            return [POINT] if rest == [POINT] else None
        return rest if rest or array.per_sample else None
    lengths = {name: len(v) for name, v in coordinates.items()}
    found = []
    for length in array.shape[1:] if len(array.shape) > 1 else ():
        names = [n for n, count in lengths.items() if count == length and n not in found]
        if len(names) != 1:
            return None
        found.append(names[0])
    return found


def _fits(file: OpenFile, problem: Problem) -> dict[str, Any]:
    """Arrays that are read for a problem, found by reading a few samples."""
    some = None if file.count is None else np.arange(min(TRIED, file.count))
    data = dataset_from(file.read(some), problem)
    where = list(data.axes) if data.points is None else [POINT]
    return {
        "problem": problem.name,
        "unknowns": dict.fromkeys(data.values, where),
        "inputs": {name: s.values.shape[1] for name, s in data.inputs.items()},
    }
