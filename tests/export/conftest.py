"""Small untrained runs, each exported once."""

import pytest

from piop.export import export
from piop.export.formats import FORMATS
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
    """The smallest graph."""
    small = {"width": 8, "linear_part": "learned"}
    return make_run(HEAT + UNITS, backbone="deeponet", settings=small)


@pytest.fixture(scope="session")
def captured(heat):
    """The graph of that run for each format, captured once."""
    return {name: export.capture(heat, entry) for name, entry in FORMATS.items()}


@pytest.fixture
def captured_once(captured, monkeypatch):
    """Let exports take those graphs, or others that a test puts in their place."""
    found = dict(captured)
    monkeypatch.setattr(export, "capture", lambda run, chosen, sensors: found[chosen.name])
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="session")
def files(heat, folder, captured):
    """The two files of that run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "capture", lambda run, chosen, sensors: captured[chosen.name])
        return {name: heat.export(folder / f"small_heat.{name}") for name in FORMATS}


@pytest.fixture(scope="session")
def onnx_file(files):
    return files["onnx"]


@pytest.fixture(scope="session")
def pt2_file(files):
    return files["pt2"]
