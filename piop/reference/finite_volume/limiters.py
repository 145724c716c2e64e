"""Limited slopes of cell means, sharper at the contacts of a gas."""

from __future__ import annotations

import torch
from torch import Tensor


def limited_slopes(values: Tensor, dim: int) -> Tensor:
    """Slopes per cell of all cells but the first and the last along ``dim``.

    The monotonised central limiter: half the difference of the neighbours, at most twice either
    one-sided difference, zero at extrema (B. van Leer, J. Comput. Phys. 23 (1977),
    doi:10.1016/0021-9991(77)90095-X).
    """
    steps = values.diff(dim=dim)
    n = steps.shape[dim] - 1
    back, ahead = steps.narrow(dim, 0, n), steps.narrow(dim, 1, n)
    bound = 2 * torch.minimum(back.abs(), ahead.abs())
    slopes = (0.5 * (back + ahead)).clamp(-bound, bound)
    return slopes.masked_fill(back * ahead <= 0, 0.0)


_SMALLEST = 0.01  # ε: relative jump of density over two cells that counts
_CONTACT = 0.1  # K₀: how small the relative jump of pressure must be beside it
_STEEP = 0.01  # (2π/25)²/6


def contact_slopes(density: Tensor, pressure: Tensor, slopes: Tensor, dim: int) -> Tensor:
    """Slopes of the density, sharper at contacts.

    Args:
        density: Means in m + 4 cells along ``dim``.
        pressure: The same of the pressure.
        slopes: Limited slopes of the density in the m inner cells.
        dim: Along which the slopes are.
    """
    m = slopes.shape[dim]
    rise, push = (
        (f.narrow(dim, 3, m) - f.narrow(dim, 1, m)).abs()
        / torch.minimum(f.narrow(dim, 1, m), f.narrow(dim, 3, m))
        for f in (density, pressure)
    )
    steps = density.diff(dim=dim)
    back, ahead = steps.narrow(dim, 1, m), steps.narrow(dim, 2, m)
    # ρ‴ by the four steps around a cell, ρ′ by the inner two.
    bends = back + ahead - steps.narrow(dim, 0, m) - steps.narrow(dim, 3, m)
    steep = bends * (back + ahead).sign() > 6 * _STEEP * (back + ahead).abs()
    found = steep & (rise > _SMALLEST) & (push <= _CONTACT * rise)
    a, b = back.abs(), ahead.abs()
    size = torch.maximum(torch.minimum(2 * a, b), torch.minimum(a, 2 * b))
    sharp = torch.where(back * ahead > 0, size * back.sign(), 0.0)
    return torch.where(found, sharp, slopes)
