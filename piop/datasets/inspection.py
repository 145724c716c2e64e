"""What a data file holds, and what a spec for it would look like."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from piop.datasets.arrays import POINT, SAMPLE, OpenFile, StoredArray
from piop.datasets.axes import increasing
from piop.datasets.formats.detect import open_raw, reading
from piop.datasets.layout import REFERENCE_VARIABLES
from piop.datasets.reader import dataset_from

if TYPE_CHECKING:
    from piop.problem import Problem

CHUNK_BYTES = 64_000_000
"""What is read of an array at a time."""
TRIED = 4
"""Samples that are read to see whether a file fits a spec."""


def inspect_file(path: str | Path, problem: Problem | None = None) -> dict[str, Any]:
    """Describe every variable of a file, a piece at a time.

    Args:
        path: The file.
        problem: A spec to hold the file to.

    Returns:
        ``path``, ``format``, ``attributes`` and ``variables``: name → dimensions, shape, dtype,
        minimum, maximum (None when empty or not numbers) and the number of NaN; ``as_spec``, what
        the arrays would be in a spec: ``samples``, ``coordinates`` (name → low, high, points),
        ``functions`` (name → coordinates), ``scalars``, and ``spec``, the one of piop's for
        which the file's layout is known, or the name in the spec it carries, or None. With a
        problem also ``fits``: what is read for it.

    Raises:
        DataError: The file cannot be read, or does not fit the problem.
    """
    with open_raw(path) as file:
        variables = reading(Path(path), file.format, lambda: _variables(file))
        attributes = {
            k: v.item() if isinstance(v, np.generic) else v for k, v in file.attributes.items()
        }
        found = {
            "path": str(path),
            "format": file.format,
            "variables": variables,
            "attributes": attributes,
            "as_spec": _as_spec(file),
        }
        if problem is not None:
            found["fits"] = _fits(file, problem)
        return found


def _variables(file: OpenFile) -> dict[str, Any]:
    return {
        name: {
            "dimensions": None if v.dimensions is None else list(v.dimensions),
            "shape": list(v.shape),
            "dtype": str(v.dtype),
            **_range(v),
        }
        for name, v in file.arrays.items()
    }


def _range(array: StoredArray) -> dict[str, float | int | None]:
    lows, highs, nan = [], [], 0
    for values in _pieces(array):
        if values.dtype.kind not in "fiub" or not values.size:
            continue
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        nan += int(missing.sum())
        if not missing.all():
            lows.append(float(np.min(values[~missing])))
            highs.append(float(np.max(values[~missing])))
    return {
        "minimum": min(lows) if lows else None,
        "maximum": max(highs) if highs else None,
        "nan": nan,
    }


def _pieces(array: StoredArray) -> Iterator[np.ndarray]:
    if not array.per_sample:
        yield array.read().values
        return
    assert array.dimensions is not None  # noqa: S101 - else it has no samples
    count = array.shape[array.dimensions.index(SAMPLE)]
    step = max(1, CHUNK_BYTES // max(1, array.bytes_per_sample))
    for start in range(0, count, step):
        yield array.read(np.arange(start, min(count, start + step))).values


def _as_spec(file: OpenFile) -> dict[str, Any]:
    """Guess what each array would be called in a spec, by its dimensions."""
    coordinates = {name: a.read().values for name, a in file.arrays.items() if _is_axis(name, a)}
    functions: dict[str, list[str]] = {}
    scalars = []
    for name, array in file.arrays.items():
        of = None if name in coordinates else _depends_on(array, coordinates)
        if of:
            functions[name] = of
        elif of is not None and array.dtype.kind in "fiu" and name not in REFERENCE_VARIABLES:
            scalars.append(name)
    spec = file.attributes.get("spec") or _own_name(file)
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
    if len(array.shape) != 1 or array.dtype.kind not in "fiu":
        return False
    return array.dimensions == (name,) or (
        array.dimensions is None and increasing(array.read().values)
    )


def _depends_on(array: StoredArray, coordinates: dict[str, np.ndarray]) -> list[str] | None:
    """Coordinates of a function, none for a number per sample; None where it cannot be told."""
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


def _own_name(file: OpenFile) -> str | None:
    """The name in the spec that a file of piop's own carries."""
    for line in str(file.attributes.get("piop_spec", "")).splitlines():
        if line.startswith("name:"):
            return line.removeprefix("name:").strip()
    return None


def _fits(file: OpenFile, problem: Problem) -> dict[str, Any]:
    """What a problem takes from the file, found by reading a few samples."""
    some = None if file.count is None else np.arange(min(TRIED, file.count))
    data = dataset_from(file.read(some), problem)
    where = list(data.axes) if data.points is None else [POINT]
    return {
        "problem": problem.name,
        "unknowns": dict.fromkeys(data.values, where),
        "inputs": {name: s.values.shape[1] for name, s in data.inputs.items()},
    }
