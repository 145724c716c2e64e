"""How many waves or polynomials resolve solutions that are given on a grid."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from piop.residual.lattice import lobatto_nodes


def power_by_waves(values: Tensor, norm: float = math.inf) -> Tensor:
    """Add up the power of waves by the size of their wave vectors, in periods over an axis ``[K]``.

    Args:
        values: ``[B, T, n, …]``, as many points along every axis.
        norm: Of a wave vector: infinity for the most periods along any axis, 2 for its length,
            which is rounded up.
    """
    axes = tuple(range(2, values.ndim))
    power = torch.fft.fftn(values.double(), dim=axes).abs().square()
    numbers = (torch.fft.fftfreq(values.shape[-1]) * values.shape[-1]).abs().round().long()
    grids = torch.meshgrid(*[numbers] * len(axes), indexing="ij")
    lengths = torch.linalg.vector_norm(torch.stack(grids).double(), norm, dim=0)
    radius = (lengths - 1e-9).ceil().long().flatten()
    power = power.flatten(2).sum((0, 1))
    return power.new_zeros(int(radius.max()) + 1).index_add_(0, radius, power)


def waves_needed(values: Tensor, unresolved: float) -> int:
    """Return the periods along an axis of the waves that resolve values ``[B, T, n1, …]``."""
    power = power_by_waves(values)
    power[0] = 0.0  # the mean, which needs no points
    return int((rest_beyond(power) > unresolved).sum())


def degree_needed(values: Tensor, unresolved: float) -> int:
    """Return the degree of the polynomials that resolve values at nodes ``[B, W, nodes, …]``."""
    count = values.shape[2]
    nodes = 2 * lobatto_nodes(count).numpy() - 1
    transform = np.linalg.inv(np.polynomial.legendre.legvander(nodes, count - 1))
    away = values.double() - values.double().mean()
    coefficients = torch.einsum("ij,bwj...->ibw...", torch.from_numpy(transform), away)
    power = coefficients.square().flatten(1).mean(1) / (torch.arange(count) + 0.5)
    return int((rest_beyond(power) > unresolved).sum())


def rest_beyond(power: Tensor) -> Tensor:
    """Return the root of what lies beyond each of some parts of a sum, as a fraction of it."""
    rest = power.flip(0).cumsum(0).flip(0)
    return (torch.cat([rest[1:], rest.new_zeros(1)]) / rest[0].clamp(min=1e-300)).sqrt()


def interpolate_even(values: Tensor, places: Tensor, axis: int) -> Tensor:
    """Interpolate by cubic splines from even places, both ends among them, to fractions ``[n]``."""
    from scipy.interpolate import CubicSpline  # slow to import, and few runs need it

    even = np.linspace(0.0, 1.0, values.shape[axis])
    spline = CubicSpline(even, values.double().cpu().numpy(), axis=axis)
    return torch.from_numpy(spline(places.numpy()))
