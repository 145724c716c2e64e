"""The code and the table of docs/export.md."""

import re
from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest
import torch

from piop.datasets import Queries
from piop.fields import FunctionSamples
from piop.models import BACKBONES
from piop.run.prediction import predict_values

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text()


def code(name):
    return re.search(rf"<!-- code: {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def run_code(monkeypatch, tmp_path):
    """Run the code of the page where a file of the small run has the name that it has there."""

    def run(name, path):
        copyfile(path, tmp_path / f"burgers.{name}")
        monkeypatch.chdir(tmp_path)
        names = {}
        exec(compile(code(name), "docs/export.md", "exec"), names)
        return names

    return run


def expected(run, points, values, queries):
    given = {"u0": FunctionSamples(torch.as_tensor(points), torch.as_tensor(values)[..., None])}
    at = Queries(points=torch.as_tensor(queries)[None])
    return predict_values(run.problem, run.model, given, at)[..., 0].numpy()


def test_the_code_that_loads_onnx(run_code, heat, onnx_file):
    found = run_code("onnx", onnx_file.path)
    truth = expected(heat, found["sensors"][None], found["u0"], found["queries"])
    assert found["u"].shape == (1, 5, 64)
    assert np.abs(found["u"].reshape(1, -1) - truth).max() < 1e-9


def test_the_code_that_loads_pt2(run_code, heat, pt2_file):
    found = run_code("pt2", pt2_file.path)
    truth = expected(heat, found["x"], found["u0"], found["queries"])
    assert found["u"].shape == (3, 1000)
    size = np.abs(truth).max()
    assert np.abs(found["u"].numpy() - truth).max() < 1e-6 * size


@pytest.mark.parametrize("name", ["onnx", "pt2"])
def test_the_code_is_short(name):
    assert len([line for line in code(name).splitlines() if line.strip()]) <= 20


def test_the_table_has_every_network_once():
    table = PAGE[PAGE.index("<!-- networks -->") : PAGE.index("<!-- end of networks -->")]
    rows = re.findall(r"^\| (`.*`) \| (yes|no.*?) \| (yes|no.*?) \|$", table, re.MULTILINE)
    names = [name for cells in rows for name in re.findall(r"`(\w+)`", cells[0])]
    assert sorted(names) == sorted(BACKBONES)
    assert {kind for _, *kinds in rows for kind in kinds} == {"yes"}
