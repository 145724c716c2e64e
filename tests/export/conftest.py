"""Small untrained runs, each exported once."""

import pytest

from piop.problem import Problem
from piop.run import fit
from tests.small_heat import HEAT

TINY = "solve: {width: 8, blocks: 1, heads: 2, functions: 2, queries: 16}\n"
UNITS = "units: {x: m, t: s, u: K}\n"


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Make a run of a spec after one step, so that its weights are not trained but not alike."""

    def make(text, **settings):
        path = tmp_path_factory.mktemp("runs") / "run"
        usual = {"steps": 1, "samples": 1, "calibrate": 0, "device": "cpu", "precision": "float64"}
        return fit(Problem.from_yaml(text), out=path, **{**usual, **settings})

    return make


@pytest.fixture(scope="session")
def heat(make_run):
    return make_run(HEAT + UNITS + TINY)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="session")
def onnx_file(heat, folder):
    return heat.export(folder / "small_heat.onnx")


@pytest.fixture(scope="session")
def pt2_file(heat, folder):
    return heat.export(folder / "small_heat.pt2")
