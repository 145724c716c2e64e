"""Whether a conservation law is gas dynamics: mass, momentum and energy under a pressure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Dummy, Expr
from sympy.core.function import AppliedUndef

from piop.problem.conservation import ConservationLaw, vanishes

PRESSURE = Dummy("p", real=True)


@dataclass(frozen=True)
class Gas:
    """Which unknown is what. Numbers are positions in the state.

    Attributes:
        density: ρ.
        momenta: m_i, the flux of ρ along axis i.
        energy: E, whose flux is (E + p) m_i/ρ.
        carried: Everything else, with fluxes q m_i/ρ.
        pressure: p of the state, by any law.
        energy_of: E of ρ, m, the rest and ``PRESSURE``; None where p is not linear in E.
    """

    density: int
    momenta: tuple[int, ...]
    energy: int
    carried: tuple[int, ...]
    pressure: Expr
    energy_of: Expr | None

    def velocity(self, law: ConservationLaw, axis: int) -> Expr:
        """m_i/ρ."""
        return law.state[self.momenta[axis]] / law.state[self.density]


def find_gas(law: ConservationLaw) -> Gas | None:
    """Find mass, momenta, energy and a pressure that make the fluxes those of a gas.

    The fluxes of m_j are m_i m_j/ρ + δ_ij p, that of E is (E + p) m_i/ρ, with one p that depends on
    the state and on numbers alone. Names play no part.

    Returns:
        None where there are none.
    """
    plain: dict[Any, Any] = {u: Dummy(f"u{i}", real=True) for i, u in enumerate(law.state)}
    back: Any = {s: u for u, s in plain.items()}
    u = list(plain.values())
    fluxes: list[list[Any]] = [[f.xreplace(plain) for f in row] for row in law.fluxes]
    for density in range(len(u)):
        flows = [row[density] for row in fluxes]
        if len(set(flows)) == len(flows) and all(f in u and f != u[density] for f in flows):
            momenta = tuple(u.index(f) for f in flows)
            gas = _complete(u, fluxes, density, momenta, law.coordinates)
            if gas is not None:
                pressure, energy, energy_of = gas
                rest = {density, *momenta, energy}
                carried = tuple(i for i in range(len(u)) if i not in rest)
                formulas: list[Any] = [
                    pressure.xreplace(back),
                    energy_of and energy_of.xreplace(back),
                ]
                return Gas(density, momenta, energy, carried, *formulas)
    return None


def _complete(
    u: list[Dummy],
    fluxes: list[list[Expr]],
    density: int,
    momenta: tuple[int, ...],
    coordinates: frozenset[Expr],
) -> tuple[Expr, int, Expr | None] | None:
    """The pressure, the position of the energy, and the energy as a function of pressure."""
    rho, axes = u[density], range(len(momenta))
    pressure = sympy.cancel(fluxes[0][momenta[0]] - u[momenta[0]] ** 2 / rho)
    if pressure.atoms(AppliedUndef) or pressure.free_symbols & coordinates:
        return None
    for i in axes:
        for j in axes:
            flux = u[momenta[i]] * u[momenta[j]] / rho + (pressure if i == j else 0)
            if not vanishes(fluxes[i][momenta[j]] - flux):
                return None
    energy = None
    for row in set(range(len(u))) - {density, *momenta}:
        carried = [u[row] * u[momenta[i]] / rho for i in axes]
        if all(vanishes(fluxes[i][row] - carried[i]) for i in axes):
            continue
        work = [pressure * u[momenta[i]] / rho for i in axes]
        if energy is not None or not all(
            vanishes(fluxes[i][row] - carried[i] - work[i]) for i in axes
        ):
            return None
        energy = row
    if energy is None or not pressure.has(u[energy]):
        return None
    slope = sympy.cancel(pressure.diff(u[energy]))
    if slope.has(u[energy]) or slope == 0:
        return pressure, energy, None
    rest = pressure.xreplace({u[energy]: sympy.S.Zero})
    return pressure, energy, sympy.cancel((PRESSURE - rest) / slope)
