"""Data sets in memory: input functions and solutions of many instances of one problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from piop.fields import FunctionSamples


@dataclass(frozen=True)
class Dataset:
    """Input functions and solutions of n instances of a problem.

    Attributes:
        inputs: Visible inputs by name; points ``[n, M, d]``, values ``[n, M, 1]``.
        axes: Coordinate name → increasing positions, time first; empty for scattered values.
        values: Channel → ``[n, T, *grid]`` in the order of ``axes``, or ``[n, P]`` when scattered.
        points: Where scattered values are ``[n, P, D]``; None for values on a grid.
        error_estimate: Relative L2 error the values are known to ``[n]``; None when unknown.
        attributes: Attributes of the file: spec, seed, versions.
    """

    inputs: Mapping[str, FunctionSamples]
    axes: Mapping[str, Tensor]
    values: Mapping[str, Tensor]
    points: Tensor | None = None
    error_estimate: Tensor | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the unknowns."""
        return tuple(self.values)

    @property
    def scattered(self) -> bool:
        """Whether values are at points, not on a grid."""
        return self.points is not None

    @property
    def path(self) -> str | None:
        """Path of the file that it is read from; None in memory."""
        return None

    def chunks(self) -> Iterator[Dataset]:
        """Yield all samples in order, here as one chunk."""
        yield self

    def sensor_chunks(self, name: str) -> Iterator[FunctionSamples]:
        """Yield an input in chunks, here as one."""
        yield self.inputs[name]

    def subset(self, index: Tensor) -> Dataset:
        """Keep the samples with these indices ``[n']``."""
        return self.take(index)

    def take(self, index: Tensor) -> Dataset:
        """Keep the samples with these indices ``[n']``."""
        return replace(
            self,
            inputs={name: samples.take(index) for name, samples in self.inputs.items()},
            values={name: value[index] for name, value in self.values.items()},
            points=None if self.points is None else self.points[index],
            error_estimate=None if self.error_estimate is None else self.error_estimate[index],
        )

    def last_along(self, name: str) -> Dataset:
        """Keep only the last position along an axis; the values are on a grid."""
        axis = list(self.axes).index(name)
        axes = {**self.axes, name: self.axes[name][-1:]}
        values = {
            n: v.narrow(1 + axis, len(self.axes[name]) - 1, 1) for n, v in self.values.items()
        }
        return replace(self, axes=axes, values=values)
