"""Read a data set: input functions and solutions, on a grid or scattered."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from piop.datasets.arrays import RawFile
from piop.datasets.axes import numbers
from piop.datasets.dataset import Dataset
from piop.datasets.formats.detect import open_raw, reading
from piop.datasets.history import without_history
from piop.datasets.layout import read_unknown, solved_samples
from piop.datasets.sensors import sensors_from
from piop.errors import DataError, PiopError
from piop.problem import Problem

logger = logging.getLogger(__name__)


def read_dataset(path: str | Path, problem: Problem) -> Dataset:
    """Read inputs and solutions of a problem from any format but CSV.

    Unknowns are ``u(sample, t, x)`` along coordinate variables, or ``u(sample, point)`` at
    ``t(sample, point)``, ``x(sample, point)``; inputs as :func:`piop.datasets.read_sensors` says.
    Auxiliary unknowns are read where the file has them. Where an input is the history of the
    solution, the file holds the whole trajectory: the history is cut from it, and the values begin
    at its last time. Samples whose reference found no solution are left out, with a warning.

    Raises:
        DataError: A missing variable, shapes that do not fit, NaN (with its sample), positions
            outside the domain, inputs and solutions of different numbers of samples, or of none.
    """
    with open_raw(path) as file:
        index = solved_samples(file)
        raw = reading(Path(path), file.format, lambda: file.read(index))
    found = dataset_from(raw, problem)
    compare_spec(found.attributes, str(path), problem)
    return found


def dataset_from(raw: RawFile, problem: Problem) -> Dataset:
    """Make a data set of what was read; see :func:`read_dataset`."""
    path = raw.path
    if raw.format == "csv":
        known = "NetCDF, Zarr, HDF5, MATLAB, npz or torch"
        raise DataError(f"{path}: is CSV; a data set is {known} (sensors may be CSV)")
    axes: dict[str, Tensor] = {}
    points: Tensor | None = None
    values: dict[str, Tensor] = {}
    for name in problem.channels:
        if name in raw.variables or name in problem.unknowns:
            axes, points, values[name] = read_unknown(raw, problem, name)
    count = _count(raw, {name: len(v) for name, v in values.items()})
    inputs = sensors_from(raw, problem)
    for name, s in inputs.items():
        if len(s.values) != count:
            message = f"'{name}' has {len(s.values)} samples but the solution has {count}"
            raise DataError(f"{path}: {message}")
    axes, values = without_history(path, problem, axes, values)
    return Dataset(inputs, axes, values, points, _estimate(raw, count), raw.attributes)


def _count(raw: RawFile, counts: dict[str, int]) -> int:
    if len(set(counts.values())) > 1:
        given = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise DataError(f"{raw.path}: different numbers of samples: {given}")
    count = next(iter(counts.values()))
    if not count:
        raise DataError(f"{raw.path}: holds no samples")
    return count


def _estimate(raw: RawFile, count: int) -> Tensor | None:
    if "error_estimate" not in raw.variables:
        return None
    values = numbers(raw.path, "error_estimate", raw.variables["error_estimate"].values)
    if values.shape != (count,):
        message = f"'error_estimate' has shape {values.shape}; expected ({count},)"
        raise DataError(f"{raw.path}: {message}")
    return torch.from_numpy(values)


def compare_spec(attributes: Mapping[str, Any], path: str, problem: Problem) -> None:
    """Warn of a file that was made from another spec, or from another version of it.

    Data for parameters to infer are bound to be: of the spec that has them as numbers. Those of a
    problem that asks for an inverse operator are that operator's too.
    """
    written_for = attributes.get("piop_hash")
    if written_for is None or written_for == problem.hash or problem.infer:
        return
    text = str(attributes.get("piop_spec", ""))
    if _is_inverse_of(problem, text):
        return
    named = re.search(r'^name: "?([^"\s]+)"?$', text, re.MULTILINE)
    if named and named[1] != problem.name:
        logger.warning("%s was made from the spec %s; this is %s", path, named[1], problem.name)
        return
    logger.warning(
        "%s was made from another version of the spec (%s…, this is %s…)",
        path,
        str(written_for)[:12],
        problem.hash[:12],
    )


def _is_inverse_of(problem: Problem, text: str) -> bool:
    """Tell whether a problem is what a spec asks to learn."""
    if "learn:" not in text:
        return False
    try:
        return Problem.from_yaml(text).inverse() == problem
    except PiopError:
        return False
