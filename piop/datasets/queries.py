"""Queries of predictions: ranges written as text, or a file of points or axes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import check_axis, check_domain, flattened_points, numbers
from piop.datasets.formats.detect import read_raw
from piop.datasets.lazy_arrays import RawFile
from piop.datasets.sensors import column, grouped_by_sample, sample_numbers
from piop.errors import DataError, UsageError, excerpt
from piop.expression import Refusal, Scope, as_number, parse
from piop.fields import tensor_grid

if TYPE_CHECKING:
    from piop.problem import Coordinate, Problem


@dataclass(frozen=True)
class Queries:
    """The queries of a prediction: a grid when there are axes, points otherwise.

    Attributes:
        axes: Coordinate name → positions, in the order of the problem; None for points.
        points: Points ``[B, N, D]``, or ``[1, N, D]`` for all samples alike; None for a grid.
    """

    axes: Mapping[str, Tensor] | None = None
    points: Tensor | None = None

    def take(self, index: Tensor) -> Queries:
        """The queries of the samples with these numbers."""
        if self.points is None or len(self.points) == 1:
            return self
        return Queries(points=self.points[index])

    def tensor(self) -> Tensor:
        """All points as ``[B or 1, N, D]``, a grid in row-major order."""
        if self.points is not None:
            return self.points
        return tensor_grid(list((self.axes or {}).values()))[None]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample's prediction: that of the grid, or the number of points."""
        if self.points is not None:
            return (self.points.shape[1],)
        return tuple(len(a) for a in (self.axes or {}).values())


def read_queries(source: str | Path, problem: Problem) -> Queries:
    """Read the queries of a prediction.

    Args:
        source: Ranges ``"t=0:1:11, x=0:2*pi:64"`` (first, last, number; ends included; ``t=0.5``
            for one position), or a file: CSV rows or a ``point`` dimension give points, one
            variable per coordinate along itself (and npz vectors) gives a grid.
        problem: Whose coordinates to read.

    Raises:
        UsageError: A range that cannot be read, a coordinate missing or unknown.
        DataError: A file that does not fit, positions outside the domain.
    """
    if "=" in str(source) and not os.path.exists(source):  # noqa: PTH110  a Path raises on long text
        return _ranges(str(source), problem)
    raw = read_raw(source)
    return _points_of_table(raw, problem) if raw.is_table else _arrays(raw, problem)


def _ranges(text: str, problem: Problem) -> Queries:
    names = [c.name for c in problem.coordinates]
    example = ", ".join(f"{c.name}={c.low:.4g}:{c.high:.4g}:11" for c in problem.coordinates)
    found: dict[str, Tensor] = {}
    for part in text.split(","):
        name, _, rest = (s.strip() for s in part.partition("="))
        if name not in names:
            message = f"{excerpt(name)} is not a coordinate; one of {', '.join(names)}"
            raise UsageError(f'--at: {message}. Example: --at "{example}"')
        if name in found:
            raise UsageError(f"--at: '{name}' is given twice")
        coordinate = problem.coordinates[names.index(name)]
        values = np.array(_positions(rest, name, example))
        found[name] = torch.from_numpy(check_domain("--at", name, coordinate, values))
    missing = [n for n in names if n not in found]
    if missing:
        raise UsageError(f'--at: no range for {", ".join(missing)}. Example: --at "{example}"')
    return Queries(axes={name: found[name] for name in names})


def _positions(text: str, name: str, example: str) -> list[float]:
    parts = [p.strip() for p in text.split(":")]
    ends = [_real(p) for p in parts[:2]]
    if len(parts) == 1 and ends[0] is not None:
        return [ends[0]]
    count = int(parts[2]) if len(parts) == 3 and re.fullmatch(r"\d{1,7}", parts[2]) else 0
    found = [end for end in ends if end is not None]
    if len(found) != 2 or count < 1:
        message = f"{excerpt(text)} is not a position or a range first:last:number"
        raise UsageError(f'--at: {name}: {message}. Example: --at "{example}"')
    first, last = found
    if count > 1 and last <= first:
        raise UsageError(f"--at: {name}: the range {excerpt(text)} does not increase")
    return np.linspace(first, last, count).tolist()


def _real(text: str) -> float | None:
    """Read a number as a spec has it, ``1.5``, ``-2e3``, ``2*pi``; None for anything else."""
    with suppress(Refusal):
        return as_number(parse(text, Scope({})))
    return None


def _points_of_table(raw: RawFile, problem: Problem) -> Queries:
    columns = [column(raw, c.name, "a coordinate of the spec") for c in problem.coordinates]
    for coordinate, values in zip(problem.coordinates, columns, strict=True):
        if np.isnan(values).any():
            row = int(np.argmax(np.isnan(values))) + 1
            raise DataError(f"{raw.path}: row {row} has no '{coordinate.name}'")
    number = sample_numbers(raw)
    points = np.stack(columns, -1)
    counts = np.bincount(number)
    if len(set(counts.tolist())) > 1:
        message = f"samples have between {counts.min()} and {counts.max()} query points"
        raise DataError(f"{raw.path}: {message}; expected the same number in each")
    found, _ = grouped_by_sample(raw, points, points[:, 0], number, len(counts))
    return _points(raw, problem, found)


def _arrays(raw: RawFile, problem: Problem) -> Queries:
    names = [c.name for c in problem.coordinates]
    found = {n: raw.need(n, "a coordinate of the spec") for n in names}
    if all(
        v.dimensions == (n,) or (v.dimensions is None and v.values.ndim <= 1)
        for n, v in found.items()
    ):
        return Queries(
            axes={c.name: _axis(raw, c, found[c.name].values) for c in problem.coordinates}
        )
    first = found[names[0]]
    if first.dimensions is None:  # npz: two axes are samples and points
        shapes = {n: v.values.shape for n, v in found.items()}
        if len(set(shapes.values())) > 1 or first.values.ndim != 2:
            given = ", ".join(f"{n} {s}" for n, s in shapes.items())
            expected = "a vector for each axis of a grid, or (samples, points) for all"
            raise DataError(f"{raw.path}: {given}; expected {expected}")
        return _points(
            raw, problem, np.stack([numbers(raw.path, n, v.values) for n, v in found.items()], -1)
        )
    return _points(raw, problem, flattened_points(raw, names[0], first, found)[0])


def _axis(raw: RawFile, coordinate: Coordinate, values: np.ndarray) -> Tensor:
    values = numbers(raw.path, coordinate.name, np.atleast_1d(values))
    return torch.from_numpy(check_axis(raw.path, coordinate, values))


def _points(raw: RawFile, problem: Problem, points: np.ndarray) -> Queries:
    if not points.size:
        raise DataError(f"{raw.path}: holds no points")
    for i, coordinate in enumerate(problem.coordinates):
        points[..., i] = check_domain(raw.path, "query", coordinate, points[..., i])
    return Queries(points=torch.from_numpy(points))
