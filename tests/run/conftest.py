"""A small problem, trained for a moment once for all tests."""

import pytest

from piop.problem import Problem
from piop.run import fit
from tests.small_heat import HEAT

OPTIONS = """
units: {x: m, t: s, u: K}
solve: {width: 8, blocks: 1, heads: 2, functions: 4, queries: 32}
"""


@pytest.fixture(scope="session")
def heat():
    return Problem.from_yaml(HEAT + OPTIONS)


@pytest.fixture(scope="session")
def trained(heat, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "trained"
    own = {"device": "cpu", "precision": "float64"}
    return fit(heat, steps=250, out=path, samples=6, calibrate=0, **own)
