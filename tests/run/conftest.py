"""A small problem, trained for a moment once for all tests."""

import pytest

from piop.problem import Problem
from piop.run import fit

HEAT = """
piop: 1
name: small_heat
time: {t: [1, 2]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) = 0.05*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
units: {x: m, t: s, u: K}
solve: {width: 8, blocks: 1, heads: 2, functions: 4, queries: 32}
"""


@pytest.fixture(scope="session")
def heat():
    return Problem.from_yaml(HEAT)


@pytest.fixture(scope="session")
def trained(heat, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "trained"
    return fit(heat, steps=250, out=path, samples=6, device="cpu", precision="float64")
