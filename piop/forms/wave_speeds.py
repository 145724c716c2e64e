"""Wave speeds of conservation laws, and the recognition of gas dynamics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy
from sympy import Dummy, Expr
from sympy.core.function import AppliedUndef

from piop.expression.parse import SYMPY_FAILS
from piop.forms.conservation import ConservationLaw, vanishes

PRESSURE = Dummy("p", real=True)


@dataclass(frozen=True)
class Gas:
    """Which unknown is what. Numbers are positions in the state.

    Attributes:
        density: ρ.
        momenta: m_i, the flux of ρ along axis i.
        energy: E, whose flux is (E + p) m_i/ρ.
        carried: Everything else, with fluxes q m_i/ρ.
        pressure: p of the state, by any equation of state.
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
                energy_of: Any = gas.energy_of and gas.energy_of.xreplace(back)
                return replace(gas, pressure=gas.pressure.xreplace(back), energy_of=energy_of)
    return None


def _complete(
    u: list[Any],
    fluxes: list[list[Any]],
    density: int,
    momenta: tuple[int, ...],
    coordinates: frozenset[Expr],
) -> Gas | None:
    """The gas of a density and momenta, in the symbols u; None where the rest is that of none."""
    rho, axes = u[density], range(len(momenta))
    pressure = sympy.cancel(fluxes[0][momenta[0]] - u[momenta[0]] ** 2 / rho)
    if pressure.atoms(AppliedUndef) or pressure.free_symbols & coordinates:
        return None
    for i in axes:
        for j in axes:
            flux = u[momenta[i]] * u[momenta[j]] / rho + (pressure if i == j else 0)
            if not vanishes(fluxes[i][momenta[j]] - flux):
                return None
    velocity = [u[m] / rho for m in momenta]
    beyond = {  # what each flux holds beside the transport of its unknown
        row: [fluxes[i][row] - u[row] * velocity[i] for i in axes]
        for row in set(range(len(u))) - {density, *momenta}
    }
    energies = [row for row, rest in beyond.items() if not all(map(vanishes, rest))]
    if len(energies) != 1 or not pressure.has(u[energies[0]]):
        return None
    (energy,) = energies
    if not all(vanishes(beyond[energy][i] - pressure * velocity[i]) for i in axes):
        return None
    carried = tuple(row for row in sorted(beyond) if row != energy)
    slope = sympy.cancel(pressure.diff(u[energy]))
    if slope.has(u[energy]) or slope == 0:
        return Gas(density, momenta, energy, carried, pressure, None)
    rest = pressure.xreplace({u[energy]: sympy.S.Zero})
    energy_of = sympy.cancel((PRESSURE - rest) / slope)
    return Gas(density, momenta, energy, carried, pressure, energy_of)


_LARGEST = 5  # unknowns for which the characteristic polynomial is formed

Pairs = tuple[tuple[Expr, Expr], ...]
"""(slower, faster) eigenvalue of each factor of the characteristic polynomial."""


def wave_speeds(law: ConservationLaw, axis: int, gas: Gas | None) -> Pairs | None:
    """Give formulas among which the slowest and the fastest wave speed are.

    One unknown: F′(u). A gas: the two speeds besides its velocity v, from the traces of A and A²,
    λ₊ + λ₋ = tr A − (n − 2)v and λ₊² + λ₋² = tr A² − (n − 2)v², whatever its equation of
    state. Other systems: the characteristic polynomial is factored; its factors must be of degree
    two at most.

    Returns:
        None where that fails, so that eigenvalues must be computed in numbers.
    """
    plain: dict[Any, Any] = {u: Dummy(f"u{i}", real=True) for i, u in enumerate(law.state)}
    back: dict[Any, Any] = {s: u for u, s in plain.items()}
    rows = law.jacobian(axis)
    a: Any = sympy.Matrix([[entry.xreplace(plain) for entry in row] for row in rows])
    velocity: Any = None if gas is None else gas.velocity(law, axis).xreplace(plain)
    try:
        pairs = _formulas(a, velocity)
    except (*SYMPY_FAILS, sympy.PolynomialError):
        return None
    return pairs and tuple((low.xreplace(back), high.xreplace(back)) for low, high in pairs)


def _formulas(a: Any, velocity: Expr | None) -> tuple[tuple[Any, Any], ...] | None:
    n = a.rows
    if n == 1:
        return ((a[0, 0], a[0, 0]),)
    if velocity is not None or n == 2:
        v = sympy.S.Zero if velocity is None else velocity
        total = sympy.cancel(a.trace() - (n - 2) * v)
        squares = sympy.cancel((a * a).trace() - (n - 2) * v**2)
        return (_pair(total / 2, sympy.cancel(2 * squares - total**2) / 4),)
    return _factored(a) if n <= _LARGEST else None


def _factored(a: Any) -> tuple[tuple[Any, Any], ...] | None:
    speed = Dummy("speed", real=True)
    whole = sympy.together((speed * sympy.eye(a.rows) - a).det(method="berkowitz"))
    pairs = []
    for factor, _ in sympy.factor_list(sympy.fraction(sympy.cancel(whole))[0])[1]:
        if not factor.has(speed):
            continue
        leading, *others = sympy.Poly(factor, speed).all_coeffs()
        if len(others) > 2:
            return None
        middle = -others[0] / leading
        if len(others) == 1:
            pairs.append((sympy.cancel(middle),) * 2)
        else:
            discriminant = sympy.cancel(middle**2 / 4 - others[1] / leading)
            pairs.append(_pair(sympy.cancel(middle / 2), discriminant))
    return tuple(pairs) or None


def _pair(mean: Expr, discriminant: Expr) -> tuple[Expr, Expr]:
    reach = sympy.sqrt(sympy.factor(discriminant))
    return mean - reach, mean + reach
