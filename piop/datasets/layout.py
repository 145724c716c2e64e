"""The one place that knows how a problem is laid out in a file."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from piop.datasets.raw import POINT, SAMPLE
from piop.errors import DataError

if TYPE_CHECKING:
    from piop.problem import Problem

FORMAT = 1
ESTIMATE = "error_estimate"
ACCEPTED, POINTS, STEP = "reference_accepted", "reference_points", "reference_step"
AXIS = "reference_axis"
OF_REFERENCE = {
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
    for name in sorted(used & {SAMPLE, POINT, AXIS, *OF_REFERENCE}):
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
    if name in OF_REFERENCE:
        return dict(OF_REFERENCE[name])
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
