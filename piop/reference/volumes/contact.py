"""Keep contacts of a gas sharp: under a smoother limiter they go on smearing with time.

Where density jumps and pressure does not, the slope of the density is that of the superbee limiter
(P. L. Roe, Lectures in Applied Mathematics 22 (1985) 163), which holds a jump within a few cells.
Where that is, is decided by the quantities of P. Colella and P. R. Woodward, J. Comput. Phys. 54
(1984), eqs. 1.16 and 3.2 (doi:10.1016/0021-9991(84)90143-8): enough density, hardly any pressure,
and a steepness −h² ρ‴/6ρ′ that a wave of more than 25 cells does not have. Ours is their least
steepness: with theirs a contact that starts beside other waves is not found again.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
