"""Input functions stored on a grid in a file, and their interpolants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Self, final

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import (
    SLACK,
    check_axis,
    check_finite,
    coordinate_variable,
    name_axes,
    numbers,
)
from piop.datasets.formats.detect import read_raw
from piop.datasets.lazy_arrays import SAMPLE, RawFile
from piop.datasets.sensors import column_samples
from piop.errors import DataError
from piop.fields import Device, InputFunction
from piop.sampling.functions import (
    Basis,
    ProductFunction,
    ScalarFunction,
    SplineBasis,
    TrigonometricBasis,
)
from piop.spec.distributions import FromFile

if TYPE_CHECKING:
    from piop.problem import Coordinate, Input


@final
@dataclass(frozen=True)
class InterpolatedFunction(ProductFunction):
    """Interpolants between the points of a grid.

    Attributes:
        points: Along each coordinate ``[n_i]``.
    """

    points: tuple[Tensor, ...]

    @property
    def given_at(self) -> tuple[Tensor, ...]:
        """See the base class."""
        return self.points

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device or dtype."""
        points = tuple(x.to(device=device, dtype=dtype) for x in self.points)
        return replace(super().to(device, dtype), points=points)


def interpolate(
    path: str,
    values: Tensor,
    ticks: Sequence[np.ndarray],
    axes: Sequence[Coordinate],
    smooth: bool = True,
) -> InterpolatedFunction:
    """Interpolate values on a tensor grid.

    Args:
        path: Where they are from, for messages.
        values: ``[F, n1, …, nd]`` float64.
        ticks: Positions along each axis, increasing, in the domain.
        axes: The coordinates.
        smooth: False for broken lines instead of cubic splines.

    Raises:
        DataError: A periodic axis is not evenly spaced over one period, or its ends differ.
    """
    bases: list[Basis] = []
    points: list[Tensor] = []
    for i, (axis, positions) in enumerate(zip(axes, ticks, strict=True)):
        at = torch.from_numpy(np.ascontiguousarray(positions))
        if axis.periodic:
            values, at = _one_period(path, values, at, i + 1, axis)
            waves, start = torch.arange(len(at) // 2 + 1), float(at[0])
            basis: Basis = TrigonometricBasis.periodic(
                waves, start, start + axis.length, unit=False
            )
            values = _analysis(values.movedim(i + 1, -1)).movedim(-1, i + 1)
        else:
            basis, values = _splines(at, values, i + 1, 3 if smooth and len(at) > 3 else 1)
        bases.append(basis)
        points.append(at)
    offset = values.new_zeros(1)
    return InterpolatedFunction(values.contiguous(), tuple(bases), offset, tuple(points))


def sum_of_waves(values: Tensor, axes: Sequence[Coordinate], most: int) -> ProductFunction:
    """Interpolate values on even grids over periodic axes by waves, without the shortest ones.

    Args:
        values: ``[F, n1, …, nd]`` float64 on grids that begin at the low ends; n above ``2·most``.
        axes: The d coordinates, all periodic.
        most: Length of the wave vectors of the shortest waves that are kept, in periods over an
            axis.
    """
    number = torch.cat((torch.arange(most + 1), torch.arange(1, most + 1))).to(values)
    lengths = torch.stack(torch.meshgrid(*[number] * len(axes), indexing="ij")).square().sum(0)
    bases: list[Basis] = []
    for i, axis in enumerate(axes, start=1):
        found = _analysis(values.movedim(i, -1))
        cosines = values.shape[i] // 2 + 1
        kept = torch.cat((found[..., : most + 1], found[..., cosines : cosines + most]), -1)
        values = kept.movedim(-1, i)
        waves = torch.arange(most + 1)
        basis = TrigonometricBasis.periodic(waves, axis.low, axis.high, unit=False)
        bases.append(basis.to(values.device, values.dtype))
    values = values * (lengths <= most**2)
    return ProductFunction(values, tuple(bases), values.new_zeros(1))


def _splines(at: Tensor, values: Tensor, dim: int, degree: int) -> tuple[SplineBasis, Tensor]:
    """Splines through values at points ``[n]``: broken lines, or cubics with not-a-knot ends."""
    if len(at) == 1:
        return SplineBasis(torch.cat((at, at)), 0), values
    from scipy.interpolate import make_interp_spline  # slow to import, and few runs need it

    found = make_interp_spline(at.numpy(), values.numpy(), degree, axis=dim)
    coefficients = torch.from_numpy(found.c).movedim(0, dim)
    return SplineBasis(torch.from_numpy(found.t), degree), coefficients


def _analysis(values: Tensor) -> Tensor:
    """Values at evenly spaced points of a period to cosines, then sines ``[..., n → K]``."""
    count = values.shape[-1]
    found = torch.fft.rfft(values, norm="forward")
    cosine, sine = 2 * found.real, -2 * found.imag[..., 1:]
    cosine[..., 0] /= 2
    if count % 2 == 0:  # the highest cosine is sampled in full; its sine vanishes at the points
        cosine[..., -1] /= 2
    return torch.cat((cosine, sine), -1)


def _one_period(
    path: str, values: Tensor, at: Tensor, dim: int, axis: Coordinate
) -> tuple[Tensor, Tensor]:
    """Check that points cover a period evenly, and drop a right end that repeats the left one."""
    length, count = axis.length, len(at)
    if count > 1 and abs(float(at[-1] - at[0]) - length) <= SLACK * length:
        first, last = values.select(dim, 0), values.select(dim, count - 1)
        if float((first - last).abs().max()) > 1e-6 * float(values.abs().max()):
            raise DataError(
                f"{path}: values at both ends of the periodic axis '{axis.name}' differ; "
                "they are the same point"
            )
        values, at, count = values.narrow(dim, 0, count - 1), at[:-1], count - 1
    even = at[0] + length / count * torch.arange(count, dtype=at.dtype)
    if float((at - even).abs().max()) > 1e-5 * length / count:
        raise DataError(
            f"{path}: the periodic axis '{axis.name}' has {count} points that are not evenly "
            f"spaced over [{axis.low:g}, {axis.high:g}); expected steps of {length / count:g}"
        )
    return values, at


def stored_functions(
    item: Input, distribution: FromFile, axes: tuple[Coordinate, ...]
) -> InputFunction:
    """Read every function of a file, as one batch in the order of the file.

    The variable (``distribution.variable``, or the input's name) is ``u0(sample, x)`` along a
    coordinate variable ``x``, in NetCDF or npz; in CSV, the columns ``x`` and ``u0`` (and
    ``sample``) whose points form a grid. Periodic axes are evenly spaced over one period, with
    or without the right end. Between its points a function is a trigonometric polynomial along
    periodic axes, and along others a cubic spline (linear if the input is not smooth, or below
    four points).

    Raises:
        DataError: The file is missing or unreadable; the variable is missing; a shape does not fit;
            NaN; points that are not on a grid in the domain.
    """
    file, state = _found(item, distribution)
    return _load(file, state, distribution.variable or item.name, axes, item.smooth)


def file_digests(inputs: Iterable[Input]) -> list[str]:
    """Return a digest of each file that inputs are drawn from; a spec holds its path alone.

    Raises:
        DataError: A file is missing or unreadable.
    """
    return [
        _digest(*_found(item, item.distribution))
        for item in inputs
        if isinstance(item.distribution, FromFile)
    ]


def _found(item: Input, distribution: FromFile) -> tuple[Path, tuple[int, int]]:
    """Return a file, and what changes when it does: time of change and size."""
    file = distribution.file or Path(distribution.path)
    try:
        stamp = file.stat()
    except (OSError, ValueError):
        raise DataError(f"{file}: no such file, given for inputs.{item.name}") from None
    return file, (stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=8)
def _digest(file: Path, state: tuple[int, int]) -> str:
    del state
    try:
        with file.open("rb") as content:
            return file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None


@lru_cache(maxsize=8)
def _load(
    file: Path,
    state: tuple[int, int],
    variable: str,
    axes: tuple[Coordinate, ...],
    smooth: bool,
) -> InputFunction:
    """Read and interpolate once for each state of a file, not once for each batch."""
    del state
    raw = read_raw(file)
    ticks, values = (_from_table if raw.is_table else _from_arrays)(raw, variable, axes)
    if not len(values):
        raise DataError(f"{raw.path}: '{variable}' holds no samples")
    check_finite(raw.path, variable, values)
    if not axes:
        return ScalarFunction(torch.from_numpy(values))
    return interpolate(raw.path, torch.from_numpy(values), ticks, axes, smooth)


def _from_arrays(
    raw: RawFile, variable: str, axes: Sequence[Coordinate]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Axes ``[n]`` each and values ``[F, n1, …, nd]``."""
    label = f"a function of {', '.join(a.name for a in axes)}" if axes else "a scalar input"
    value = raw.need(variable, label)
    where = {a.name: coordinate_variable(raw, variable, a.name) for a in axes}
    value, where = name_axes(raw, variable, value, where)
    names = [a.name for a in axes]
    along = {
        v.dimensions[0]: c for c, v in where.items() if v.dimensions and len(v.dimensions) == 1
    }
    dims = [along.get(d, d) for d in value.dimensions or ()]
    if len(along) < len(axes) or sorted(dims) not in (sorted(names), sorted([SAMPLE, *names])):
        raise DataError(
            f"{raw.path}: '{variable}' is given along {', '.join(dims) or 'no dimension'}; "
            f"expected a grid along {', '.join([SAMPLE, *names])}"
        )
    ticks = [check_axis(raw.path, a, numbers(raw.path, a.name, where[a.name].values)) for a in axes]
    array = numbers(raw.path, variable, value.values)
    if SAMPLE not in dims:
        dims, array = [SAMPLE, *dims], array[None]
    array = np.ascontiguousarray(array.transpose([dims.index(d) for d in (SAMPLE, *names)]))
    if array.shape[1:] != tuple(map(len, ticks)):
        wanted = ", ".join(f"len({a.name}) = {len(t)}" for a, t in zip(axes, ticks, strict=True))
        raise DataError(f"{raw.path}: '{variable}' has shape {array.shape}; expected ({wanted})")
    return ticks, array


def _from_table(
    raw: RawFile, variable: str, axes: Sequence[Coordinate]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Axes and values of a table, one row per point."""
    samples = column_samples(raw, variable, axes)
    points, values = samples.points.numpy(), samples.values[..., 0].numpy()
    if not axes:
        return [], values[:, 0]
    ticks = [np.unique(column) for column in points.reshape(-1, len(axes)).T]
    shape = tuple(map(len, ticks))
    columns = zip(ticks, np.moveaxis(points, -1, 0), strict=True)
    index = tuple(np.searchsorted(t, column) for t, column in columns)
    place = np.asarray(np.ravel_multi_index(index, shape))
    whole = samples.mask is None and place.shape[1] == math.prod(shape)
    if not whole or (np.sort(place, 1) != np.arange(place.shape[1])).any():
        raise DataError(
            f"{raw.path}: the points of '{variable}' are no grid: {points.shape[1]} rows in a "
            f"sample, but {' × '.join(map(str, shape))} different positions"
        )
    return ticks, np.take_along_axis(values, np.argsort(place, 1), 1).reshape(-1, *shape)
