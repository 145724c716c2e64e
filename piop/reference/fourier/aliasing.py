"""What the points of a grid make of data with waves shorter than twice their distance."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from piop.reference.features import Features, KnownValues

_SHORTEST = 0.75
"""Part of the highest wave number of a grid from which on its waves tell of shorter ones: beside it
waves and those that are taken for them may cancel."""
_TIMES = 5
"""Times at which data that move are looked at."""
_AT_A_TIME = 2**22
"""Points."""
_ROUNDING = 1e-13


def aliased_part(features: Features, axes: Mapping[str, Tensor]) -> Tensor:
    """Bound what waves shorter than a grid has add to each that it has.

    They are taken for longer ones. In sources and coefficients a solution does not show them by its
    own spectrum, which decays faster: after a kink as k⁻⁴ where the source does as k⁻². The sum of
    k⁻² over the waves that are taken for one is 0.82 times its term at the highest wave number, and
    the largest of the waves looked at is at least 1.1 times that.

    Args:
        features: The data; those that solutions start from are left out.
        axes: Points of the grid along each axis of space.

    Returns:
        Relative to the data ``[B]``.
    """
    worst = torch.zeros(features.sources.batch, dtype=torch.float64, device=features.sources.device)
    for values in features.data:
        if not values.initial and values.whole is None and any(c.name in axes for c in values.axes):
            worst = torch.maximum(worst, _shortest_waves(values, axes))
    return torch.where(worst > _ROUNDING, worst, 0.0)


def _shortest_waves(values: KnownValues, axes: Mapping[str, Tensor]) -> Tensor:
    """Amplitude of the shortest waves relative to the data ``[B or 1]``."""
    f64 = {"dtype": torch.float64, "device": values.device}
    at = [
        axes.get(c.name, torch.linspace(float(c.low), float(c.high), _TIMES, **f64))
        for c in values.axes
    ]
    dims = [1 + i for i, c in enumerate(values.axes) if c.name in axes]
    high = torch.zeros([len(x) for x in at], dtype=torch.bool, device=values.device)
    for dim in dims:
        count = high.shape[dim - 1]
        waves = torch.fft.fftfreq(count, 1 / count, **f64).abs() >= _SHORTEST * (count // 2)
        high |= waves.reshape(-1, *[1] * (high.ndim - dim))
    parts = []
    every = torch.arange(values.batch, device=values.device)
    for samples in every.split(max(1, _AT_A_TIME // high.numel())):
        found = values.function.take(samples).on_grid(at).nan_to_num()
        spectrum = torch.fft.fftn(found, dim=dims, norm="forward").abs()
        size = found.square().flatten(1).mean(1).sqrt().clamp_min(1e-300)
        parts.append((spectrum * high).flatten(1).amax(1) / size)
    return torch.cat(parts)
