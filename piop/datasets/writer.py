"""Data sets and predictions written to files, whole or batch by batch."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor

from piop.datasets.atomic_output import require_new
from piop.datasets.dataset import Dataset
from piop.datasets.lazy_arrays import AXIS, ESTIMATE, POINT, REFERENCE_VARIABLES, SAMPLE
from piop.datasets.solution import with_history
from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples, tensor_grid

if TYPE_CHECKING:
    import xarray as xr

    from piop.datasets.queries import Queries
    from piop.problem import Problem


FORMAT = 1


def check_names(problem: Problem) -> None:
    """Refuse names in a spec that data files reserve.

    Raises:
        DataError: For such a name.
    """
    used = {c.name for c in (*problem.coordinates, *problem.angles)} | set(problem.channels)
    used |= {i.name for i in problem.inputs}
    for name in sorted(used & {SAMPLE, POINT, AXIS, *REFERENCE_VARIABLES}):
        message = f"'{name}' is a name that data files use themselves; rename it in the spec"
        raise DataError(f"{problem.name}: {message}")


def file_attributes(problem: Problem, **more: Any) -> dict[str, Any]:
    """Return the attributes of a file: spec, hash, versions, and ``more`` (None is left out)."""
    versions = {f"{name}_version": installed_version(name) for name in ("piop", "torch", "numpy")}
    attributes = {
        "title": problem.spec.title or problem.name,
        "piop_format": FORMAT,
        "piop_spec": problem.to_yaml(),
        "piop_hash": problem.hash,
        **versions,
        "python_version": platform.python_version(),
        **more,
    }
    return {
        # names of files need not be text
        name: value.encode(errors="replace").decode() if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def variable_attributes(problem: Problem, name: str) -> dict[str, str]:
    """Return the attributes of a variable: its unit in the spec and a long name."""
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


def installed_version(package: str) -> str:
    """Return the version of a package, ``unknown`` for a checkout that is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class NewVariable:
    """A variable to create in a file.

    Attributes:
        name: Its name in the spec.
        dimensions: Names of its dimensions.
        shape: Their lengths.
        chunks: Lengths of a chunk of the file.
        dtype: Type of the numbers.
        labels: Attributes.
    """

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype
    labels: dict[str, str]

    @property
    def fill(self) -> float | None:
        """Value where nothing was written; None for the format's own."""
        return float("nan") if self.dtype.kind == "f" else None


class ArrayStore(ABC):
    """A file of some format, to which arrays are written in chunks, each with a checksum.

    Attributes:
        chunk_bytes: Size of a chunk: what a reader must load to see one sample, if that is smaller.
    """

    chunk_bytes: ClassVar[int]

    @classmethod
    @abstractmethod
    def open(
        cls, path: Path, count: int, attributes: Mapping[str, Any], workspace: Path | None
    ) -> AbstractContextManager[Self]:
        """Open a file of so many samples that appears under its name when the block ends."""

    @classmethod
    @abstractmethod
    def require(cls, path: Path) -> None:
        """Make sure that :meth:`open` can write to a path."""

    @abstractmethod
    def create(self, variable: NewVariable, positions: np.ndarray | None = None) -> None:
        """Create a variable for all samples, or a coordinate with its positions."""

    @abstractmethod
    def put(self, name: str, start: int, array: np.ndarray) -> None:
        """Write samples from ``start`` on."""


@final
class DatasetWriter:
    """A file of a known number of samples, filled in order; see :meth:`open`.

    Args:
        problem: The problem whose names and units are used.
        count: Total number of samples.
        store: The file.
    """

    def __init__(self, problem: Problem, count: int, store: ArrayStore) -> None:
        self._problem, self._count, self._store = problem, count, store
        self._filled: dict[str, int] = {}

    @staticmethod
    @contextmanager
    def open(
        path: str | Path,
        problem: Problem,
        count: int,
        *,
        workspace: Path | None = None,
        force: bool = False,
        **attributes: Any,
    ) -> Iterator[DatasetWriter]:
        """Open a file that appears under its name once the block has filled it.

        Args:
            path: Where to write: a NetCDF file (``.nc``) or a folder in Zarr's format (``.zarr``).
            problem: Its canonical spec and hash become attributes.
            count: Total number of samples.
            workspace: Folder to write in until the file is complete, on the same disk; by default
                that of ``path``.
            force: Replace a file that is there; it stays until the new one is complete.
            attributes: Further attributes, such as the seed.

        Raises:
            UsageError: Another ending, or a file that is there already.
            DataError: The place cannot be written, or the block filled too few samples.
            PiopError: Writing failed, such as on a full disk.
            NotSupportedError: Zarr without its library.
        """
        check_names(problem)
        store_type = DatasetWriter.require(path, force)
        found = file_attributes(problem, **attributes)
        with store_type.open(Path(path), count, found, workspace) as store:
            writer = DatasetWriter(problem, count, store)
            yield writer
            for name, filled in writer._filled.items():
                if filled != count:
                    raise DataError(f"{path}: '{name}' has {filled} of {count} samples")

    @staticmethod
    def require(path: str | Path, force: bool = False) -> type[ArrayStore]:
        """Make sure that :meth:`open` can write to a path, and find the format of its ending.

        Raises:
            UsageError: If there is no format of that ending, or something is there already.
            DataError: If the place cannot be written.
            NotSupportedError: Zarr without its library.
        """
        path = Path(path)
        match path.suffix:
            case ".nc":
                from piop.datasets.formats.netcdf import NetcdfStore as Store
            case ".zarr":
                from piop.datasets.formats.zarr import ZarrStore as Store
            case ending:
                raise UsageError(
                    f"{path}: {ending or 'no ending'} is not the ending of a format that is "
                    f"written; end the name in .nc (NetCDF) or .zarr (Zarr)"
                )
        Store.require(path)
        require_new(path, force)
        return Store

    def axis(self, name: str, positions: Tensor | np.ndarray) -> None:
        """Add a coordinate along itself: ``x(x)``."""
        array, labels = _array(positions), variable_attributes(self._problem, name)
        variable = NewVariable(name, (name,), array.shape, array.shape, array.dtype, labels)
        self._store.create(variable, array)

    def append(
        self,
        name: str,
        dimensions: Sequence[str],
        values: Tensor | np.ndarray,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Add the next samples of a variable.

        Args:
            name: The variable; created when it is first given.
            dimensions: Dimensions of one sample: axes of the file, or new ones.
            values: ``[b, *dimensions]``.
            attributes: Of a variable that is created; None for those usual under this name.
        """
        array = _array(values)
        if name not in self._filled:
            one = max(1, int(np.prod(array.shape[1:], dtype=int)) * array.itemsize)
            chunk = min(self._count, max(1, self._store.chunk_bytes // one))
            usual = variable_attributes(self._problem, name) if attributes is None else attributes
            rest, labels = array.shape[1:], dict(usual)
            shape, chunks, along = (self._count, *rest), (chunk, *rest), (SAMPLE, *dimensions)
            self._store.create(NewVariable(name, along, shape, chunks, array.dtype, labels))
            self._filled[name] = 0
        self._store.put(name, self._filled[name], array)
        self._filled[name] += len(array)


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def write_dataset(
    dataset: Dataset, path: str | Path, problem: Problem, *, force: bool = False
) -> None:
    """Write a data set as NetCDF or Zarr; :func:`piop.datasets.read_dataset` gives it back.

    Args:
        dataset: The samples.
        path: Where to write; the ending is ``.nc`` or ``.zarr``.
        problem: The problem whose names, units and canonical spec are written.
        force: Replace a file that is there.

    Raises:
        UsageError: Another ending, or a file that is there already.
        DataError: The place cannot be written.
        PiopError: Writing failed, such as on a full disk.
    """
    dataset = with_history(problem, dataset)
    own = _own_attributes(dataset)
    with DatasetWriter.open(path, problem, len(dataset), force=force, **own) as writer:
        _write_values(writer, problem, dataset.axes, dataset.points, dataset.values)
        for item in problem.visible_inputs:
            if item.history is not None:
                continue  # it is in the solution
            write_input(writer, item.name, item.of, dataset.inputs[item.name], dataset.axes)
        if dataset.error_estimate is not None:
            writer.append(ESTIMATE, (), dataset.error_estimate)


def _write_values(
    writer: DatasetWriter,
    problem: Problem,
    axes: Mapping[str, Tensor],
    points: Tensor | None,
    values: Mapping[str, Any],
) -> None:
    """Write values of unknowns on the grid of ``axes``, or at ``points [B, P, D]``."""
    for name, positions in axes.items():
        writer.axis(name, positions)
    dimensions = tuple(axes) if points is None else (POINT,)
    if points is not None:
        for i, coordinate in enumerate(problem.coordinates):
            writer.append(coordinate.name, dimensions, points[..., i])
    for name, value in values.items():
        writer.append(name, dimensions, value)


def write_input(
    writer: DatasetWriter,
    name: str,
    of: tuple[str, ...],
    samples: FunctionSamples,
    axes: Mapping[str, Tensor],
) -> None:
    """Write an input along the file's axes if its sensors are on them, else at its own points."""
    values = samples.values[..., 0]
    shape = tuple(len(axes[c]) for c in of) if all(c in axes for c in of) else None
    if not of:
        writer.append(name, (), values[:, 0])
    elif shape is not None and _on_grid(samples, [axes[c] for c in of]):
        writer.append(name, of, values.reshape(len(values), *shape))
    else:
        dimension = f"{POINT}_{name}"
        points = samples.points
        if samples.mask is not None:
            points = torch.where(samples.mask[..., None], points, torch.nan)
            values = torch.where(samples.mask, values, torch.nan)
        for i, coordinate in enumerate(of):
            writer.append(f"{name}_{coordinate}", (dimension,), points[..., i])
        writer.append(name, (dimension,), values)


def _on_grid(samples: FunctionSamples, axes: list[Tensor]) -> bool:
    grid = tensor_grid(axes)
    if samples.mask is not None or samples.points.shape[1] != len(grid):
        return False
    return bool((samples.points == grid.to(samples.points)).all())


def _own_attributes(dataset: Dataset) -> dict[str, Any]:
    """Return the attributes that the writer does not set itself."""
    made = {"title", "piop_format", "piop_spec", "piop_hash"}
    return {
        k: v
        for k, v in dataset.attributes.items()
        if k not in made
        and not k.endswith("_version")
        and isinstance(v, str | int | float | np.number)
    }


def write_prediction(
    path: str | Path,
    problem: Problem,
    queries: Queries,
    values: Mapping[str, Tensor | np.ndarray],
    *,
    per_sample: Mapping[str, xr.DataArray] | None = None,
    force: bool = False,
    **attributes: Any,
) -> None:
    """Write a prediction as NetCDF or Zarr.

    Args:
        path: Where to write; the ending is ``.nc`` or ``.zarr``.
        problem: The problem whose names, units and canonical spec are written.
        queries: Points or grid of the prediction.
        values: Channel → ``[B, *queries.shape]`` (or flat, ``[B, N]``).
        per_sample: What :meth:`piop.run.Run.predict` tells of each sample ``[B]``, or of each time
            of it ``[B, T]``, by name, with attributes.
        force: Replace a file that is there.
        attributes: Further attributes, such as the run.

    Raises:
        UsageError: Another ending, or a file that is there already.
        DataError: The place cannot be written.
        PiopError: Writing failed, such as on a full disk.
    """
    batch = len(next(iter(values.values())))
    points = None if queries.points is None else queries.points.expand(batch, -1, -1)
    shaped = {name: value.reshape(batch, *queries.shape) for name, value in values.items()}
    with DatasetWriter.open(path, problem, batch, force=force, **attributes) as writer:
        _write_values(writer, problem, queries.axes or {}, points, shaped)
        for name, array in (per_sample or {}).items():
            writer.append(name, [*map(str, array.dims[1:])], array.values, array.attrs)
