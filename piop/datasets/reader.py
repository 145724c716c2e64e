"""Read a data set: input functions and solutions, on a grid or scattered."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import named
from piop.datasets.checks import check_axis, check_domain, check_finite, numbers
from piop.datasets.dataset import Dataset
from piop.datasets.formats import read_raw
from piop.datasets.raw import SAMPLE, RawFile, Variable
from piop.datasets.sensors import scattered, sensors_of, spread
from piop.errors import DataError

if TYPE_CHECKING:
    from piop.problem import Problem

logger = logging.getLogger(__name__)


def read_dataset(path: str | Path, problem: Problem) -> Dataset:
    """Read inputs and solutions of a problem from any format but CSV.

    Unknowns are ``u(sample, t, x)`` along coordinate variables, or ``u(sample, point)`` at
    ``t(sample, point)``, ``x(sample, point)``; inputs as :func:`piop.datasets.read_sensors` says.
    Auxiliary unknowns are read where the file has them.

    Raises:
        DataError: A missing variable, shapes that do not fit, NaN (with its sample), positions
            outside the domain, inputs and solutions of different numbers of samples.
    """
    found = dataset_of(read_raw(path), problem)
    compare_spec(found.attributes, str(path), problem)
    return found


def dataset_of(raw: RawFile, problem: Problem) -> Dataset:
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
            axes, points, values[name] = _channel(raw, problem, name)
    count = _count(raw, {name: len(v) for name, v in values.items()})
    inputs = sensors_of(raw, problem)
    for name, s in inputs.items():
        if len(s.values) != count:
            message = f"'{name}' has {len(s.values)} samples but the solution has {count}"
            raise DataError(f"{path}: {message}")
    return Dataset(inputs, axes, values, points, _estimate(raw, count), raw.attributes)


def _channel(
    raw: RawFile, problem: Problem, name: str
) -> tuple[dict[str, Tensor], Tensor | None, Tensor]:
    names = [c.name for c in problem.coordinates]
    value = raw.need(name, f"an unknown of the spec, a function of {', '.join(names)}")
    where = {c: raw.need(c, f"a coordinate of '{name}'") for c in names}
    value, where = named(raw, name, value, where)
    if all(v.dimensions == (c,) for c, v in where.items()):
        return _grid(raw, problem, name, value, where)
    points, flat = scattered(raw, name, value, where)
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
    spread(raw, name, value, where)  # refuses dimensions that do not belong
    array, dimensions = numbers(raw.path, name, value.values), list(value.dimensions or ())
    if SAMPLE not in dimensions:
        array, dimensions = array[None], [SAMPLE, *dimensions]
    array = np.ascontiguousarray(array.transpose([dimensions.index(d) for d in (SAMPLE, *where)]))
    check_finite(raw.path, name, array)
    return axes, None, torch.from_numpy(array)


def _count(raw: RawFile, counts: dict[str, int]) -> int:
    if len(set(counts.values())) > 1:
        given = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise DataError(f"{raw.path}: different numbers of samples: {given}")
    return next(iter(counts.values()))


def _estimate(raw: RawFile, count: int) -> Tensor | None:
    if "error_estimate" not in raw.variables:
        return None
    values = numbers(raw.path, "error_estimate", raw.variables["error_estimate"].values)
    if values.shape != (count,):
        message = f"'error_estimate' has shape {values.shape}; expected ({count},)"
        raise DataError(f"{raw.path}: {message}")
    return torch.from_numpy(values)


def compare_spec(attributes: Mapping[str, Any], path: str, problem: Problem) -> None:
    """Warn of a file that was made from another version of a spec."""
    written_for = attributes.get("piop_hash")
    if written_for is not None and written_for != problem.hash:
        logger.warning(
            "%s was made from another version of the spec (%s…, this is %s…)",
            path,
            str(written_for)[:12],
            problem.hash[:12],
        )
