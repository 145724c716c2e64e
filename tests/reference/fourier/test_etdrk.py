"""Coefficients of ETDRK4 against their definitions in high precision and against expm."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch

from piop.reference.fourier.time_stepping import coupled_coefficients, scalar_coefficients

mpmath.mp.dps = 120
STEP = 0.3


def definition(z):
    """Cox and Matthews' coefficients without h, in 120 digits."""
    z = mpmath.mpc(z) + mpmath.mpf(10) ** -25  # their limit at 0, to 25 digits
    e = mpmath.exp(z)
    return {
        "E": e,
        "E2": mpmath.exp(z / 2),
        "Q": (mpmath.exp(z / 2) - 1) / z,
        "f1": (-4 - z + e * (4 - 3 * z + z**2)) / z**3,
        "f2": 2 * (2 + z + e * (z - 2)) / z**3,
        "f3": (-4 - 3 * z - z**2 + e * (4 - z)) / z**3,
    }


@pytest.mark.parametrize(
    "z", [0, -1, -1e-3, -0.5, -3.7, -400.0, 1j, 3j, -1j * 40, -0.2 + 5j, 0.7, 1e-9j]
)
def test_scalar_coefficients_equal_their_definition(z):
    found = scalar_coefficients(torch.tensor([z / STEP], dtype=torch.complex128), STEP)
    for name, exact in definition(z).items():
        factor = 1 if name in ("E", "E2") else STEP
        assert abs(complex(found[name][0]) - factor * complex(exact)) < 3e-14, name


def test_real_symbol_gives_real_coefficients():
    found = scalar_coefficients(torch.linspace(-50, 1, 40).to(torch.complex128), STEP)
    assert all(not v.imag.any() for v in found.values())


BLOCKS = {
    "wave": [[0, 1], [-100.0, 0]],
    "wave at k = 0 (defective)": [[0, 1], [0, 0]],
    "nearly defective": [[0, 1], [-1e-10, 0]],
    "stiff and slow": [[-400.0, 3], [1, -0.1]],
    "complex": [[2j, 0.3], [-0.3, -5j]],
    "three": [[-1.0, 2, 0], [0, -1, 1], [0.5, 0, -30]],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_coupled_coefficients_equal_expm(name):
    a = np.array(BLOCKS[name], dtype=complex)
    n = len(a)
    found = coupled_coefficients(torch.tensor(a), STEP)
    big = np.zeros((4 * n, 4 * n), dtype=complex)
    big[:n, :n] = STEP * a
    for i in range(3):
        big[i * n : (i + 1) * n, (i + 1) * n : (i + 2) * n] = np.eye(n)
    e, p1, p2, p3 = np.split(scipy.linalg.expm(big)[:n], 4, axis=1)
    half = big.copy()
    half[:n, :n] /= 2
    e2, q = np.split(scipy.linalg.expm(half)[:n], 4, axis=1)[:2]
    exact = {
        "E": e,
        "E2": e2,
        "Q": STEP / 2 * q,
        "f1": STEP * (p1 - 3 * p2 + 4 * p3),
        "f2": STEP * (2 * p2 - 4 * p3),
        "f3": STEP * (-p2 + 4 * p3),
    }
    for key, value in exact.items():
        assert np.abs(found[key].numpy() - value).max() < 1e-11 * max(1, np.abs(value).max()), key
