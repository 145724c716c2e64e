"""Values that models, samplers, residuals and solvers pass to each other.

Shape glossary, used in every docstring:

==  =========================================================================
B   functions (instances of the problem) in a batch
M   sensors: points at which an input function is observed
N   query (or collocation) points
d   coordinates an input function depends on; 0 for a scalar input
D   coordinates of a query: time first where there is one, then space
C   channels: unknowns, auxiliary ones last, in the order of the problem
c   channels of an input
S   Taylor streams
E   equations
T   save times
==  =========================================================================

Coordinates are physical (never normalised) everywhere outside a backbone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import torch
from torch import Tensor

from piop.errors import NotSupportedError, UsageError, excerpt
from piop.intervals import Interval

Device = torch.device | str | None
"""Where tensors go; None for where they are."""


def usable_device(device: Device) -> torch.device:
    """Return a device that is there, by default the CPU.

    Raises:
        UsageError: If it is neither a CPU nor a CUDA device, or is not there.
    """
    try:
        found = torch.device("cpu" if device is None else device)
        known = not isinstance(device, int) and found.type in ("cpu", "cuda")
    except (RuntimeError, TypeError, ValueError):
        found, known = torch.device("cpu"), False
    if not known:
        raise UsageError(f"device: {excerpt(device)} is not one of cpu, cuda")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "device: cuda was asked for, but torch sees no CUDA device here "
            f"(torch {torch.__version__}); use --device cpu, or install torch with CUDA"
        )
    count = torch.cuda.device_count() if found.type == "cuda" else 1
    if found.index is not None and found.index >= count:
        raise UsageError(f"device: {excerpt(device)} is not there; the last is {count - 1}")
    return found


def grid_axis(low: float, high: float, count: int, periodic: bool) -> Tensor:
    """Evenly spaced points ``[count]`` float64; a periodic axis leaves its right end out."""
    if periodic:
        return low + (high - low) / count * torch.arange(count, dtype=torch.float64)
    return torch.linspace(low, high, count, dtype=torch.float64)


def tensor_grid(axes: Sequence[Tensor]) -> Tensor:
    """Points of the tensor grid of axes ``[n_1], …, [n_D]``, the last axis fastest: ``[N, D]``."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)


def chunks(count: int, each: int, most: int) -> list[slice]:
    """Cut rows into chunks of bounded memory.

    A graph that is exported has free numbers of samples and queries, and takes all rows at once.

    Args:
        count: Number of rows.
        each: Numbers that a row takes.
        most: Numbers that a chunk takes, unless one row has more.

    Example:
        >>> chunks(5, 10, 20)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    if torch.compiler.is_exporting():
        return [slice(None)]
    size = max(1, most // max(1, each))
    return [slice(first, first + size) for first in range(0, count, size)]


def shared_points(points: Tensor, batch: int) -> Tensor:
    """Repeat points ``[M, d]`` that all samples share: ``[B, M, d]``, without copies.

    In a graph that is exported they stay one sample, so that what follows from them is constant.
    """
    return points.expand(1 if torch.compiler.is_exporting() else batch, -1, -1)


def distinct_points(points: Tensor) -> Tensor:
    """Return points ``[B, M, d]``, or ``[1, M, d]`` where :func:`shared_points` repeats them."""
    return points[:1] if points.stride(0) == 0 else points


@dataclass(frozen=True)
class FunctionSamples:
    """Input functions observed at sensors.

    Attributes:
        points: Sensor coordinates ``[B, M, d]``; a scalar input has ``M = 1, d = 0``.
        values: Values there ``[B, M, c]``.
        mask: True where a sensor is real ``[B, M]``; None when all are.
    """

    points: Tensor
    values: Tensor
    mask: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> FunctionSamples:
        """Move points and values as ``Tensor.to`` does (a mask keeps its dtype)."""
        points = self.distinct_points.to(*args, **kwargs).expand_as(self.points)
        mask = None if self.mask is None else self.mask.to(points.device)
        return FunctionSamples(points, self.values.to(*args, **kwargs), mask)

    @property
    def distinct_points(self) -> Tensor:
        """The points ``[B, M, d]``, or ``[1, M, d]`` where all functions share them."""
        return distinct_points(self.points)

    @property
    def fewest_sensors(self) -> int:
        """The number of sensors that every function has at least."""
        return self.points.shape[1] if self.mask is None else int(self.mask.sum(1).min())

    def take(self, index: Tensor | slice) -> FunctionSamples:
        """Keep the functions with these indices of the batch."""
        mask = None if self.mask is None else self.mask[index]
        return FunctionSamples(self.points[index], self.values[index], mask)

    def repeat(self, batch: int) -> FunctionSamples:
        """Use one function for each sample of a batch, without copies."""
        mask = None if self.mask is None else self.mask.expand(batch, -1)
        points, values = self.points.expand(batch, -1, -1), self.values.expand(batch, -1, -1)
        return FunctionSamples(points, values, mask)


MAX_PAIRS = 2**22
"""Largest number of distances between points and sensors held at once: bounds memory."""


def squared_periodic_distances(
    to: Tensor, of: Tensor, lengths: Sequence[float], periodic: Sequence[bool]
) -> Tensor:
    """Square the Euclidean distance to the nearest periodic image.

    On a torus the nearest image is nearest along each axis by itself, so the minimum is taken axis
    by axis; images along the axes alone would miss the diagonal ones.

    Args:
        to: ``[B or 1, N, d]``.
        of: ``[B or 1, M, d]``.
        lengths: Of the d axes; each counts as 1 long.
        periodic: For each axis, whether the distance runs over the end.

    Returns:
        ``[B or 1, N, M]``, dimensionless; zeros where d = 0.
    """
    total = to.new_zeros(()).expand(max(len(to), len(of)), to.shape[1], of.shape[1])
    for axis, (length, around) in enumerate(zip(lengths, periodic, strict=True)):
        step = (to[:, :, None, axis] - of[:, None, :, axis]) / length
        total = total + (step - step.round() if around else step) ** 2
    return total


def nearest_sensor_values(
    samples: FunctionSamples, at: Tensor, lengths: Sequence[float], periodic: Sequence[bool]
) -> Tensor:
    """Return the value at the nearest real sensor, distances measured in lengths of the axes.

    Args:
        samples: Sensors and values ``[B, M, c]``.
        at: ``[B or 1, N, d]``.
        lengths: Of the d axes.
        periodic: For each axis, whether the distance runs over the end.

    Returns:
        ``[B, N, c]``.
    """
    points, values, mask = samples.points, samples.values, samples.mask
    found = []
    for chunk in chunks(at.shape[1], values[..., 0].numel(), MAX_PAIRS):
        square = squared_periodic_distances(at[:, chunk], points, lengths, periodic)
        if mask is not None:
            square = torch.where(mask[:, None], square, torch.inf)
        index = square.argmin(-1, keepdim=True).expand(-1, -1, values.shape[-1])
        found.append(values.gather(1, index))
    return torch.cat(found, 1)


class InputFunction(ABC):
    """A batch of B functions of d coordinates, evaluated and differentiated at any points."""

    @property
    @abstractmethod
    def batch(self) -> int:
        """B, the number of functions."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d, the number of coordinates; 0 for scalars."""

    @property
    def given_at(self) -> tuple[Tensor, ...]:
        """Points along each coordinate ``[n_i]`` from each of which to the next it may vary.

        Empty for functions that vary no faster than their distribution says.
        """
        return ()

    @abstractmethod
    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate a partial derivative.

        Args:
            points: ``[B, N, d]`` (or ``[1, N, d]``, shared by all functions).
            order: How often to differentiate along each of the d coordinates; zeros for the value.

        Returns:
            ``[B, N]``.
        """

    def derivatives(self, points: Tensor, orders: Sequence[Sequence[int]]) -> list[Tensor]:
        """Evaluate several derivatives at the same points, as :meth:`derivative` does each.

        Functions whose derivatives have most of their work in common override this.
        """
        return [self.derivative(points, order) for order in orders]

    def __call__(self, points: Tensor) -> Tensor:
        """Evaluate at ``points [B, N, d]``, giving ``[B, N]``."""
        return self.derivative(points, (0,) * self.dimension)

    def enclosure(self, box: Sequence[Interval], order: Sequence[int]) -> Interval:
        """Enclose a derivative on boxes ``[B or 1, N]``, by its values at corners and centres.

        That is right where the function is monotone between those, as one of a series or of splines
        is on boxes shorter than its waves; a function that may vary faster encloses itself.

        Args:
            box: Along each of the d coordinates.
            order: As for :meth:`derivative`.

        Returns:
            ``[B, N]``.
        """
        sides = [(own.low, 0.5 * (own.low + own.high), own.high) for own in box]
        corners = [*product(*((low, high) for low, _, high in sides)), [m for _, m, _ in sides]]
        found = torch.stack([self.derivative(torch.stack([*c], -1), order) for c in corners])
        return Interval(found.amin(0), found.amax(0))

    def on_grid(self, axes: Sequence[Tensor], order: Sequence[int] | None = None) -> Tensor:
        """Evaluate a derivative on the tensor grid of ``axes``: ``[B, n1, …, nd]``."""
        points = tensor_grid(axes) if axes else torch.zeros(1, 0)
        values = self.derivative(points[None], order or (0,) * self.dimension)
        return values.reshape(self.batch, *map(len, axes))

    @abstractmethod
    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch ``[B']``."""

    def combined(self, weights: Tensor) -> Self:
        """Combine the B functions linearly: ``weights [B', B]``, whose rows sum to one.

        Raises:
            NotSupportedError: If this kind of function cannot be combined.
        """
        raise NotSupportedError(f"{type(self).__name__}: has no linear combinations")

    @abstractmethod
    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        """Move to a device or dtype."""
