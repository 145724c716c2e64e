"""Reconstruct functions from sensor values, to evaluate and differentiate them anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, final

import torch
from torch import Tensor

from piop.errors import NotSupportedError
from piop.fields import FunctionSamples, InputFunction
from piop.sampling.collocation import scale_to_box, unit_points
from piop.sampling.distributions import input_axes
from piop.sampling.functions import PiecewiseConstantFunction, ScalarFunction
from piop.sampling.kriging import krige, posterior_variance, variance_at
from piop.sampling.moments import input_statistics, interpolation_prior
from piop.sampling.random import Draws
from piop.spec import distributions as laws

if TYPE_CHECKING:
    from piop.problem import Input, Problem


MAX_PAIRS = 2**22
"""Distances between points and sensors held at once: bounds memory."""


@final
@dataclass(frozen=True)
class NearestFunction(InputFunction):
    """The value at the nearest sensor, distances measured in lengths of the axes.

    Attributes:
        points: ``[B, M, d]``.
        values: ``[B, M]``.
        mask: True where a sensor is real ``[B, M]``, or None.
        lengths: Of the axes ``[d]``.
        periodic: Whether the distance runs over the end, for each axis.
    """

    points: Tensor
    values: Tensor
    mask: Tensor | None
    lengths: tuple[float, ...]
    periodic: tuple[bool, ...]

    @property
    def batch(self) -> int:  # type: ignore[override]
        """B, the number of functions."""
        return len(self.values)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """d, the number of coordinates."""
        return len(self.lengths)

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``points [B or 1, N, d]``: ``[B, N]``; derivatives are zero."""
        if any(order):
            return self.values.new_zeros(self.batch, points.shape[1])
        size = max(1, MAX_PAIRS // self.values.numel())
        pieces = points.split(size, 1)
        return torch.cat([self._at(piece) for piece in pieces], 1)

    def _at(self, points: Tensor) -> Tensor:
        square = self.values.new_zeros(())
        for axis, (length, periodic) in enumerate(zip(self.lengths, self.periodic, strict=True)):
            step = (
                points[..., None, axis].to(self.points) - self.points[:, None, :, axis]
            ) / length
            square = square + (step - step.round() if periodic else step) ** 2
        if self.mask is not None:
            square = torch.where(self.mask[:, None], square, torch.inf)
        return self.values.gather(1, square.argmin(-1))

    def take(self, index: Tensor) -> Self:
        """Keep the functions with these indices of the batch."""
        mask = None if self.mask is None else self.mask[index]
        return replace(self, points=self.points[index], values=self.values[index], mask=mask)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move to a device or dtype."""
        mask = None if self.mask is None else self.mask.to(device)
        points, values = (v.to(device=device, dtype=dtype) for v in (self.points, self.values))
        return replace(self, points=points, values=values, mask=mask)


_QUADRATURE = 128  # points at which the expected error is averaged


def reconstruct(problem: Problem, item: Input, samples: FunctionSamples) -> InputFunction:
    """Interpolate an input from its values at sensors, any number at any places.

    The best linear interpolant under the law's mean and covariance, see
    :mod:`piop.sampling.kriging`; for ``piecewise_constant`` each cell takes the mean of its
    sensors, or that of the law where it has none; for ``from_file`` and smooth expressions a
    Matérn law stands in; where an expression is not smooth, the nearest sensor counts. Functions
    constant in their coordinates, and scalars, take the mean of what is seen.

    Args:
        problem: Whose input it is.
        item: The input.
        samples: One channel; the points' dtype is that of the result, computed in float64.

    Returns:
        B functions.

    Raises:
        DataError: Points or values are not finite.
        NotSupportedError: For the law ``history``.
    """
    axes, law = input_axes(problem, item), item.law
    points, values = samples.points.double(), samples.values[..., 0].double()
    dtype = samples.values.dtype
    if not axes or isinstance(law, laws.SCALAR_LAWS):
        return ScalarFunction(_masked_mean(values, samples.mask).to(dtype), len(axes))
    if isinstance(law, laws.PiecewiseConstant):
        return _cells(problem, item, law, points, values, samples.mask).to(dtype=dtype)
    if item.expression is not None and not item.smooth:
        scale = tuple(a.high - a.low for a in axes)
        periodic = tuple(a.periodic for a in axes)
        return NearestFunction(points, values, samples.mask, scale, periodic).to(dtype=dtype)
    prior = interpolation_prior(problem, item).to(points.device)
    return krige(prior, points, values, samples.mask).to(dtype=dtype)


def expected_reconstruction_error(problem: Problem, item: Input, points: Tensor) -> Tensor:
    """Relative L2 error to expect of :func:`reconstruct` with sensors at these points.

    The root of the mean variance that remains, over that of the mean square of the function. It
    depends on where the sensors are, not on what they see.

    Args:
        problem: Whose input it is.
        item: An input with a law, or a smooth expression, of at least one coordinate.
        points: Sensors ``[B, M, d]``.

    Returns:
        ``[B]`` float64, 0 where the sensors determine the function.

    Raises:
        NotSupportedError: For inputs that are not interpolated by covariance.
    """
    axes, law = input_axes(problem, item), item.law
    rough = item.expression is not None and not item.smooth
    if not axes or rough or isinstance(law, (*laws.SCALAR_LAWS, laws.PiecewiseConstant)):
        raise NotSupportedError(
            f"inputs.{item.name}: an expected error is known for smooth functions only"
        )
    points = points.double()
    prior = interpolation_prior(problem, item).to(points.device)
    draws = Draws(0, 0, torch.zeros(1, dtype=torch.int64, device=points.device))
    unit = unit_points(draws, "expected", _QUADRATURE, len(axes), "sobol")
    at = scale_to_box(unit, [a.low for a in axes], [a.high for a in axes])
    mean = prior.function(prior.mean[None])(at)
    square = (variance_at(prior, at) + mean**2).mean()
    return (posterior_variance(prior, points, at).mean(1) / square).sqrt()


def _masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return values.mean(1)
    return torch.where(mask, values, 0.0).sum(1) / mask.sum(1).clamp_min(1)


def _cells(
    problem: Problem,
    item: Input,
    law: laws.PiecewiseConstant,
    points: Tensor,
    values: Tensor,
    mask: Tensor | None,
) -> PiecewiseConstantFunction:
    """Average the sensors of each cell; the values of other cells say nothing about it."""
    axes = input_axes(problem, item)
    shape = law.per_axis(len(axes))
    mean, _ = input_statistics(problem)[item.name]
    empty = PiecewiseConstantFunction(
        torch.full((len(values), *shape), mean, dtype=torch.float64, device=values.device),
        low=tuple(a.low for a in axes),
        high=tuple(a.high for a in axes),
        periodic=tuple(a.periodic for a in axes),
    )
    cells, flat = empty.cells(points), empty.values.flatten(1)
    real = torch.ones_like(values) if mask is None else mask.to(values)
    count = torch.zeros_like(flat).scatter_add(1, cells, real)
    total = torch.zeros_like(flat).scatter_add(1, cells, torch.where(real > 0, values, 0.0))
    filled = torch.where(count > 0, total / count.clamp_min(1.0), flat)
    return replace(empty, values=filled.reshape(empty.values.shape))
