"""Approximate Riemann solvers: the flux through a face between two states.

E. F. Toro, Riemann Solvers and Numerical Methods for Fluid Dynamics, 3rd ed. 2009, ch. 10
(doi:10.1007/b79761). States and fluxes of both sides are ``[2, B, n, *sizes]``, the low side first;
bounds of the wave speeds ``[B, *sizes]``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def hll(u: Tensor, f: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Two waves, after Harten, Lax and van Leer (Toro, eq. 10.21); any law.

    With equal and opposite speeds it is Rusanov's flux.

    Args:
        u: States.
        f: Their fluxes.
        low: A lower bound of the wave speeds.
        high: An upper bound.
    """
    a, b = low.clamp(max=0)[:, None], high.clamp(min=0)[:, None]
    still = b - a <= 0
    flux = (b * f[0] - a * f[1] + a * b * (u[1] - u[0])) / (b - a).masked_fill(still, 1.0)
    return torch.where(still, 0.5 * (f[0] + f[1]), flux)


def hllc(
    u: Tensor, f: Tensor, p: Tensor, low: Tensor, high: Tensor, rows: tuple[int, int, int]
) -> Tensor:
    """Three waves, the contact among them, for a gas of any pressure law (Toro, sec. 10.4).

    Between the outer waves everything moves with the contact's speed, and the pressure is that of
    the jump conditions across the nearer outer wave, which also give the energy there.

    Args:
        u: States.
        f: Their fluxes.
        p: Their pressures ``[2, B, *sizes]``.
        low: A lower bound of the wave speeds.
        high: An upper bound.
        rows: Positions of density, normal momentum and energy in the state.
    """
    density, momentum, energy = rows
    outer = torch.stack([low, high])
    v = u[:, :, momentum] / u[:, :, density]
    ahead = outer - v
    mass = u[:, :, density] * ahead
    push = p - mass * v
    contact = (push[1] - push[0]) / (mass[0] - mass[1])  # eq. 10.37
    pushed = p + mass * (contact - v)  # eq. 10.36, the same on both sides
    gap = outer - contact
    star = u * (ahead / gap)[:, :, None]  # eq. 10.39
    star[:, :, momentum] = star[:, :, density] * contact
    star[:, :, energy] = (ahead * u[:, :, energy] - p * v + pushed * contact) / gap
    # Behind an outer wave that has not passed the face, the state between; else the state itself.
    behind = outer.clone()
    behind[0].clamp_(max=0)
    behind[1].clamp_(min=0)
    flux = f + behind[:, :, None] * (star - u)
    return torch.where((contact >= 0)[:, None], flux[0], flux[1])
