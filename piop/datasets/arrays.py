"""Named arrays with named dimensions in a data file, read sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, final

import numpy as np

from piop.errors import DataError

SAMPLE, POINT = "sample", "point"


@dataclass(frozen=True)
class Variable:
    """One array of a file.

    Attributes:
        values: The numbers.
        dimensions: A name for each axis; None where the format has no names (npz).
    """

    values: np.ndarray
    dimensions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RawFile:
    """What a file holds, before a problem gives it meaning.

    Attributes:
        path: Where it was read from, for messages.
        format: ``netcdf``, ``zarr``, ``npz``, ``csv``, or the name of a published layout.
        variables: Arrays by name; for CSV, one column each.
        attributes: Global attributes.
        expected: What a file of this format would have to look like, for messages; may be empty.
    """

    path: str
    format: str
    variables: Mapping[str, Variable]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""

    def need(self, name: str, what: str) -> Variable:
        """Return a variable, or say what is missing and what there is."""
        if name in self.variables:
            return self.variables[name]
        found = ", ".join(self.variables) or "none"
        message = f"{self.path}: no variable '{name}' ({what}); found: {found}"
        raise DataError(message + (f". {self.expected}" if self.expected else ""))


Hdf5 = Any
"""An ``h5py.File`` or ``h5py.Group``, whose stubs do not say what is in one."""
Select = tuple[int | slice, ...]


class Source(Protocol):
    """What stores an array: ``h5py.Dataset``, ``zarr.Array``, ``numpy.ndarray`` and the like."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        ...

    @property
    def dtype(self) -> Any:
        """Kind of the numbers."""
        ...

    def __getitem__(self, select: Any, /) -> Any:
        """Read what whole numbers and slices select, one for each axis."""
        ...


@final
@dataclass(frozen=True)
class StoredArray:
    """An array of a file, not read yet.

    Attributes:
        shape: Its axes.
        dtype: Kind of its numbers.
        dimensions: A name for each axis; None where the format has no names.
        part: Reads samples ``[i, j)``; None for all there is, and always so without samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    dimensions: tuple[str, ...] | None
    part: Callable[[slice | None], np.ndarray]

    @property
    def per_sample(self) -> bool:
        """Whether it has an axis of samples."""
        return self.dimensions is not None and SAMPLE in self.dimensions

    @property
    def bytes_per_sample(self) -> int:
        """Size of one sample once it is read, in float64."""
        count = 1 if self.dimensions is None else self.shape[self.dimensions.index(SAMPLE)]
        return 8 * int(np.prod(self.shape, dtype=np.int64)) // max(1, count)

    def read(self, index: np.ndarray | None = None) -> Variable:
        """Read all, or of an array of samples those with these indices."""
        if index is None or not self.per_sample:
            return Variable(self.part(None), self.dimensions)
        assert self.dimensions is not None  # noqa: S101 - else it has no samples
        axis = self.dimensions.index(SAMPLE)
        parts = [self.part(run) for run in consecutive_runs(index)]
        found = parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
        return Variable(found, self.dimensions)


@final
@dataclass(frozen=True)
class OpenFile:
    """What an open file holds; close it by ``with``.

    Attributes:
        path: Where it is.
        format: The format, or the name of a published layout.
        arrays: By name.
        attributes: Global attributes.
        expected: What a file of this format would have to look like, for messages; may be empty.
        close: Closes it.
        by_sample: Whether a sample can be read without reading the rest.
    """

    path: str
    format: str
    arrays: Mapping[str, StoredArray]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""
    close: Callable[[], None] = lambda: None
    by_sample: bool = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, index: np.ndarray | None = None) -> RawFile:
        """Read everything, or some samples and what all of them share."""
        variables = {name: array.read(index) for name, array in self.arrays.items()}
        return RawFile(self.path, self.format, variables, self.attributes, self.expected)

    @property
    def count(self) -> int | None:
        """Number of samples; None where no array has an axis of them."""
        found = [
            a.shape[a.dimensions.index(SAMPLE)]
            for a in self.arrays.values()
            if a.dimensions is not None and SAMPLE in a.dimensions
        ]
        return max(found, default=None)

    @property
    def bytes_per_sample(self) -> int:
        """Size of one sample of everything, in float64."""
        return sum(a.bytes_per_sample for a in self.arrays.values() if a.per_sample)


def lazy_array(
    source: Source, dimensions: Sequence[str] | None = None, select: Select | None = None
) -> StoredArray:
    """Describe an array, or a part of it.

    Args:
        source: What stores it.
        dimensions: Names of the axes that are left.
        select: For each axis of the source a slice without step, or a whole number, which drops the
            axis; by default all.
    """
    select = select or (slice(None),) * len(source.shape)
    kept = [axis for axis, s in enumerate(select) if isinstance(s, slice)]
    shape = tuple(len(range(*select[a].indices(source.shape[a]))) for a in kept)  # type: ignore[union-attr]
    names = None if dimensions is None else tuple(dimensions)
    sample = kept[names.index(SAMPLE)] if names and SAMPLE in names else None

    def part(samples: slice | None) -> np.ndarray:
        chosen = list(select)
        if samples is not None and sample is not None:
            chosen[sample] = samples
        return np.asarray(source[tuple(chosen)])

    return StoredArray(shape, np.dtype(source.dtype), names, part)


def transformed(
    array: StoredArray,
    view: Callable[[np.ndarray], np.ndarray],
    dimensions: Sequence[str],
    shape: Sequence[int],
    dtype: np.dtype | None = None,
) -> StoredArray:
    """Describe an array as it looks through ``view``, which keeps samples apart."""
    return StoredArray(
        tuple(shape), dtype or array.dtype, tuple(dimensions), lambda s: view(array.part(s))
    )


def consecutive_runs(index: np.ndarray) -> Iterator[slice]:
    """Split indices into runs of neighbours, in their order; one empty run for none."""
    if not len(index):
        yield slice(0, 0)
        return
    for run in np.split(index, np.flatnonzero(np.diff(index) != 1) + 1):
        yield slice(int(run[0]), int(run[-1]) + 1)


@final
class Reversed:
    """An array whose axes are stored in the opposite order.

    Args:
        source: As it is stored.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return tuple(self.source.shape[::-1])

    @property
    def dtype(self) -> Any:
        """Kind of the numbers."""
        return self.source.dtype

    def __getitem__(self, select: Select, /) -> np.ndarray:
        """Read a part."""
        return np.asarray(self.source[select[::-1]]).T


@final
class Stacked:
    """Arrays of one shape, one for each sample, as one whose first axis is the samples.

    Args:
        parts: Opens the array of a sample.
        count: Number of samples.
    """

    def __init__(self, parts: Callable[[int], Source], count: int) -> None:
        self.parts, self.count = parts, count
        first = parts(0)
        self.shape: tuple[int, ...] = (count, *first.shape)
        self.dtype: Any = first.dtype

    def __getitem__(self, select: Select, /) -> np.ndarray:
        """Read a part."""
        samples, rest = select[0], tuple(select[1:])
        if isinstance(samples, int):
            return np.asarray(self.parts(samples)[rest])
        return np.stack([self.parts(i)[rest] for i in range(*samples.indices(self.count))])
