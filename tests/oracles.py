"""Independent truths: exact solutions and plain integrators that share no code with piop.

Everything here is NumPy and SciPy in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

Array = np.ndarray


def burgers_cole_hopf(
    antiderivative: Callable[[Array], Array], nu: float, x: Array, t: float, points: int = 20_000
) -> Array:
    """Burgers' u_t + u u_x = ν u_xx by quadrature of the Cole–Hopf formula with log-sum-exp.

    u = ∫ (x − y)/t e^{−H/2ν} dy / ∫ e^{−H/2ν} dy, H = ∫₀^y u0 + (x − y)²/(2t)
    (J. D. Cole, Quart. Appl. Math. 9 (1951), doi:10.1090/qam/42889). The trapezoidal rule converges
    exponentially on the Gaussian-decaying integrand.
    """
    probe = antiderivative(np.linspace(-50, 50, 5001))
    reach = np.sqrt(4 * nu * t * ((probe.max() - probe.min()) / (2 * nu) + 45))
    offsets = np.linspace(-reach, reach, points)
    out = np.empty_like(x)
    for i, centre in enumerate(x):
        y = centre - offsets
        exponent = -(antiderivative(y) + offsets**2 / (2 * t)) / (2 * nu)
        weight = np.exp(exponent - exponent.max())
        out[i] = (offsets / t * weight).sum() / weight.sum()
    return out


def sine_series(amplitudes: Array, wavenumbers: Array, phases: Array, length: float) -> tuple:
    """(f, ∫f) of f(x) = Σ A sin(2πlx/L + φ), with ∫f a periodic antiderivative."""

    def value(x: Array) -> Array:
        angle = 2 * np.pi * np.multiply.outer(np.asarray(x), wavenumbers) / length + phases
        return (amplitudes * np.sin(angle)).sum(-1)

    def antiderivative(x: Array) -> Array:
        k = 2 * np.pi * wavenumbers / length
        angle = np.multiply.outer(np.asarray(x), k) + phases
        return -(amplitudes / k * np.cos(angle)).sum(-1)

    return value, antiderivative


def kdv_soliton(x: Array, t: float, speed: float, centre: float, length: float) -> Array:
    """Soliton of u_t + 6 u u_x + u_xxx = 0 moving to the right on a long periodic interval."""
    place = (x - speed * t - centre + length / 2) % length - length / 2
    return speed / 2 / np.cosh(np.sqrt(speed) / 2 * place) ** 2


def kdv_two_solitons(x: Array, t: float, k1: float, k2: float, x1: float, x2: float) -> Array:
    """Two solitons of u_t + 6 u u_x + u_xxx = 0 on the line: u = 2 ∂²ₓ log F (R. Hirota, 1971).

    F = 1 + e^{θ1} + e^{θ2} + A e^{θ1+θ2}, θ = k(x − x0) − k³t, A = ((k1 − k2)/(k1 + k2))²
    (doi:10.1103/PhysRevLett.27.1192). Terms are scaled by the largest so that nothing overflows.
    """
    th1, th2 = k1 * (x - x1) - k1**3 * t, k2 * (x - x2) - k2**3 * t
    a = ((k1 - k2) / (k1 + k2)) ** 2
    shift = np.maximum.reduce([np.zeros_like(x), th1, th2, th1 + th2])
    terms = [
        np.exp(-shift),
        np.exp(th1 - shift),
        np.exp(th2 - shift),
        a * np.exp(th1 + th2 - shift),
    ]
    slopes = [0.0, k1, k2, k1 + k2]
    f = sum(terms)
    f1 = sum(k * e for k, e in zip(slopes, terms, strict=True))
    f2 = sum(k * k * e for k, e in zip(slopes, terms, strict=True))
    return 2 * (f2 / f - (f1 / f) ** 2)


def fourier_rhs_1d(
    right_side: Callable[..., Array], length: float, points: int, order: int
) -> Callable[[float, Array], Array]:
    """Method of lines: u_t = right_side(t, u, u_x, …, ∂ₓ^order u) with spectral derivatives."""
    k = 2j * np.pi * np.fft.fftfreq(points, length / points)

    def rhs(t: float, u: Array) -> Array:
        hat = np.fft.fft(u)
        return right_side(t, *(np.fft.ifft(k**n * hat).real for n in range(order + 1)))

    return rhs


def integrate(rhs: Callable, start: Array, times: Array, method: str = "BDF", **options) -> Array:
    """SciPy's own integrator at tight tolerances, ``[T, ...]``."""
    options = {"rtol": 1e-10, "atol": 1e-12, **options}
    solution = solve_ivp(rhs, (times[0], times[-1]), start, method, times, **options)
    assert solution.success, solution.message
    return solution.y.T


def burgers_potential_flow(velocity: list[Array], nu: float, t: float) -> list[Array]:
    """Burgers' equations of a velocity without curl or mean on a periodic box of unit sides.

    With u = ∇Φ the function exp(−Φ/2ν) obeys the heat equation, and u = −2ν ∇φ/φ (J. D. Cole, as
    above; C. A. J. Fletcher, Int. J. Numer. Methods Fluids 3 (1983), doi:10.1002/fld.1650030302).

    Args:
        velocity: One array ``[n, …, n]`` per axis.
        nu: Viscosity.
        t: Time.
    """
    shape = velocity[0].shape
    waves = [2 * np.pi * np.fft.fftfreq(n, 1 / n) for n in shape]
    waves = np.meshgrid(*waves, indexing="ij")
    squares = sum(k * k for k in waves)
    divided = np.where(squares > 0, squares, 1.0)
    hat = sum(-1j * k * np.fft.fftn(u) for k, u in zip(waves, velocity, strict=True)) / divided
    potential = np.fft.ifftn(hat).real
    heat = np.fft.fftn(np.exp(-potential / (2 * nu))) * np.exp(-nu * squares * t)
    below = np.fft.ifftn(heat).real
    return [-2 * nu * np.fft.ifftn(1j * k * heat).real / below for k in waves]


def periodic_second_difference(n: int, length: float = 1.0) -> Array:
    """∂²/∂x² on n even points of a periodic interval by differences of sixth order ``[n, n]``."""
    weights = {0: -49 / 18, 1: 3 / 2, 2: -3 / 20, 3: 1 / 90}
    matrix = np.zeros((n, n))
    for apart, weight in weights.items():
        for sign in {apart, -apart}:
            matrix += weight * np.roll(np.eye(n), sign, axis=1)
    return matrix * (n / length) ** 2
