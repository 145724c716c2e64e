"""Interpolants of values on a tensor grid: waves along periodic axes, splines along others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from piop.datasets.axes import SLACK
from piop.errors import DataError
from piop.sampling.basis import Basis, SplineBasis, TrigonometricBasis
from piop.sampling.functions import GridFunction

if TYPE_CHECKING:
    from piop.problem import Coordinate


def interpolate(
    path: str,
    values: Tensor,
    ticks: Sequence[np.ndarray],
    axes: Sequence[Coordinate],
    smooth: bool = True,
) -> GridFunction:
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
    for i, (axis, positions) in enumerate(zip(axes, ticks, strict=True)):
        at = torch.from_numpy(np.ascontiguousarray(positions))
        if axis.periodic:
            values, at = _one_period(path, values, at, i + 1, axis)
            basis: Basis = TrigonometricBasis.periodic(
                torch.arange(len(at) // 2 + 1),
                float(at[0]),
                float(at[0]) + _length(axis),
                unit=False,
            )
            transform = _analysis(len(at))
        else:
            basis = spline_basis(at, 3 if smooth and len(at) > 3 else 1)
            transform = torch.linalg.inv(basis.table(at))
        values = (values.movedim(i + 1, -1) @ transform.mT).movedim(-1, i + 1)
        bases.append(basis)
    return GridFunction(values.contiguous(), tuple(bases))


def spline_basis(at: Tensor, degree: int) -> SplineBasis:
    """Splines through points ``[n]``: broken lines, or cubics with not-a-knot ends."""
    if len(at) == 1:
        return SplineBasis(torch.cat((at, at)), 0)
    inner = at[1:-1] if degree == 1 else at[2:-2]
    ends = degree + 1
    return SplineBasis(torch.cat((at[:1].expand(ends), inner, at[-1:].expand(ends))), degree)


def _analysis(count: int) -> Tensor:
    """Matrix from values at evenly spaced points of a period to cosines, then sines ``[K, n]``."""
    half = count // 2
    turns = torch.outer(torch.arange(half + 1), torch.arange(count)) % count
    angle = turns.double() * (2 * math.pi / count)
    weight = torch.full((half + 1, 1), 2.0 / count, dtype=torch.float64)
    weight[0] = 1 / count
    if count % 2 == 0:  # the highest cosine is seen in full; its sine vanishes at the points
        weight[half] = 1 / count
    return torch.cat((weight * angle.cos(), 2 / count * angle[1:].sin()))


def _length(axis: Coordinate) -> float:
    return axis.high - axis.low


def _one_period(
    path: str, values: Tensor, at: Tensor, dim: int, axis: Coordinate
) -> tuple[Tensor, Tensor]:
    """Check that points cover a period evenly, and drop a right end that repeats the left one."""
    length, count = _length(axis), len(at)
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
