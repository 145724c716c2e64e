"""How a problem is laid out in a file: variables, attributes, unknowns, failed samples."""

from __future__ import annotations

import logging
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from piop.datasets.arrays import POINT, SAMPLE, OpenFile, RawFile, Variable
from piop.datasets.axes import (
    broadcast,
    check_axis,
    check_domain,
    check_finite,
    flattened_points,
    name_axes,
    numbers,
)
from piop.datasets.formats.detect import reading
from piop.errors import DataError

if TYPE_CHECKING:
    from piop.problem import Problem


FORMAT = 1
ESTIMATE = "error_estimate"
ACCEPTED, POINTS, STEP = "reference_accepted", "reference_points", "reference_step"
AXIS = "reference_axis"
REFERENCE_VARIABLES = {
    ESTIMATE: {"long_name": "relative L2 error estimate of the reference", "units": "1"},
    ACCEPTED: {"long_name": "1 where the error estimate met the tolerance"},
    POINTS: {"long_name": "points of the finest grid of the reference, per axis of space"},
    STEP: {"long_name": "longest step of the reference in time, 0 where it took none"},
}
"""What a file says of each sample's solution: variable → its attributes."""


def check_names(problem: Problem) -> None:
    """Refuse names of the spec that the file needs for itself."""
    used = {c.name for c in (*problem.coordinates, *problem.angles)} | set(problem.channels)
    used |= {i.name for i in problem.inputs}
    for name in sorted(used & {SAMPLE, POINT, AXIS, *REFERENCE_VARIABLES}):
        message = f"'{name}' is a name that data files use themselves; rename it in the spec"
        raise DataError(f"{problem.name}: {message}")


def file_attributes(problem: Problem, **more: Any) -> dict[str, Any]:
    """What a file says of itself: spec, hash, versions, and ``more`` (None is left out)."""
    versions = {f"{name}_version": _version(name) for name in ("piop", "torch", "numpy")}
    attributes = {
        "title": getattr(problem.spec, "title", "") or problem.name,
        "piop_format": FORMAT,
        "piop_spec": problem.to_yaml(),
        "piop_hash": problem.hash,
        **versions,
        "python_version": platform.python_version(),
        **more,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def variable_attributes(problem: Problem, name: str) -> dict[str, str]:
    """Units as the spec labels them, and what the variable is."""
    if name in REFERENCE_VARIABLES:
        return dict(REFERENCE_VARIABLES[name])
    found: dict[str, str] = {}
    if name in problem.units:
        found["units"] = str(problem.units[name])
    if name in problem.channels:
        found["long_name"] = f"unknown {name}" if name in problem.unknowns else f"auxiliary {name}"
    elif name in {i.name for i in problem.inputs}:
        found["long_name"] = f"input {name}"
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # used from a checkout that is not installed
        return "unknown"


def read_unknown(
    raw: RawFile, problem: Problem, name: str
) -> tuple[dict[str, Tensor], Tensor | None, Tensor]:
    """Read an unknown.

    Returns:
        Its axes and values ``[n, T, *grid]``, or no axes, its points ``[n, P, D]`` and values
        ``[n, P]``.

    Raises:
        DataError: As :func:`piop.datasets.read_dataset`.
    """
    names = [c.name for c in problem.coordinates]
    value = raw.need(name, f"an unknown of the spec, a function of {', '.join(names)}")
    where = {c: raw.need(c, f"a coordinate of '{name}'") for c in names}
    value, where = name_axes(raw, name, value, where)
    if all(v.dimensions == (c,) for c, v in where.items()):
        return _grid(raw, problem, name, value, where)
    points, flat = flattened_points(raw, name, value, where)
    check_finite(raw.path, name, flat)
    for i, coordinate in enumerate(problem.coordinates):
        points[..., i] = check_domain(raw.path, name, coordinate, points[..., i])
    return {}, torch.from_numpy(points), torch.from_numpy(flat)


def _grid(
    raw: RawFile, problem: Problem, name: str, value: Variable, where: dict[str, Variable]
) -> tuple[dict[str, Tensor], None, Tensor]:
    axes = {
        c.name: torch.from_numpy(
            check_axis(raw.path, c, numbers(raw.path, c.name, where[c.name].values))
        )
        for c in problem.coordinates
    }
    broadcast(raw, name, value, where)  # refuses dimensions that do not belong
    array, dimensions = numbers(raw.path, name, value.values), list(value.dimensions or ())
    if SAMPLE not in dimensions:
        array, dimensions = array[None], [SAMPLE, *dimensions]
    array = np.ascontiguousarray(array.transpose([dimensions.index(d) for d in (SAMPLE, *where)]))
    check_finite(raw.path, name, array)
    return axes, None, torch.from_numpy(array)


logger = logging.getLogger(__name__)


def solved_samples(file: OpenFile) -> np.ndarray | None:
    """Number the samples that have a solution, and warn of those that do not or are inaccurate.

    A sample has none where the error estimate of its reference is not finite. One that missed its
    tolerance has one, and is kept.

    Returns:
        Their numbers, ascending; None where all are or the file does not say.

    Raises:
        DataError: If no sample has one.
    """
    estimate = _of_samples(file, ESTIMATE)
    if estimate is None:
        return None
    known = np.isfinite(estimate)
    count, left_out = len(known), int((~known).sum())
    if count and left_out == count:
        raise DataError(f"{file.path}: none of its {count} samples has a solution ('{ESTIMATE}')")
    if left_out:
        logger.warning(
            "%s: %d of %d samples have no solution (their %s is not finite) and are left out",
            file.path, left_out, count, ESTIMATE,
        )  # fmt: skip
    accepted = _of_samples(file, ACCEPTED)
    missed = known & (accepted == 0) if accepted is not None else np.zeros_like(known)
    if missed.any():
        logger.warning(
            "%s: %d of %d samples missed the tolerance of their reference (%s is 0; errors are "
            "estimated at up to %.1e); they are used all the same",
            file.path, missed.sum(), count, ACCEPTED, estimate[missed].max(),
        )  # fmt: skip
    return np.flatnonzero(known) if left_out else None


def _of_samples(file: OpenFile, name: str) -> np.ndarray | None:
    """Read one number per sample; None where the file has no such array of numbers."""
    array = file.arrays.get(name)
    if array is None or array.dimensions != (SAMPLE,) or array.dtype.kind not in "fiub":
        return None
    return reading(Path(file.path), file.format, lambda: array.read().values)
