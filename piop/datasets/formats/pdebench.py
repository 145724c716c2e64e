"""PDEBench's HDF5 files: one array of all samples, or a group for each."""

from __future__ import annotations

from pathlib import Path

import h5py

from piop.datasets.formats.hdf5 import check_attributes
from piop.datasets.lazy_arrays import (
    SAMPLE,
    Hdf5,
    OpenFile,
    Select,
    Stacked,
    StoredArray,
    lazy_array,
    plain_attributes,
)
from piop.errors import DataError

PDEBENCH = (
    "PDEBench's 'tensor' or 'density' (samples, times, points…) with 'x-coordinate' and "
    "'t-coordinate', or its groups '0000', '0001', … of 'data' and 'grid'"
)
FLOW = ("density", "pressure", "Vx", "Vy", "Vz")
SPACE = ("x", "y", "z")
ALL = slice(None)


def is_pdebench(file: Hdf5) -> bool:
    """Tell either layout from other HDF5."""
    whole = ("tensor" in file or "density" in file) and "x-coordinate" in file
    group = next(iter(file.values()), None)
    return whole or (isinstance(group, h5py.Group) and {"data", "grid"} <= set(group))


def open_pdebench(path: Path, file: Hdf5) -> OpenFile:
    """Name the arrays as a spec would.

    A field is called as in the file, ``tensor`` and a single channel of ``data`` are u, two are u
    and v; what it is at the first time is an input too, under its name with a zero.
    """
    arrays = _whole(path, file) if "x-coordinate" in file else _groups(path, file)
    check_attributes(path, 0)
    attributes = plain_attributes(file)
    attributes["places"] = "as the file gives them: centres of cells, so that no end is a point"
    return OpenFile(str(path), "hdf5: PDEBench", arrays, attributes, close=file.close)


def _whole(path: Path, file: Hdf5) -> dict[str, StoredArray]:
    space = [s for s in SPACE if f"{s}-coordinate" in file]
    arrays = {s: lazy_array(file[f"{s}-coordinate"], (s,)) for s in space}
    if "tensor" in file and "nu" in file and file["nu"].ndim == 1 + len(space):
        return arrays | _darcy(path, file, space)
    if "t-coordinate" not in file:
        raise _unlike(path, file, "no 't-coordinate'")
    fields = {"u": file["tensor"]} if "tensor" in file else {n: file[n] for n in FLOW if n in file}
    for name, field in fields.items():
        if field.ndim != 2 + len(space):
            raise _unlike(path, file, f"'{name}' {field.shape} for coordinates {', '.join(space)}")
        initial = (ALL, 0, *(ALL for _ in space))
        arrays[name] = lazy_array(field, (SAMPLE, "t", *space))
        arrays[f"{name}0"] = lazy_array(field, (SAMPLE, *space), initial)
    times = next(iter(fields.values())).shape[1]
    if not times <= len(file["t-coordinate"]) <= times + 1:
        raise _unlike(path, file, f"{times} times, 't-coordinate' {len(file['t-coordinate'])}")
    # one longer than the fields: the time that would come next
    return arrays | {"t": lazy_array(file["t-coordinate"], ("t",), (slice(0, times),))}


def _darcy(path: Path, file: Hdf5, space: list[str]) -> dict[str, StoredArray]:
    """Darcy flow: coefficient ``nu`` (sample, x, y), one solution ``tensor`` (sample, 1, x, y)."""
    tensor = file["tensor"]
    if tensor.ndim != 2 + len(space) or tensor.shape[1] != 1:
        raise _unlike(path, file, f"'tensor' {tensor.shape} beside 'nu' {file['nu'].shape}")
    dimensions = (SAMPLE, *space)
    return {
        "a": lazy_array(file["nu"], dimensions),
        "u": lazy_array(tensor, dimensions, (ALL, 0, *(ALL for _ in space))),
    }


def _groups(path: Path, file: Hdf5) -> dict[str, StoredArray]:
    names = sorted(n for n in file if isinstance(file[n], h5py.Group) and "data" in file[n])
    data, grid = Stacked(lambda i: file[names[i]]["data"], len(names)), file[names[0]]["grid"]
    space = [s for s in SPACE if s in grid]
    if "t" not in grid or len(data.shape) != 3 + len(space):
        raise _unlike(path, file, f"'{names[0]}/data' {data.shape[1:]}, 'grid' {', '.join(grid)}")
    if data.shape[1] != len(grid["t"]):
        raise _unlike(path, file, f"{data.shape[1]} times, 'grid/t' {len(grid['t'])}")
    channels = data.shape[-1]
    called = ("u", "v") if channels <= 2 else tuple(f"u{i + 1}" for i in range(channels))
    rest: Select = (ALL,) * len(space)
    arrays = {s: lazy_array(grid[s], (s,)) for s in ("t", *space)}
    for channel, name in enumerate(called[:channels]):
        arrays[name] = lazy_array(data, (SAMPLE, "t", *space), (ALL, ALL, *rest, channel))
        arrays[f"{name}0"] = lazy_array(data, (SAMPLE, *space), (ALL, 0, *rest, channel))
    return arrays


def _unlike(path: Path, file: Hdf5, found: str) -> DataError:
    there = ", ".join(
        f"'{n}' {v.shape if isinstance(v, h5py.Dataset) else '(group)'}"
        for n, v in list(file.items())[:12]
    )
    return DataError(f"{path}: expected {PDEBENCH}; found {found}. It holds {there}")
