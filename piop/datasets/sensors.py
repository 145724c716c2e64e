"""Read input functions seen at sensors: any number, any positions, several inputs, scalars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from piop.datasets.axes import coordinate_variable, named
from piop.datasets.columns import samples_from_columns
from piop.datasets.formats import read_raw
from piop.datasets.history import past_of
from piop.datasets.raw import RawFile
from piop.datasets.samples import function_samples
from piop.datasets.spread import scattered
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.spec.laws import History

if TYPE_CHECKING:
    from piop.problem import Input, Problem


def read_sensors(path: str | Path, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input of a problem from NetCDF, npz or CSV.

    Variables (columns) are named as in the spec. ``u0`` of ``x`` is given on a grid, ``u0(sample,
    x)`` and ``x(x)``; at shared points, ``u0(sample, point)`` and ``x(point)``; or at points of its
    own per sample, ``x(sample, point)``, where NaN in both fills up shorter samples. Positions that
    belong to one input alone are called ``u0_x``. ``sample`` may be absent: one sample. In CSV a
    column ``sample`` tells samples apart, and empty cells mean that a row has no such value. A
    history is cut from the solution, which the file holds on a grid under its own name.

    Args:
        path: The file; its content tells the format.
        problem: Whose inputs to read.

    Returns:
        Input name → points ``[B, M, d]`` and values ``[B, M, c]`` in float64, c = 1 but for a
        history.

    Raises:
        DataError: A missing variable, shapes that do not fit, NaN (with its sample), a sensor
            outside the domain (with its value and the range).
    """
    return sensors_of(read_raw(path), problem)


def sensors_of(raw: RawFile, problem: Problem) -> dict[str, FunctionSamples]:
    """Read every visible input from a file that is open already; see :func:`read_sensors`."""
    if raw.format == "csv":
        found = samples_from_columns(raw, problem)
    else:
        found = {i.name: _one(raw, problem, i) for i in problem.visible_inputs}
    return _same_batch(raw, found)


def _one(raw: RawFile, problem: Problem, item: Input) -> FunctionSamples:
    if isinstance(item.law, History):
        return past_of(raw, problem, item)
    label = (
        f"an input of the spec, a function of {', '.join(item.of)}" if item.of else "a scalar input"
    )
    value = raw.need(item.name, label)
    where = {c: coordinate_variable(raw, item.name, c) for c in item.of}
    value, where = named(raw, item.name, value, where)
    points, values = scattered(raw, item.name, value, where)
    return function_samples(raw, problem, item, points, values)


def _same_batch(raw: RawFile, found: dict[str, FunctionSamples]) -> dict[str, FunctionSamples]:
    counts = {name: len(s.values) for name, s in found.items()}
    batch = max(counts.values(), default=1)
    for name, count in counts.items():
        if count not in (1, batch):
            biggest = max(counts, key=lambda n: counts[n])
            message = f"'{name}' has {count} samples but '{biggest}' has {batch}"
            raise DataError(f"{raw.path}: {message}; expected the same number, or one for all")
    return {name: s if len(s.values) == batch else _repeat(s, batch) for name, s in found.items()}


def _repeat(samples: FunctionSamples, batch: int) -> FunctionSamples:
    mask = None if samples.mask is None else samples.mask.expand(batch, -1)
    return FunctionSamples(
        samples.points.expand(batch, -1, -1), samples.values.expand(batch, -1, -1), mask
    )
