"""The Well's HDF5 files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from piop.datasets.formats.hdf5 import check_attributes
from piop.datasets.lazy_arrays import (
    SAMPLE,
    Hdf5,
    OpenFile,
    StoredArray,
    is_number,
    lazy_array,
    plain_attributes,
    text_of,
)
from piop.errors import DataError

THE_WELL = (
    "The Well's groups 'dimensions' (with 'time' and the attribute spatial_dims), "
    "'boundary_conditions', 't0_fields', 't1_fields' and 't2_fields'"
)
FIELDS = ("t0_fields", "t1_fields", "t2_fields")
ALL = slice(None)


def is_well(file: Hdf5) -> bool:
    """Tell it from other HDF5."""
    dimensions = file.get("dimensions")
    return isinstance(dimensions, h5py.Group) and any(name in file for name in FIELDS)


def open_well(path: Path, file: Hdf5) -> OpenFile:
    """Name the arrays as a spec would.

    Time is t. Components of vectors and tensors have their axes behind an underscore
    (``velocity_x``, ``D_xy``). What changes in time is at its first time an input too, under its
    name with a zero; what does not is an input; scalars are numbers per sample.
    """
    check_attributes(path, 2)
    dimensions = file["dimensions"]
    if "spatial_dims" not in dimensions.attrs or "time" not in dimensions:
        found = ", ".join([*dimensions, *dimensions.attrs])
        raise DataError(f"{path}: expected {THE_WELL}; 'dimensions' holds {found}")
    space = [text_of(s) for s in dimensions.attrs["spatial_dims"]]
    arrays: dict[str, StoredArray] = {}
    for name, called in (("time", "t"), *((s, s) for s in space)):
        if dimensions[name].ndim != 1:
            message = f"'dimensions/{name}' {dimensions[name].shape} differs from sample to sample"
            raise DataError(f"{path}: {message} or in time; expected one list of positions for all")
        arrays[called] = lazy_array(dimensions[name], (called,))
    for rank, group in enumerate(FIELDS):
        for name, field in file.get(group, {}).items():
            arrays |= _components(path, name, field, space, rank)
    count = next((a.shape[0] for a in arrays.values() if a.per_sample), 1)
    for name, scalar in file.get("scalars", {}).items():
        if (found := _scalar(scalar, count)) is not None:
            arrays[name] = found
    attributes = plain_attributes(file)
    attributes["boundaries"] = _boundaries(file)
    return OpenFile(str(path), "hdf5: The Well", arrays, attributes, close=file.close)


def _components(
    path: Path, name: str, field: Any, space: list[str], rank: int
) -> dict[str, StoredArray]:
    """The arrays of a field of this tensor rank, one for each component."""
    in_time = bool(field.attrs.get("time_varying", True))
    varying = field.attrs.get("dim_varying", np.ones(len(space), bool))
    along = [s for s, varies in zip(space, varying, strict=True) if varies]
    leads = [SAMPLE] if field.attrs.get("sample_varying", True) else []
    names = (*leads, *(["t"] if in_time else []), *along)
    if field.ndim != len(names) + rank:
        wanted = ", ".join((*names, *["component"] * rank))
        raise DataError(f"{path}: '{field.name}' has shape {field.shape}; expected ({wanted})")
    arrays = {}
    for index in np.ndindex(*field.shape[len(names) :]):
        called = f"{name}_{''.join(space[i] for i in index)}" if rank else name
        arrays[called] = lazy_array(field, names, (*(ALL for _ in names), *index))
        if in_time:
            initial = (*(ALL for _ in leads), 0, *(ALL for _ in along), *index)
            arrays[f"{called}0"] = lazy_array(field, (*leads, *along), initial)
    return arrays


def _scalar(scalar: Any, count: int) -> StoredArray | None:
    """A number per sample; None for one that changes in time, which no spec can take."""
    if scalar.attrs.get("time_varying", False) or not is_number(scalar):
        return None
    if scalar.ndim == 1 and scalar.shape[0] == count and scalar.attrs.get("sample_varying", True):
        return lazy_array(scalar, (SAMPLE,))
    if scalar.size != 1:
        return None
    value = np.asarray(scalar[()]).reshape(())
    return lazy_array(np.broadcast_to(value, (count,)), (SAMPLE,))


def _boundaries(file: Hdf5) -> str:
    found = []
    for name, group in file.get("boundary_conditions", {}).items():
        along = [text_of(d) for d in group.attrs.get("associated_dims", [])]
        kind = text_of(group.attrs.get("bc_type", "unknown"))
        found.append(f"{', '.join(along) or name}: {kind}")
    return "; ".join(found) or "not stated"
