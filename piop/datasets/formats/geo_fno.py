"""The airfoil and plasticity data of Geo-FNO, on meshes that are images of a square."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from piop.datasets.lazy_arrays import SAMPLE, OpenFile, Source, StoredArray, axis_arrays, lazy_array
from piop.errors import DataError

FLOW = ("rho", "vx", "vy", "p", "mach")
"""Channels of the airfoils' solution."""
FORGED = ("px", "py", "ux", "uy")
"""Channels of the plastic solution: where a mesh point is, and how far it has moved."""
ALL = slice(None)
AIRFOIL = (
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
    raise DataError(f"{path}: is a folder of npy files; expected {AIRFOIL}; found {found}")


def name_airfoil(path: str, x: Source, y: Source, q: Source) -> OpenFile:
    """Name the arrays as ``pdes/airfoil.yaml`` does.

    Args:
        path: Where they are.
        x: Where the mesh points are ``(samples, n, m)``.
        y: The same along the other axis.
        q: Channels there ``(samples, 5, n, m)``.
    """
    along = (SAMPLE, "s", "r")
    arrays = {"px": lazy_array(x, along), "py": lazy_array(y, along)}
    arrays |= _square(*x.shape[1:])
    for channel, name in enumerate(FLOW):
        arrays[name] = lazy_array(q, along, (ALL, channel, ALL, ALL))
    attributes = {
        "places": "mesh point (i, j) of n x m is s = i/(n - 1), r = j/(m - 1), found at px, py",
        "spec": "airfoil",
    }
    return OpenFile(path, "numpy: Geo-FNO's airfoils", arrays, attributes)


def is_plasticity(sources: Mapping[str, Source]) -> bool:
    """Tell the plasticity data by names and shapes."""
    if not {"input", "output"} <= set(sources):
        return False
    given, found = sources["input"].shape, sources["output"].shape
    return len(given) == 2 and len(found) == 5 and found[:2] == given and found[4] == len(FORGED)


def name_plasticity(path: str, sources: Mapping[str, Source], kind: str) -> OpenFile:
    """Name the arrays as ``pdes/plasticity.yaml`` does."""
    output = sources["output"]
    times = output.shape[3]
    arrays = {"die": lazy_array(sources["input"], (SAMPLE, "s"))} | _square(*output.shape[1:3])
    arrays |= axis_arrays(t=(1 + np.arange(times)) / times)
    for channel, name in enumerate(FORGED):
        arrays[name] = lazy_array(output, (SAMPLE, "s", "r", "t"), (ALL, ALL, ALL, ALL, channel))
    attributes = {
        "places": "mesh point (i, j) stands at s = i/(n - 1), r = j/(m - 1) before it is forged",
        "times": f"rows are taken as k/{times}, k = 1 ... {times}, of the stroke",
        "spec": "plasticity",
    }
    return OpenFile(
        path, f"matlab: {kind}, Geo-FNO's plasticity", arrays, attributes, by_sample=False
    )


def _square(n: int, m: int) -> dict[str, StoredArray]:
    return axis_arrays(s=np.linspace(0, 1, n), r=np.linspace(0, 1, m))
