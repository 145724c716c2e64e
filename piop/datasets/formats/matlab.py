"""MATLAB files: the older ones (version 5) through SciPy, the newer (7.3), which are HDF5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np

from piop.datasets.axes import increasing
from piop.datasets.formats.geo_fno import is_plasticity, name_plasticity
from piop.datasets.formats.li2021 import LI_2021, name_li2021
from piop.datasets.lazy_arrays import Hdf5, OpenFile, Reversed, Source, is_number, lazy_array

EXPECTED = (
    f"Expected the names of the spec with lists of positions, or {LI_2021}, or Geo-FNO's "
    f"'input' (samples, 101), 'output' (samples, 101, 31, 20, 4). See docs/datasets.md"
)
CLASS = "MATLAB_class"
"""The attribute that every array of a newer file has."""


def is_matlab7(file: Hdf5) -> bool:
    """Tell a newer MATLAB file from other HDF5."""
    return any(CLASS in v.attrs for v in file.values() if isinstance(v, h5py.Dataset))


def open_matlab7(path: Path, file: Hdf5) -> OpenFile:
    """Open a file of version 7.3, whose axes HDF5 shows in the opposite order."""
    sources = {
        name: Reversed(v)
        for name, v in file.items()
        if isinstance(v, h5py.Dataset) and is_number(v)
    }
    # samples are the fastest axis: each is spread over the whole file
    return replace(_named(path, sources, "MATLAB 7.3"), close=file.close)


def open_matlab5(path: Path) -> OpenFile:
    """Open a file of version 5; it is read as a whole."""
    from scipy.io import loadmat

    content = loadmat(path).items()
    arrays = {name: v for name, v in content if isinstance(v, np.ndarray) and is_number(v)}
    return _named(path, arrays, "MATLAB 5")


def _named(path: Path, sources: Mapping[str, Source], kind: str) -> OpenFile:
    if is_plasticity(sources):
        return name_plasticity(str(path), sources, kind)
    found = name_li2021(str(path), sources, kind)
    if found is not None:
        return found
    plain = {name: lazy_array(_vector(v)) for name, v in sources.items()}
    return OpenFile(str(path), f"matlab: {kind}", plain, {}, EXPECTED, by_sample=False)


def _vector(source: Source) -> Source:
    """Drop the axis of length one that MATLAB gives a list of positions."""
    if len(source.shape) == 2 and 1 in source.shape and max(source.shape) > 1:
        values = np.asarray(source[:, :]).ravel()
        if increasing(values):
            return values
    return source
