"""Fluxes along one axis: limited slopes, wave speeds, Riemann solvers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from piop.forms.conservation import ConservationLaw
from piop.forms.differentiate import partial
from piop.forms.wave_speeds import PRESSURE, Gas, wave_speeds
from piop.lowering import compile_expressions


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


Values = Sequence[Tensor]

_INSIDE = 7  # states between left and right where the speed of one nonlinear unknown is evaluated


class Flow:
    """Flux through faces along an axis.

    States are ``[…, n, *sizes]``, such as pairs ``[2, B, n, *sizes]`` of both sides of faces. Where
    a state is not admissible (complex wave speeds, no density) speeds are NaN.

    Args:
        law: The law.
        axis: Of space.
        gas: Its reading as gas dynamics, if it is.
        coefficients: Atoms besides the state, in the order in which their values come.
    """

    def __init__(
        self, law: ConservationLaw, axis: int, gas: Gas | None, coefficients: tuple[Any, ...]
    ) -> None:
        self.gas, self.axis, self.rank = gas, axis, len(law.fluxes)
        atoms = (*law.state, *coefficients)
        pressure = () if gas is None else (gas.pressure,)
        self._fluxes = compile_expressions((*law.fluxes[axis], *pressure), atoms)
        pairs = wave_speeds(law, axis, gas)
        jacobian = tuple(entry for row in law.jacobian(axis) for entry in row)
        self.inside = _INSIDE if _bends(law, axis) else 0
        self.numeric = pairs is None
        formulas = jacobian if pairs is None else tuple(s for pair in pairs for s in pair)
        self._speeds = compile_expressions(formulas, atoms)

    def fluxes(self, u: Tensor, coefficients: Values) -> tuple[Tensor, Tensor | None]:
        """Fluxes ``[…, n, *sizes]`` and, for a gas, its pressure ``[…, *sizes]``."""
        parts = u.unbind(-self.rank - 1)
        values = [v.expand_as(parts[0]) for v in self._fluxes([*parts, *coefficients])]
        pressure = values.pop() if self.gas is not None else None
        return torch.stack(values, -self.rank - 1), pressure

    def speeds(self, u: Tensor, coefficients: Values) -> tuple[Tensor, Tensor]:
        """Slowest and fastest wave ``[…, *sizes]``."""
        parts = u.unbind(-self.rank - 1)
        values = [v.expand_as(parts[0]) for v in self._speeds([*parts, *coefficients])]
        if self.numeric:
            low, high = _extremes(values, len(parts))
        else:
            low, high = reduce(torch.minimum, values[::2]), reduce(torch.maximum, values[1::2])
        if self.gas is not None:
            low = low.masked_fill(parts[self.gas.density] <= 0, torch.nan)
        return low, high

    def bounds(
        self, u: Tensor, speeds: tuple[Tensor, Tensor], coefficients: Values
    ) -> tuple[Tensor, Tensor]:
        """Slowest and fastest wave ``[B, *sizes]`` of two states and between them.

        Args:
            u: States on both sides ``[2, B, n, *sizes]``.
            speeds: Their slowest and fastest waves ``[2, B, *sizes]``.
            coefficients: Values at the faces.
        """
        slowest, fastest = torch.minimum(*speeds[0]), torch.maximum(*speeds[1])
        for i in range(self.inside):
            slower, faster = self.speeds(
                torch.lerp(u[0], u[1], (i + 1) / (self.inside + 1)), coefficients
            )
            slowest, fastest = torch.fmin(slowest, slower), torch.fmax(fastest, faster)
        return slowest, fastest

    def interface(self, u: Tensor, speeds: tuple[Tensor, Tensor], coefficients: Values) -> Tensor:
        """Flux ``[B, n, *sizes]`` through faces, by an approximate Riemann solver.

        Args:
            u: States on both sides ``[2, B, n, *sizes]``.
            speeds: Their slowest and fastest waves ``[2, B, *sizes]``.
            coefficients: Values at the faces.
        """
        low, high = self.bounds(u, speeds, coefficients)
        f, p = self.fluxes(u, coefficients)
        if self.gas is None or p is None:
            return hll(u, f, low, high)
        rows = (self.gas.density, self.gas.momenta[self.axis], self.gas.energy)
        return hllc(u, f, p, low, high, rows)


def _bends(law: ConservationLaw, axis: int) -> bool:
    """Whether the speed of a single unknown may be extreme between two states: F″ not constant."""
    jacobian, (u, *others) = law.jacobian(axis), law.state
    return not others and partial(jacobian[0][0], u).has(u)


def _extremes(jacobian: Sequence[Tensor], n: int) -> tuple[Tensor, Tensor]:
    """Extreme eigenvalues of n × n matrices given by rows; NaN where they are complex."""
    matrix = torch.stack(list(jacobian), -1).unflatten(-1, (n, n))
    finite = torch.isfinite(matrix).all(-1).all(-1)
    values = torch.linalg.eigvals(matrix.where(finite[..., None, None], torch.zeros_like(matrix)))
    size = values.abs().amax(-1)
    real = finite & (values.imag.abs().amax(-1) <= 1e-6 * size)
    speeds = values.real.masked_fill(~real[..., None], torch.nan)
    return speeds.amin(-1), speeds.amax(-1)


class Variables:
    """Density, velocities, pressure and mass fractions of a gas; of other laws the state itself.

    Limited slopes of these keep velocity and pressure smooth across a contact.
    """

    def __init__(self, law: ConservationLaw, gas: Gas | None, scalars: tuple[Any, ...]) -> None:
        self.gas: Gas | None = None
        self.rank = len(law.fluxes)
        if gas is None or gas.energy_of is None:
            return
        self.gas, atoms = gas, (*law.state, *scalars)
        self.per_mass = [*gas.momenta, *gas.carried]
        self._pressure = compile_expressions((gas.pressure,), atoms)
        self._energy = compile_expressions((gas.energy_of,), (*atoms, PRESSURE))

    def of(self, u: Tensor, scalars: Values) -> Tensor:
        """From the state ``[…, n, *sizes]``."""
        if self.gas is None:
            return u
        parts = list(u.unbind(-self.rank - 1))
        pressure = self._pressure([*parts, *scalars])[0]
        for row in self.per_mass:
            parts[row] = parts[row] / parts[self.gas.density]
        parts[self.gas.energy] = pressure
        return torch.stack(parts, -self.rank - 1)

    def back(self, w: Tensor, scalars: Values) -> Tensor:
        """To the state."""
        if self.gas is None:
            return w
        parts = list(w.unbind(-self.rank - 1))
        for row in self.per_mass:
            parts[row] = parts[row] * parts[self.gas.density]
        pressure = parts[self.gas.energy]
        parts[self.gas.energy] = self._energy([*parts, *scalars, pressure])[0]
        return torch.stack(parts, -self.rank - 1)


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
