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


@pytest.fixture(scope="session")
def creeping_flow():
    """Flow in a box, an inflow its input: three unknowns, and a condition that is no hard one."""
    long = {"amplitude": [-0.8, 0.8], "wavenumber": [1, 1]}
    return Problem(
        name="flow",
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u", "v", "p"],
        inputs={
            "h": {"of": ["y"], "law": "fourier_series", "terms": 1, **long, "hidden": True},
            "g": {"of": ["y"], "expression": "y*(1 - y)*(1 + h)"},
        },
        equations=["-lap(u) + dx(p) = 0", "-lap(v) + dy(p) = 0", "dx(u) + dy(v) = 0"],
        boundary={
            "x.min": {"dirichlet": {"u": "g", "v": 0}},
            "x.max": ["dx(u) - p = 0", {"dirichlet": {"v": 0}}],
            "y": {"dirichlet": {"u": 0, "v": 0}},
        },
        sensors={"g": {"count": 17, "place": "grid"}},
        save={"x": 21, "y": 21},
    )
