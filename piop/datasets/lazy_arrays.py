"""Arrays of a data file with named dimensions, read lazily and sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from piop.errors import DataError, PiopError

SAMPLE, POINT = "sample", "point"
ESTIMATE = "error_estimate"
ACCEPTED, POINTS, STEP = "reference_accepted", "reference_points", "reference_step"
IN_DISTRIBUTION, P_VALUE = "in_distribution", "p_value"
ERROR_BOUND, RESIDUAL, SOURCE = "error_bound", "residual", "source"
SENSOR_ERROR, BOUND_OVER_TIME = "sensor_error", "error_bound_over_time"
COARSE_DIFFERENCE = "coarse_difference"
AXIS = "reference_axis"
REFERENCE_VARIABLES = {
    ESTIMATE: {"long_name": "relative L2 error estimate of the reference", "units": "1"},
    ACCEPTED: {"long_name": "1 where the error estimate met the tolerance"},
    POINTS: {"long_name": "points of the finest grid of the reference, per axis of space"},
    STEP: {"long_name": "longest step of the reference in time, 0 where it took none"},
}
"""Variables of a data set that describe the reference of each sample, with their attributes."""
PREDICTION_VARIABLES = {
    ESTIMATE: {"long_name": "relative L2 error that half of such answers have", "units": "1"},
    IN_DISTRIBUTION: {
        "long_name": "whether the inputs may come from the distribution of the spec, at 1 %",
        "flag_values": "0, 1",
        "flag_meanings": "outside inside",
    },
    P_VALUE: {
        "long_name": "probability that inputs of the distribution are as unusual",
        "units": "1",
    },
    ERROR_BOUND: {
        "long_name": "bound of the relative L2 error of every unknown",
        "comment": "not a number where the bound does not cover the inputs",
        "units": "1",
    },
    BOUND_OVER_TIME: {
        "long_name": "bound of the L2 error at a time, relative to the whole solution",
        "comment": "it holds at each time by itself, not at all times together",
        "units": "1",
    },
    SENSOR_ERROR: {
        "long_name": "relative L2 error that comes from sensors fewer than those of the spec",
        "units": "1",
    },
    SOURCE: {
        "long_name": "where the answer comes from",
        "flag_values": "0, 1, 2",
        "flag_meanings": "operator solver operator_beyond_tolerance",
    },
    RESIDUAL: {
        "long_name": "residual over the size of the solution, 1 for a typical input",
        "units": "1",
    },
    COARSE_DIFFERENCE: {
        "long_name": "relative L2 difference from a coarse solution of the reference solver",
        "units": "1",
    },
}
"""Variables of a prediction that say how far each sample can be trusted, with their attributes."""


@dataclass(frozen=True)
class Variable:
    """An array that was read from a file.

    Attributes:
        values: Its numbers.
        dimensions: A name for each axis; None where the format has none (npz).
    """

    values: np.ndarray
    dimensions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RawFile:
    """The content of a file, before it is matched with a problem.

    Attributes:
        path: Path of the file, for messages.
        format: ``netcdf``, ``zarr``, ``npz``, ``csv``, or the name of a published layout.
        variables: Arrays by name; for CSV, one column each.
        attributes: Global attributes.
        expected: Description of what a file of this format has to contain, for messages; may be
            empty.
    """

    path: str
    format: str
    variables: Mapping[str, Variable]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the arrays are the columns of a table."""
        return self.format == "csv"

    def need(self, name: str, what: str) -> Variable:
        """Return a variable.

        Raises:
            DataError: If there is none of that name; lists the names there are.
        """
        if name in self.variables:
            return self.variables[name]
        message = f"{self.path}: no variable '{name}' ({what}); found: {some_of(self.variables)}"
        raise DataError(message + (f". {self.expected}" if self.expected else ""))


Hdf5 = Any
"""An ``h5py.File`` or ``h5py.Group``, whose stubs do not type their items."""
Source = Any
"""The storage of an array: ``h5py.Dataset``, ``zarr.Array``, ``numpy.ndarray`` and the like. It has
``shape`` and ``dtype``, and is indexed by an integer or a slice for each axis to read a part."""
Select = tuple[int | slice, ...]


SHOWN = 30
"""Names that a message lists."""


def some_of(names: Collection[str]) -> str:
    """List names for a message, the first of many."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join([*names][:SHOWN]) or "none") + more


def text_of(value: Any) -> str:
    """Return the text of an attribute of a file, which may be bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def plain_numbers(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes whose numbers are Python's, not numpy's."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in attributes.items()}


def plain_attributes(file: Hdf5) -> dict[str, Any]:
    """Return the attributes of a file as numbers and text; several values are joined by commas."""
    found = {}
    for name, stored in file.attrs.items():
        value = stored.item() if np.size(stored) == 1 and hasattr(stored, "item") else stored
        if isinstance(value, np.ndarray):
            value = ", ".join(map(text_of, value.ravel()))
        found[name] = text_of(value) if isinstance(value, bytes) else value
    return found


def is_number(values: Any) -> bool:
    """Whether an array, of any library, holds real numbers or truth values."""
    return values.dtype.kind in "fiub"


def is_position(values: Any) -> bool:
    """Whether the numbers of an array may be positions: real, and no truth values."""
    return is_number(values) and values.dtype.kind != "b"


@final
@dataclass(frozen=True)
class StoredArray:
    """An array of a file that is not read yet.

    Attributes:
        shape: Length of each axis.
        dtype: Type of its numbers.
        dimensions: A name for each axis; None where the format has none.
        read_samples: Reads a range of samples; all of the array for None, and where it has no axis
            of samples.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    dimensions: tuple[str, ...] | None
    read_samples: Callable[[slice | None], np.ndarray]

    @property
    def sample_axis(self) -> int | None:
        """Position of the axis of samples; None without one."""
        return _sample_axis(self.dimensions)

    @property
    def per_sample(self) -> bool:
        """Whether it has an axis of samples."""
        return self.sample_axis is not None

    @property
    def count(self) -> int | None:
        """Number of samples; None without an axis of samples."""
        axis = self.sample_axis
        return None if axis is None else self.shape[axis]

    @property
    def bytes_per_sample(self) -> int:
        """Size of one sample in float64."""
        return 8 * int(np.prod(self.shape, dtype=np.int64)) // max(1, self.count or 1)

    def read(self, index: np.ndarray | None = None) -> Variable:
        """Read the whole array, or only the samples with these indices."""
        axis = self.sample_axis
        if index is None or axis is None:
            return Variable(self.read_samples(None), self.dimensions)
        parts = [self.read_samples(run) for run in consecutive_runs(index)]
        found = parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
        return Variable(found, self.dimensions)


@final
@dataclass(frozen=True)
class OpenFile:
    """An open file and its arrays; close it by ``with``.

    Attributes:
        path: Its path.
        format: The format, or the name of a published layout.
        arrays: Its arrays by name.
        attributes: Global attributes.
        expected: Description of what a file of this format has to contain, for messages; may be
            empty.
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
        """Read everything, or some samples and what all samples share.

        Raises:
            DataError: If it cannot be read.
        """
        variables = {name: array.read(index) for name, array in self.arrays.items()}
        return RawFile(self.path, self.format, variables, self.attributes, self.expected)

    @property
    def count(self) -> int | None:
        """Number of samples; None where no array has an axis of samples."""
        counts = (array.count for array in self.arrays.values())
        return max((n for n in counts if n is not None), default=None)

    @property
    def bytes_per_sample(self) -> int:
        """Size of one sample of all arrays, in float64."""
        return sum(a.bytes_per_sample for a in self.arrays.values() if a.per_sample)


def lazy_array(
    source: Source, dimensions: Sequence[str] | None = None, select: Select | None = None
) -> StoredArray:
    """Describe an array, or a part of it, without reading it.

    Args:
        source: Its storage.
        dimensions: Names of the axes that remain.
        select: For each axis of the source a slice without step, or an integer, which drops the
            axis; by default everything.
    """
    select = select or (slice(None),) * len(source.shape)
    kept = {
        axis: len(range(*s.indices(source.shape[axis])))
        for axis, s in enumerate(select)
        if isinstance(s, slice)
    }
    names = None if dimensions is None else tuple(dimensions)
    position = _sample_axis(names)
    sample = None if position is None else list(kept)[position]

    def read_samples(samples: slice | None) -> np.ndarray:
        chosen = list(select)
        if samples is not None and sample is not None:
            chosen[sample] = samples
        return np.asarray(source[tuple(chosen)])

    return StoredArray(tuple(kept.values()), np.dtype(source.dtype), names, read_samples)


def axis_arrays(**positions: Source) -> dict[str, StoredArray]:
    """Describe coordinates along themselves, by name: ``x(x)``."""
    return {name: lazy_array(values, (name,)) for name, values in positions.items()}


def _sample_axis(dimensions: tuple[str, ...] | None) -> int | None:
    return dimensions.index(SAMPLE) if dimensions and SAMPLE in dimensions else None


def transformed(
    array: StoredArray,
    view: Callable[[np.ndarray], np.ndarray],
    dimensions: Sequence[str],
    shape: Sequence[int],
) -> StoredArray:
    """Describe an array to which ``view`` is applied when it is read, for each sample alone."""
    return StoredArray(
        tuple(shape), array.dtype, tuple(dimensions), lambda s: view(array.read_samples(s))
    )


def consecutive_runs(index: np.ndarray) -> Iterator[slice]:
    """Split indices into runs of consecutive ones, in order; one empty run where there are none."""
    for run in np.split(index, np.flatnonzero(np.diff(index) != 1) + 1):
        yield slice(int(run[0]), int(run[-1]) + 1) if len(run) else slice(0, 0)


@final
class Reversed:
    """An array whose axes are stored in the opposite order.

    Args:
        source: The array as stored.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.dtype = source, source.dtype
        self.shape: tuple[int, ...] = tuple(source.shape[::-1])

    def __getitem__(self, select: Select, /) -> np.ndarray:
        """Read a part."""
        return np.asarray(self.source[select[::-1]]).T


@final
class Stacked:
    """Arrays of equal shape, one per sample, as one array whose first axis is the samples.

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


@contextmanager
def reading(path: str | Path, name: str) -> Iterator[None]:
    """Report what a library raises on a file within the block as an error of that file.

    Args:
        path: The file.
        name: Its format.

    Raises:
        DataError: With the library's reason.
    """
    try:
        yield
    except PiopError:
        raise
    except Exception as error:  # on damaged files libraries raise of every kind
        message = f"{path}: looks like {name} but cannot be read: {reason_of(error)}"
        raise DataError(f"{message}. Is it damaged?") from error


def reason_of(error: Exception) -> str:
    """Return the first line of what an error says."""
    system = error.strerror if isinstance(error, OSError) else None
    return (system or str(error) or type(error).__name__).splitlines()[0]
