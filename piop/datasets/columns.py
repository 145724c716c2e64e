"""Sensors from the columns of a table: samples by a column, inputs by non-empty cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from piop.datasets.raw import SAMPLE, RawFile
from piop.datasets.samples import function_samples
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.spec.laws import History

if TYPE_CHECKING:
    from piop.problem import Input, Problem


def samples_from_columns(raw: RawFile, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input from columns named as in the spec."""
    number = sample_numbers(raw)
    found = {}
    for item in problem.visible_inputs:
        if isinstance(item.law, History):
            message = f"'{item.name}' is a history, which a table does not hold"
            raise DataError(f"{raw.path}: {message}; give the solution on a grid, as NetCDF or npz")
        values = column(raw, item.name, "an input of the spec")
        here = ~np.isnan(values)
        if not here.any():
            raise DataError(f"{raw.path}: column '{item.name}' is empty")
        points = [column(raw, c, f"where '{item.name}' is given") for c in item.of]
        for name, position in zip(item.of, points, strict=True):
            if np.isnan(position[here]).any():
                row = int(np.flatnonzero(here & np.isnan(position))[0])
                message = f"row {row + 1} has a value of '{item.name}' but none of '{name}'"
                raise DataError(f"{raw.path}: {message}")
        if item.of:
            where = np.stack(points, -1)[here]
            arrays = padded(where, values[here], number[here], int(number.max()) + 1)
        else:
            arrays = _scalar(raw, item, values, number)
        found[item.name] = function_samples(raw, problem, item, *arrays)
    return found


def column(raw: RawFile, name: str, what: str) -> np.ndarray:
    """Return a column, or say which is missing and which there are."""
    if name not in raw.variables:
        found = ", ".join(raw.variables)
        raise DataError(f"{raw.path}: no column '{name}' ({what}); found: {found}")
    return raw.variables[name].values


def sample_numbers(raw: RawFile) -> np.ndarray:
    """Number the samples 0, 1, … in the order of the values of a column ``sample``."""
    rows = len(next(iter(raw.variables.values())).values)
    if SAMPLE not in raw.variables:
        return np.zeros(rows, dtype=int)
    labels = raw.variables[SAMPLE].values
    if np.isnan(labels).any():
        row = int(np.argmax(np.isnan(labels))) + 1
        raise DataError(f"{raw.path}: row {row} has no sample number")
    return np.unique(labels, return_inverse=True)[1]


def padded(
    points: np.ndarray, values: np.ndarray, number: np.ndarray, batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows ``[R, d]``, ``[R]`` into samples ``[B, M, d]``, ``[B, M]``; NaN fills up."""
    counts = np.bincount(number, minlength=batch)
    order = np.argsort(number, kind="stable")
    slot = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    where = np.full((batch, int(counts.max()), points.shape[1]), np.nan)
    what = np.full(where.shape[:2], np.nan)
    where[number[order], slot] = points[order]
    what[number[order], slot] = values[order]
    return where, what


def _scalar(
    raw: RawFile, item: Input, values: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    found = np.full((int(number.max()) + 1, 1), np.nan)
    for i, here in enumerate(found):
        given = np.unique(values[(number == i) & ~np.isnan(values)])
        if len(given) != 1:
            what = f"{len(given)} values" if len(given) else "no value"
            message = f"the scalar '{item.name}' has {what} in sample {i}; expected one"
            raise DataError(f"{raw.path}: {message}")
        here[0] = given[0]
    return np.zeros((len(found), 1, 0)), found
