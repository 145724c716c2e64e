"""Exact solutions of conservation laws, in NumPy alone; and the problems they belong to."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from piop.problem import Problem

GAMMA = 1.4
EULER = {
    "parameters": {"gamma": GAMMA},
    "unknowns": ["rho", "m", "E"],
    "definitions": {"p": "(gamma - 1)*(E - m**2/(2*rho))"},
    "equations": [
        "dt(rho) + dx(m) = 0",
        "dt(m) + d(m**2/rho + p, x) = 0",
        "dt(E) + d((E + p)*m/rho, x) = 0",
    ],
}
EULER_2D = {
    "parameters": {"gamma": GAMMA},
    "unknowns": ["rho", "m", "n", "E"],
    "definitions": {"p": "(gamma - 1)*(E - (m**2 + n**2)/(2*rho))"},
    "equations": [
        "dt(rho) + div((m, n)) = 0",
        "dt(m) + div((m**2/rho + p, m*n/rho)) = 0",
        "dt(n) + div((m*n/rho, n**2/rho + p)) = 0",
        "dt(E) + div(((E + p)*m/rho, (E + p)*n/rho)) = 0",
    ],
}


def energy(rho, u, p):
    """Total energy of an ideal gas."""
    return p / (GAMMA - 1) + rho * u**2 / 2


def law(equations="dt(u) + d(u**2/2, x) = 0", **words):
    """A problem from a few words: one unknown u on [0, 1] until 1 if not told otherwise."""
    return Problem(
        **{
            "name": "law",
            "time": {"t": [0, 1]},
            "space": {"x": [0, 1]},
            "unknowns": ["u"],
            "equations": [equations] if isinstance(equations, str) else equations,
            "initial": {"u": "sin(2*pi*x)"},
            "boundary": {"x": "periodic"},
            "save": {"t": 3, "x": 64},
        }
        | words
    )


def tube(left, right, place, end, space=(0, 1), points=129, **words):
    """A gas in two states (ρ, u, p), left and right of ``place``."""
    states = [(r, r * u, energy(r, u, p)) for r, u, p in (left, right)]
    jump = {
        n: f"where(x < {place}, {a!r}, {b!r})"
        for n, a, b in zip(EULER["unknowns"], *states, strict=True)
    }
    return Problem(
        **EULER
        | {
            "name": "tube",
            "time": {"t": [0, end]},
            "space": {"x": list(space)},
            "initial": jump,
            "boundary": {"x": "outflow"},
            "save": {"t": 2, "x": points},
        }
        | words
    )


def star(left, right):
    """Pressure and velocity between the waves of a Riemann problem (Toro 2009, sec. 4.2)."""

    def drop(p, state):
        rho, _, p_k = state
        if p > p_k:
            a, b = 2 / ((GAMMA + 1) * rho), (GAMMA - 1) / (GAMMA + 1) * p_k
            return (p - p_k) * np.sqrt(a / (p + b))
        power = (GAMMA - 1) / (2 * GAMMA)
        return 2 * np.sqrt(GAMMA * p_k / rho) / (GAMMA - 1) * ((p / p_k) ** power - 1)

    p = brentq(
        lambda p: drop(p, left) + drop(p, right) + right[1] - left[1], 1e-14, 1e6, xtol=1e-14
    )
    return p, (left[1] + right[1] + drop(p, right) - drop(p, left)) / 2


def riemann(speed, left, right):
    """Exact ρ, u, p at x/t (Toro 2009, sec. 4.5), each in the shape of ``speed``."""
    p, u = star(left, right)
    before = _side(speed, left, p, u)
    rho, v, q = _side(-speed, (right[0], -right[1], right[2]), p, -u)
    after = rho, -v, q
    return tuple(np.where(speed < u, a, b) for a, b in zip(before, after, strict=True))


def _side(s, state, p, u):
    """What lies left of the contact, for speeds s."""
    rho_k, u_k, p_k = state
    c = np.sqrt(GAMMA * p_k / rho_k)
    g = (GAMMA - 1) / (GAMMA + 1)
    if p > p_k:
        shock = u_k - c * np.sqrt((GAMMA + 1) / (2 * GAMMA) * p / p_k + (GAMMA - 1) / (2 * GAMMA))
        rho = rho_k * (p / p_k + g) / (g * p / p_k + 1)
        return tuple(np.where(s < shock, a, b) for a, b in ((rho_k, rho), (u_k, u), (p_k, p)))
    rho, head = rho_k * (p / p_k) ** (1 / GAMMA), u_k - c
    tail = u - c * (p / p_k) ** ((GAMMA - 1) / (2 * GAMMA))
    fan = np.maximum(2 / (GAMMA + 1) + g / c * (u_k - s), 1e-300)
    inside = (
        rho_k * fan ** (2 / (GAMMA - 1)),
        2 / (GAMMA + 1) * (c + (GAMMA - 1) / 2 * u_k + s),
        p_k * fan ** (2 * GAMMA / (GAMMA - 1)),
    )
    return tuple(
        np.where(s < head, a, np.where(s > tail, b, f))
        for a, b, f in zip((rho_k, u_k, p_k), (rho, u, p), inside, strict=True)
    )


def tube_means(points, width, left, right, place, time, space, parts=400):
    """Means of ρ, m, E over windows around points, cut at the ends: ``[3, points]``."""
    low, high = np.maximum(points - width / 2, space[0]), np.minimum(points + width / 2, space[1])
    x = low[:, None] + (high - low)[:, None] * (np.arange(parts) + 0.5) / parts
    rho, u, p = riemann((x - place) / time, left, right)
    return np.stack([rho, rho * u, energy(rho, u, p)]).mean(-1)


def lax_oleinik_means(value, antiderivative, points, width, time, length, count=4001):
    """Means of the entropy solution of u_t + (u²/2)_x = 0 over windows.

    u = ∂Φ/∂x, Φ(x, t) = min over y of ∫₀^y u0 + (x − y)²/(2t) (P. D. Lax, Comm. Pure Appl. Math. 10
    (1957), doi:10.1002/cpa.3160100406), so a mean is a difference of Φ: no shock has to be found.
    ``value`` and ``antiderivative`` are those of u0, of zero mean.
    """
    reach = time * np.abs(value(np.linspace(0, length, 2001))).max() * 1.05

    def potential(x):
        y = x[:, None] + reach * np.linspace(-1, 1, count)
        cost = antiderivative(y) + (x[:, None] - y) ** 2 / (2 * time)
        rows = np.arange(len(x))
        place = y[rows, cost.argmin(1)]
        best = cost.min(1)
        for _ in range(6):  # Newton from the best of the grid
            slope = value(place) - (x - place) / time
            bend = (value(place + 1e-6) - value(place - 1e-6)) / 2e-6 + 1 / time
            step = np.where(np.abs(bend) > 1e-9, slope / bend, 0)
            place = place - np.clip(step, -2 * reach / count, 2 * reach / count)
        refined = antiderivative(place) + (x - place) ** 2 / (2 * time)
        return np.minimum(best, refined)

    return (potential(points + width / 2) - potential(points - width / 2)) / width


def relative(found, exact):
    """‖error‖₂/‖exact‖₂ of arrays of the same shape."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
